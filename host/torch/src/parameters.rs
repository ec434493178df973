//! Parameters on a device: operators of relation types, and global embeddings.

use pbg_core::graph::Side;
use tch::{Kind, TchError, Tensor};

use super::device::TorchDevice;
use super::fused::CudaUpdate;
use super::parameter_rows::ParameterRows;
use super::touched::TouchedRows;
use super::transfer;
use pbg_rows::optimizer::EPSILON;
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;

/// All parameters and their accumulators, in the order of [`Params::tensors`], `[rows, width]` each.
pub(super) struct DeviceParameters {
    values: Vec<Tensor>,
    adagrad: Vec<Tensor>,
}

/// Parameters that one batch reads, and the sums of their gradients.
pub(super) struct BatchParameters {
    /// Operator tensors of each side, with a row per relation that occurs.
    operators: [Vec<ParameterRows>; 2],
    /// Global embedding of each side.
    globals: [Option<ParameterRows>; 2],
}

impl DeviceParameters {
    /// Copies `params` to `place`.
    pub(super) fn new(params: &Params, place: TorchDevice) -> Result<Self, TchError> {
        let (mut values, mut adagrad) = (Vec::new(), Vec::new());
        for tensor in params.tensors() {
            let rows = tensor.values.rows();
            values.push(transfer::upload(&tensor.to_vec(), rows, place)?);
            adagrad.push(transfer::upload(&tensor.adagrad_to_vec(), rows, place)?);
        }
        Ok(Self { values, adagrad })
    }

    /// Copies all parameters back to `params`.
    pub(super) fn download(&self, params: &Params) -> Result<(), TchError> {
        for (tensor, (values, adagrad)) in params
            .tensors()
            .iter()
            .zip(self.values.iter().zip(&self.adagrad))
        {
            transfer::download(values, |first, rows| tensor.values.write_rows(first, rows))?;
            transfer::download(adagrad, |first, rows| {
                tensor.adagrad.write_rows(first, rows)
            })?;
        }
        Ok(())
    }

    /// Copies the parameters that a batch of `relation` reads.
    pub(super) fn read(
        &self,
        spec: &ModelSpec,
        relation: usize,
        params: &Params,
        touched: &TouchedRows,
    ) -> Result<BatchParameters, TchError> {
        let mut read = BatchParameters {
            operators: Default::default(),
            globals: [None, None],
        };
        let mut selected = Vec::new();
        for side in Side::BOTH {
            for index in params.operator_indices(relation, side) {
                let values = self.values[index].f_index_select(0, &touched.relations)?;
                selected.push((side, index, values));
            }
            if let Some(index) = params.global_index(spec.relations[relation].entity(side)) {
                let values = self.values[index].f_narrow(0, 0, 1)?;
                read.globals[side as usize] = Some(ParameterRows {
                    index,
                    gradients: values.f_zeros_like()?,
                    values,
                });
            }
        }
        // All gradients share one tensor, since each operation costs as much host time as the computation of a small
        // one.
        let numbers = |(_, _, values): &(Side, usize, Tensor)| values.numel() as i64;
        let Some((_, _, first)) = selected.first() else {
            return Ok(read);
        };
        let total = selected.iter().map(numbers).sum::<i64>();
        let zeros = Tensor::f_zeros([total], (first.kind(), first.device()))?;
        let mut start = 0;
        for (side, index, values) in selected {
            let count = values.numel() as i64;
            let gradients = zeros.f_narrow(0, start, count)?.f_reshape(values.size())?;
            start += count;
            read.operators[side as usize].push(ParameterRows {
                index,
                values,
                gradients,
            });
        }
        Ok(read)
    }

    /// Applies Adagrad with an accumulator per element. Elements that are not finite are skipped; returns for each
    /// parameter whether there were none.
    pub(super) fn update(
        &mut self,
        read: BatchParameters,
        touched: &TouchedRows,
        lr: f32,
    ) -> Result<Vec<Tensor>, TchError> {
        let mut finite = Vec::new();
        for (parameter, rows) in read.changed(touched)? {
            finite.push(self.apply_with_libtorch(&parameter, &rows, lr)?);
        }
        Ok(finite)
    }

    /// Applies Adagrad on a GPU, unless the loss is not finite.
    pub(super) fn apply(
        &mut self,
        read: BatchParameters,
        touched: &TouchedRows,
        update: &CudaUpdate<'_>,
    ) -> Result<(), TchError> {
        for (parameter, rows) in read.changed(touched)? {
            let index = parameter.index;
            let all = [&self.values[index], &self.adagrad[index]];
            let CudaUpdate { kernels, lr, sums } = *update;
            kernels.update_parameters(&parameter, &rows, all, lr, sums)?;
        }
        Ok(())
    }

    fn apply_with_libtorch(
        &mut self,
        parameter: &ParameterRows,
        rows: &Tensor,
        lr: f32,
    ) -> Result<Tensor, TchError> {
        let ParameterRows {
            index,
            values,
            gradients,
        } = parameter;
        let accumulated = self.adagrad[*index].f_index_select(0, rows)?;
        let sums = accumulated.f_add(&gradients.f_square()?)?;
        let finite = sums.f_isfinite()?;
        let moved = gradients
            .f_mul_scalar(f64::from(lr))?
            .f_div(&sums.f_sqrt()?.f_add_scalar(f64::from(EPSILON))?)?
            .f_masked_fill(&finite.f_logical_not()?, 0.0)?;
        let _same = self.values[*index].f_index_copy_(0, rows, &values.f_sub(&moved)?)?;
        let sums = sums.f_where_self(&finite, &accumulated)?;
        let _same = self.adagrad[*index].f_index_copy_(0, rows, &sums)?;
        finite.f_all()
    }
}

impl BatchParameters {
    /// Returns the parameters with gradients, each once, and their rows in the full tensor.
    fn changed(self, touched: &TouchedRows) -> Result<Vec<(ParameterRows, Tensor)>, TchError> {
        let Self { operators, globals } = self;
        let mut changed = Vec::new();
        for parameter in operators.into_iter().flatten() {
            changed.push((parameter, touched.relations.shallow_clone()));
        }
        let [lhs, rhs] = globals;
        let globals = match (lhs, rhs) {
            // A vector that both sides share gets one step, with the sum of the gradients.
            (Some(mut lhs), Some(rhs)) if lhs.index == rhs.index => {
                let _same = lhs.gradients.f_add_(&rhs.gradients)?;
                [Some(lhs), None]
            }
            both => both.into(),
        };
        for parameter in globals.into_iter().flatten() {
            let first = Tensor::f_zeros([1], (Kind::Int64, parameter.values.device()))?;
            changed.push((parameter, first));
        }
        Ok(changed)
    }

    /// Returns the operator's parameters on `side`.
    pub(super) fn operator(&mut self, side: Side) -> &mut [ParameterRows] {
        &mut self.operators[side as usize]
    }

    /// Returns whether `side` has a global embedding.
    pub(super) fn has_global(&self, side: Side) -> bool {
        self.globals[side as usize].is_some()
    }

    /// Returns the global embedding on `side`.
    pub(super) fn global(&mut self, side: Side) -> Option<&mut ParameterRows> {
        self.globals[side as usize].as_mut()
    }
}
