//! Scores of a slice in one direction on a device, and their gradients. A direction compares the negatives that replace
//! one side with the other side's positives.

use pbg_core::batch_graph::Negatives;
use pbg_core::model::Comparator;
use pbg_core::strategy::MASKED;
use tch::{Kind, TchError, Tensor};

use super::distances::{length, slope, without_noise};
use super::fused::CudaKernels;
use super::rows::{DeviceGradients, DeviceRows};
use super::score_tensors::ScoreTensors;
use pbg_kernels::device::ScoreFunction;
use pbg_kernels::device::Slice;

/// One direction of one slice.
pub(super) struct SliceDirection<'a> {
    /// Kernels; `None` without a GPU.
    pub(super) kernels: Option<&'a CudaKernels>,
    pub(super) slice: &'a Slice,
    /// Kind of the negatives that replace the side.
    pub(super) negatives: Negatives,
    pub(super) comparison: ScoreFunction,
    /// Whether products have bfloat16 factors.
    pub(super) half: bool,
    /// With all entities as negatives: the true entity of each row.
    pub(super) positive_entities: Tensor,
}

/// Rows that are compared: those of the side that is replaced, all entities if all are negatives, and the rows of the
/// other side.
pub(super) struct ComparedRows<'a, T> {
    pub(super) candidates: &'a mut T,
    pub(super) all: Option<&'a mut T>,
    pub(super) queries: &'a mut T,
}

impl SliceDirection<'_> {
    fn edges(&self) -> i64 {
        self.slice.rows.len() as i64
    }

    fn all(&self) -> bool {
        self.negatives == Negatives::All
    }

    /// Returns whether the chunk's own positives are candidates, and the number of draws per chunk.
    fn sampled(&self) -> (bool, i64) {
        match self.negatives {
            Negatives::Sampled { in_batch, uniform } => (in_batch, uniform as i64),
            Negatives::None | Negatives::All => (false, 0),
        }
    }

    /// Returns whether the positives' scores are on the diagonal of the products. For distances they are not used: the
    /// cancellation of large numbers would spoil the positives' small distances.
    fn positive_on_diagonal(&self) -> bool {
        self.sampled().0 && !self.comparison.is_distance()
    }

    /// Returns whether scores are plain inner products.
    fn is_product(&self) -> bool {
        !self.comparison.is_distance() && !self.comparison.bias
    }

    /// Reshapes the positives' rows to `[chunks, positives, ...]`, padded with zeros.
    fn chunked(&self, rows: &Tensor) -> Result<Tensor, TchError> {
        let missing = self.slice.padded() as i64 - self.edges();
        let mut size = rows.size();
        let padded = match (missing, size.len()) {
            (0, _) => rows.shallow_clone(),
            // Nothing to pad, which PyTorch 2.9 refuses.
            _ if size.contains(&0) => rows.shallow_clone(),
            (_, 1) => rows.f_constant_pad_nd([0, missing])?,
            _ => rows.f_constant_pad_nd([0, 0, 0, missing])?,
        };
        size.splice(0..1, [self.slice.chunks as i64, self.slice.chunk as i64]);
        padded.f_reshape(size)
    }

    /// Returns the positives among the rows of a side.
    fn positives(&self, rows: &Tensor) -> Result<Tensor, TchError> {
        rows.f_narrow(0, 0, self.edges())
    }

    /// Returns the candidates among the rows of the side that is replaced: `[chunks, columns, ...]`.
    fn candidates(&self, rows: &Tensor) -> Result<Tensor, TchError> {
        if self.all() {
            return rows.f_unsqueeze(0);
        }
        let (in_batch, uniform) = self.sampled();
        let chunks = self.slice.chunks as i64;
        let mut size = rows.size();
        size.splice(0..1, [chunks, uniform]);
        let draws = rows.f_narrow(0, self.edges(), chunks * uniform)?;
        let draws = draws.f_reshape(size)?;
        match in_batch {
            true => Tensor::f_cat(&[self.chunked(&self.positives(rows)?)?, draws], 1),
            false => Ok(draws),
        }
    }

    /// Inverse of `candidates`: adds values of candidates to those of the rows of their side.
    fn add_candidates(&self, to: &mut Tensor, candidates: &Tensor) -> Result<(), TchError> {
        if self.all() {
            let _same = to.f_add_(&candidates.f_squeeze_dim(0)?)?;
            return Ok(());
        }
        let (in_batch, uniform) = self.sampled();
        let chunk = if in_batch { self.slice.chunk as i64 } else { 0 };
        let edges = self.edges();
        if in_batch {
            let mut target = to.f_narrow(0, 0, edges)?;
            let from = self.flat(&candidates.f_narrow(1, 0, chunk)?)?;
            let _same = target.f_add_(&from)?;
        }
        if uniform > 0 {
            let count = self.slice.chunks as i64 * uniform;
            let mut target = to.f_narrow(0, edges, count)?;
            let from = candidates.f_narrow(1, chunk, uniform)?;
            let _same = target.f_add_(&from.f_reshape(target.size())?)?;
        }
        Ok(())
    }

    /// Reshapes `[chunks, positives, ...]` to one row per edge, without padding.
    fn flat(&self, chunked: &Tensor) -> Result<Tensor, TchError> {
        let mut size = chunked.size();
        size.splice(0..2, [-1]);
        if size.len() == 2 && size[1] == 0 {
            // The number of rows cannot be inferred from an empty tensor.
            size[0] = self.slice.padded() as i64;
        }
        self.positives(&chunked.f_reshape(size)?)
    }

    fn product(&self, a: &Tensor, b: &Tensor) -> Result<Tensor, TchError> {
        match self.half {
            false => a.f_bmm(b),
            true => {
                let (a, b) = (a.f_to_kind(Kind::BFloat16)?, b.f_to_kind(Kind::BFloat16)?);
                a.f_bmm(&b)?.f_to_kind(Kind::Float)
            }
        }
    }

    /// Adds a product to `sums`, which is a view of the sums to update.
    fn add_product(&self, mut sums: Tensor, a: &Tensor, b: &Tensor) -> Result<(), TchError> {
        let _same = match self.half {
            false => sums.f_baddbmm_(a, b)?,
            true => sums.f_add_(&self.product(a, b)?)?,
        };
        Ok(())
    }

    /// Computes positive and negative scores, and masks negatives. `undrawn` is true for the draws that are no negatives of
    /// an edge, `[edges, draws]`.
    pub(super) fn score(
        &self,
        compared: &ComparedRows<'_, DeviceRows>,
        undrawn: Option<&Tensor>,
    ) -> Result<ScoreTensors, TchError> {
        let queries = &*compared.queries;
        let among = compared.all.as_deref().unwrap_or(&*compared.candidates);
        let q = self.chunked(&self.positives(&queries.values)?)?;
        let k = self.candidates(&among.values)?;
        let products = self.product(&q, &k.f_transpose(1, 2)?)?;
        let (scores, distances) = self.finish(products, queries, among)?;
        let (positive, positive_distances) = if self.positive_on_diagonal() {
            // A copy, since the mask must not change it.
            let diagonal = self.of_positives(&scores)?.f_mul_scalar(1.0)?;
            (self.flat(&diagonal)?, None)
        } else {
            self.score_positives(compared)?
        };
        let negative = self.flat(&scores)?;
        self.mask(&scores, &negative)?;
        if let Some(undrawn) = undrawn {
            let (in_batch, draws) = self.sampled();
            let first = if in_batch { self.slice.chunk } else { 0 };
            let mut drawn = negative.f_narrow(1, first as i64, draws)?;
            let filled = drawn.f_masked_fill(undrawn, f64::from(MASKED))?;
            drawn.f_copy_(&filled)?;
        }
        Ok(ScoreTensors {
            negative,
            positive,
            distances,
            positive_distances,
        })
    }

    /// Turns inner products into scores; for `l2` also returns the distances.
    fn finish(
        &self,
        products: Tensor,
        queries: &DeviceRows,
        candidates: &DeviceRows,
    ) -> Result<(Tensor, Option<Tensor>), TchError> {
        let (mut scores, mut distances) = (products, None);
        if let (Some(q), Some(k)) = (&queries.squares, &candidates.squares) {
            let q = self.chunked(&self.positives(q)?)?.f_unsqueeze(2)?;
            let k = self.candidates(k)?.f_unsqueeze(1)?;
            let sums = q.f_add(&k)?;
            let squares = sums.f_sub(&scores.f_mul_scalar(2.0)?)?;
            scores = match self.comparison.comparator {
                Comparator::SquaredL2 => squares.f_neg()?,
                _ => {
                    let lengths = length(&without_noise(&squares, &sums)?)?;
                    let negative = lengths.f_neg()?;
                    distances = Some(lengths);
                    negative
                }
            };
        }
        if let (Some(q), Some(k)) = (&queries.biases, &candidates.biases) {
            let q = self.chunked(&self.positives(q)?)?.f_unsqueeze(2)?;
            let k = self.candidates(k)?.f_unsqueeze(1)?;
            scores = scores.f_add(&q)?.f_add(&k)?;
        }
        Ok((scores, distances))
    }

    /// Computes the scores of the positives without the cancellation of products; for `l2` also returns their
    /// distances.
    fn score_positives(
        &self,
        compared: &ComparedRows<'_, DeviceRows>,
    ) -> Result<(Tensor, Option<Tensor>), TchError> {
        let (queries, candidates) = (&*compared.queries, &*compared.candidates);
        let (q, k) = (
            self.positives(&queries.values)?,
            self.positives(&candidates.values)?,
        );
        if let Some(kernels) = self.kernels
            && self.is_product()
        {
            return Ok((kernels.score_positives(&q, &k)?, None));
        }
        let squares = |apart: &Tensor| apart.f_square()?.f_sum_dim_intlist(1_i64, false, None);
        let (mut scores, distances) = match self.comparison.comparator {
            // Formulas are refused before any batch.
            Comparator::Dot
            | Comparator::Cos
            | Comparator::L1
            | Comparator::ComplexL1
            | Comparator::Traced(_) => (q.f_mul(&k)?.f_sum_dim_intlist(1_i64, false, None)?, None),
            Comparator::SquaredL2 => (squares(&q.f_sub(&k)?)?.f_neg()?, None),
            Comparator::L2 => {
                let lengths = length(&squares(&q.f_sub(&k)?)?)?;
                (lengths.f_neg()?, Some(lengths))
            }
        };
        for biases in [&queries.biases, &candidates.biases].into_iter().flatten() {
            scores = scores.f_add(&self.positives(biases)?)?;
        }
        Ok((scores, distances))
    }

    /// Returns the scores of a chunk's positives with themselves, `[chunks, positives]`, as a view.
    fn of_positives(&self, scores: &Tensor) -> Result<Tensor, TchError> {
        scores
            .f_narrow(2, 0, self.slice.chunk as i64)?
            .f_diagonal(0, 1, 2)
    }

    /// Masks each positive among its own negatives, and padding. `negative` is a view of `scores`.
    fn mask(&self, scores: &Tensor, negative: &Tensor) -> Result<(), TchError> {
        let masked = f64::from(MASKED);
        if self.all() {
            let positive_entities = self.positive_entities.f_unsqueeze(1)?;
            let _same = negative
                .shallow_clone()
                .f_scatter_value_(1, &positive_entities, masked)?;
        }
        if self.sampled().0 {
            let _same = self.of_positives(scores)?.f_fill_(masked)?;
            let last = self.slice.chunks - 1;
            let filled = self.slice.filled(last);
            let padding = (self.slice.chunk - filled) as i64;
            let mut columns =
                scores
                    .f_narrow(0, last as i64, 1)?
                    .f_narrow(2, filled as i64, padding)?;
            let _same = columns.f_fill_(masked)?;
        }
        Ok(())
    }

    /// Adds the gradients of both sides' rows; `scores` holds gradients.
    pub(super) fn differentiate(
        &self,
        scores: &ScoreTensors,
        rows: &ComparedRows<'_, DeviceRows>,
        sums: &mut ComparedRows<'_, DeviceGradients>,
    ) -> Result<(), TchError> {
        let mut factors = self.chunked(&scores.negative)?;
        if self.positive_on_diagonal() {
            factors = factors.f_mul_scalar(1.0)?;
            let positive = self.chunked(&scores.positive)?;
            self.of_positives(&factors)?.f_copy_(&positive)?;
        }
        if factors.size()[2] > 0 {
            let factors = self.finish_backward(factors, scores, sums)?;
            let among = rows.all.as_deref().unwrap_or(&*rows.candidates);
            let k = self.candidates(&among.values)?;
            let q = self.chunked(&self.positives(&rows.queries.values)?)?;
            let queries = self.positives(&sums.queries.values)?;
            match self.slice.padded() == self.slice.rows.len() {
                true => self.add_product(self.chunked(&queries)?, &factors, &k)?,
                false => {
                    let of_queries = self.flat(&self.product(&factors, &k)?)?;
                    let _same = queries.shallow_clone().f_add_(&of_queries)?;
                }
            }
            let factors = factors.f_transpose(1, 2)?;
            let target = sums.all.as_deref_mut().unwrap_or(&mut *sums.candidates);
            match self.sampled().0 {
                false => self.add_product(self.candidates(&target.values)?, &factors, &q)?,
                true => {
                    let of_candidates = self.product(&factors, &q)?;
                    self.add_candidates(&mut target.values, &of_candidates)?;
                }
            }
        }
        if !self.positive_on_diagonal() {
            self.differentiate_positives(scores, rows, sums)?;
        }
        Ok(())
    }

    /// Adds the gradients of biases and of distances. Returns the factors of the inner products.
    fn finish_backward(
        &self,
        mut factors: Tensor,
        scores: &ScoreTensors,
        sums: &mut ComparedRows<'_, DeviceGradients>,
    ) -> Result<Tensor, TchError> {
        let target = sums.all.as_deref_mut().unwrap_or(&mut *sums.candidates);
        let along = |factors: &Tensor, dim: i64| factors.f_sum_dim_intlist(dim, false, None);
        if let (Some(q), Some(k)) = (&sums.queries.bias, &mut target.bias) {
            let of_queries = self.flat(&along(&factors, 2)?)?;
            let _same = self.positives(q)?.f_add_(&of_queries)?;
            self.add_candidates(k, &along(&factors, 1)?)?;
        }
        if let (Some(q), Some(k)) = (&sums.queries.row_factors, &mut target.row_factors) {
            factors = slope(&factors, scores.distances.as_ref())?;
            let of_queries = self.flat(&along(&factors, 2)?)?;
            let _same = self.positives(q)?.f_add_(&of_queries)?;
            self.add_candidates(k, &along(&factors, 1)?)?;
        }
        Ok(factors)
    }

    /// Adds gradients through the positives' scores if the products do not include them.
    fn differentiate_positives(
        &self,
        scores: &ScoreTensors,
        rows: &ComparedRows<'_, DeviceRows>,
        sums: &mut ComparedRows<'_, DeviceGradients>,
    ) -> Result<(), TchError> {
        let gradients = &scores.positive;
        let factors = match self.comparison.is_distance() {
            true => slope(gradients, scores.positive_distances.as_ref())?,
            false => gradients.shallow_clone(),
        };
        let each = factors.f_unsqueeze(1)?;
        let (q, k) = (
            self.positives(&rows.queries.values)?,
            self.positives(&rows.candidates.values)?,
        );
        if let Some(kernels) = self.kernels
            && self.is_product()
        {
            let to = [
                self.positives(&sums.queries.values)?,
                self.positives(&sums.candidates.values)?,
            ];
            return kernels.differentiate_positives([&q, &k], gradients, [&to[0], &to[1]]);
        }
        for (sums, other) in [(&*sums.queries, k), (&*sums.candidates, q)] {
            let _same = self.positives(&sums.values)?.f_add_(&other.f_mul(&each)?)?;
            if let Some(bias) = &sums.bias {
                let _same = self.positives(bias)?.f_add_(gradients)?;
            }
            if let Some(row_factors) = &sums.row_factors {
                let _same = self.positives(row_factors)?.f_add_(&factors)?;
            }
        }
        Ok(())
    }
}
