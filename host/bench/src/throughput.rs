//! Speed of libtorch's own matrix products on the shapes of a training step.
//!
//! Rates are per CPU-second, so that other work on the machine matters little. A ceiling is comparable only with
//! measurements of the same minute.

use std::time::Duration;

use pbg_core::graph::Side;
use pbg_core::model::Precision;
use pbg_kernels::libtorch::{self, ProductShape};
use pbg_kernels::step::WorkerError;
use pbg_model::RunError;
use pbg_rows::spec::ModelSpec;

use crate::clocks::thread_cpu_seconds;
/// Returns the number of floating-point operations of one product.
pub(crate) fn operations(shape: ProductShape) -> f64 {
    2.0 * (shape.batch * shape.rows * shape.inner) as f64 * shape.columns as f64
}

/// Returns the mean floating-point operations per CPU-second of libtorch's `bmm` on this thread, repeated for at least
/// `duration`.
///
/// # Errors
/// When libtorch fails.
pub(crate) fn bmm_rate(
    shape: ProductShape,
    precision: Precision,
    duration: Duration,
) -> Result<f64, RunError> {
    let libtorch = libtorch::installed().map_err(WorkerError::from)?;
    let product = libtorch.product(shape, precision)?;
    let start = pbg_clock::now();
    let begin = thread_cpu_seconds();
    let mut repetitions = 0;
    while start.elapsed() < duration || repetitions < 3 {
        product.multiply()?;
        repetitions += 1;
    }
    let seconds = thread_cpu_seconds() - begin;
    Ok(operations(shape) * f64::from(repetitions) / seconds)
}

/// The matrix products of a chunk of positives: for each side that negatives replace, the scores and both of their
/// gradients.
pub(crate) struct ChunkProducts {
    /// Number of positives.
    pub(crate) edges: usize,
    /// Shapes of the products.
    pub(crate) shapes: Vec<ProductShape>,
}

impl ChunkProducts {
    /// Returns the products for batches of `batch` edges of the first relation between partitions of `entities`
    /// entities. If `shares_products`, those of positives with positives are computed once for both sides.
    pub(crate) fn new(
        spec: &ModelSpec,
        batch: usize,
        entities: usize,
        shares_products: bool,
    ) -> Self {
        let rules = &spec.relations[0];
        let chunk = spec.chunk_size(rules, batch).min(batch);
        let dimension = spec.entities[rules.rhs].dimension;
        let in_batch = if spec.num_batch_negs > 0 { chunk } else { 0 };
        let sides = Side::BOTH.into_iter().filter(|&side| !spec.disabled(side));
        let shapes = sides.flat_map(|side| {
            let uniform = match rules.all_negs {
                true => entities,
                false => spec.uniform_negatives(rules, side),
            };
            let all = uniform + if rules.all_negs { 0 } else { in_batch };
            // The first side computes the scores of positives, and the second one their gradients.
            let (scored, differentiated) = match (shares_products, side) {
                (false, _) => (all, all),
                (true, Side::Lhs) => (all, uniform),
                (true, Side::Rhs) => (uniform, all),
            };
            [
                [chunk, dimension, scored],
                [chunk, differentiated, dimension],
                [differentiated, chunk, dimension],
            ]
        });
        let shapes = shapes.filter(|shape| !shape.contains(&0));
        let shapes = shapes.map(|shape| {
            let [rows, inner, columns] = shape.map(|extent| extent as i64);
            ProductShape {
                batch: 1,
                rows,
                inner,
                columns,
            }
        });
        Self {
            edges: chunk,
            shapes: shapes.collect(),
        }
    }

    /// Returns the seconds that the products take, of which `rate` returns the floating-point operations per second.
    /// Each shape is measured once.
    pub(crate) fn seconds<E>(
        &self,
        mut rate: impl FnMut(ProductShape) -> Result<f64, E>,
    ) -> Result<f64, E> {
        let mut known: Vec<(ProductShape, f64)> = Vec::new();
        let mut seconds = 0.0;
        for &shape in &self.shapes {
            let found = known.iter().find(|(known, _)| *known == shape);
            let measured = match found {
                Some(&(_, rate)) => rate,
                None => rate(shape)?,
            };
            known.push((shape, measured));
            seconds += operations(shape) / measured;
        }
        Ok(seconds)
    }
}

/// Returns the edges per CPU-second if a step consisted only of its matrix products, computed by libtorch. A step has
/// `batch` edges of the first relation between partitions of `entities` entities.
///
/// # Errors
/// When libtorch fails.
pub(crate) fn ceiling(
    spec: &ModelSpec,
    batch: usize,
    entities: usize,
    precision: Precision,
) -> Result<f64, RunError> {
    let products = ChunkProducts::new(spec, batch, entities, false);
    let rate = |shape| bmm_rate(shape, precision, Duration::from_millis(300));
    Ok(products.edges as f64 / products.seconds(rate)?)
}
