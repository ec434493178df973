//! Rows of the working set that a stage reads, and to which their gradients are added.

use pbg_core::batch_graph::{GatherStage, RegularizedRows};
use pbg_core::graph::Side;
use pbg_core::model::Operator;
use pbg_kernels::device::{Slice, SliceStages};
use tch::{Kind, TchError, Tensor};

use super::DeviceStep;
use crate::fused::OperatorKernel;
use crate::operator::OperatorApplication;
use crate::rows::{DeviceGradients, DeviceRows};
use crate::touched::part;

/// Rows of the working set with the same transformation.
pub(super) struct RowSelection<'t> {
    side: Side,
    /// Side whose parameters the operator has.
    operator_side: Side,
    /// Offsets of the rows in the working set.
    places: Tensor,
    transform: OperatorApplication<'t>,
    /// Kernel that looks up and transforms the rows in one pass, and its backward pass.
    at_once: Option<OperatorKernel<'t>>,
}

impl<'b> DeviceStep<'b> {
    /// Returns the index of each edge's relation in a slice, with dynamic relations.
    pub(super) fn relations(&self, slice: &Slice) -> Result<Option<Tensor>, TchError> {
        match self.job.relations() {
            Some(_) => Ok(Some(part(&self.touched.relation_of_edge, slice)?)),
            None => Ok(None),
        }
    }

    /// Looks up, transforms and prepares rows.
    pub(super) fn prepare(&mut self, selection: &RowSelection<'_>) -> Result<DeviceRows, TchError> {
        let RowSelection {
            side,
            operator_side,
            places,
            transform,
            at_once,
        } = selection;
        if let Some(kernel) = *at_once {
            let operator = self.read.operator(*operator_side);
            let values = self
                .set
                .transformed(kernel, places, operator, transform.relations)?;
            return DeviceRows::without_input(values, self.comparison());
        }
        let mut rows = self.set.look_up(places, self.spec.max_norm)?;
        if let Some(global) = self.read.global(*side) {
            let _same = rows.f_add_(&global.values)?;
        }
        let comparison = self.comparison();
        DeviceRows::new(
            rows,
            transform,
            self.read.operator(*operator_side),
            comparison,
        )
    }

    /// Selects all entities of a side. If rows change between slices, `changes` is true, and their values before the
    /// operator have to be kept.
    pub(super) fn all(
        &self,
        side: Side,
        stage: &GatherStage,
        changes: bool,
    ) -> Result<RowSelection<'b>, TchError> {
        let operator = stage.operator;
        let first = match side == Side::Rhs && !self.job.tables.shared() {
            true => self.touched.rows[0].size()[0],
            false => 0,
        };
        let count = self.job.tables.side(side).entities() as i64;
        let places = (Kind::Int64, self.place.device());
        Ok(RowSelection {
            side,
            operator_side: stage.operator_side,
            places: Tensor::f_arange_start(first, first + count, places)?,
            at_once: self.at_once(side, operator).filter(|_| !changes),
            transform: OperatorApplication {
                operator,
                relations: None,
                kernels: self.kernels,
            },
        })
    }

    /// Selects a slice's positives on `side`, and the draws that replace them.
    pub(super) fn of_slice<'t>(
        &self,
        at: SliceStages<'_>,
        side: Side,
        relations: Option<&'t Tensor>,
    ) -> Result<RowSelection<'t>, TchError>
    where
        'b: 't,
    {
        let (slice, stage) = (at.slice, &at.stages.gather[side as usize]);
        let &GatherStage {
            uniform, operator, ..
        } = stage;
        let mut places = part(&self.touched.positives[side as usize], slice)?;
        if uniform > 0 {
            let first = (slice.first_chunk * uniform) as i64;
            let count = (slice.chunks * uniform) as i64;
            let draws = self.touched.draws[side as usize].f_narrow(0, first, count)?;
            places = Tensor::f_cat(&[places, draws], 0)?;
        }
        let looked_up =
            at.stages.scatter[side as usize].regularized == Some(RegularizedRows::LookedUp);
        Ok(RowSelection {
            side,
            operator_side: stage.operator_side,
            places,
            at_once: self.at_once(side, operator).filter(|_| !looked_up),
            transform: OperatorApplication {
                operator,
                relations,
                kernels: self.kernels,
            },
        })
    }

    /// Returns the kernel for rows of `side`, if `operator` is their only transformation.
    fn at_once(&self, side: Side, operator: Operator) -> Option<OperatorKernel<'b>> {
        let is_alone = self.spec.max_norm.is_none() && !self.read.has_global(side);
        OperatorKernel::of(self.kernels, operator).filter(|_| is_alone)
    }

    /// Computes gradients of the rows as they were looked up from those of prepared rows. If a kernel looks up and
    /// transforms in one pass, it still has to go back through the operator.
    pub(super) fn back(
        &mut self,
        selection: &RowSelection<'_>,
        rows: &DeviceRows,
        gradients: DeviceGradients,
    ) -> Result<Tensor, TchError> {
        let operator = self.read.operator(selection.operator_side);
        rows.backward(gradients, &selection.transform, operator)
    }

    /// Sums gradients by row of the working set.
    pub(super) fn sum(
        &mut self,
        selection: &RowSelection<'_>,
        gradients: &Tensor,
    ) -> Result<(), TchError> {
        if let Some(kernel) = selection.at_once {
            let relations = selection.transform.relations;
            let operator = self.read.operator(selection.operator_side);
            let places = &selection.places;
            return self
                .set
                .add_transform_gradients(kernel, places, operator, relations, gradients);
        }
        if let Some(global) = self.read.global(selection.side) {
            let sum = gradients.f_sum_dim_intlist(0_i64, true, None)?;
            let _same = global.gradients.f_add_(&sum)?;
        }
        self.set.add(&selection.places, gradients)
    }
}
