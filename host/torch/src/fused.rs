//! CUDA kernels for computations that would take libtorch many passes over the same numbers.
//!
//! They are compiled when a worker is created, and a loss when it is first evaluated, by the compiler that comes with
//! libtorch ([`compiler`]). Products, and sorting of rows, are left to libtorch. Each kernel computes the same as the
//! operations that its caller uses in main memory. Tests compare both: on a GPU and, except for rows of more than a
//! warp, on the CPU, for which the same source is compiled as C++.

#![expect(
    unsafe_code,
    reason = "kernels are started, whose source the compiler does not see"
)]

mod compiler;
#[cfg(test)]
mod cpu_kernels;
mod cuda;
mod loss_source;
#[cfg(test)]
pub(crate) mod tests;

use std::cell::RefCell;
use std::sync::Arc;

use pbg_core::model::Operator;
use pbg_core::strategy::LossFormula;
use pbg_formula::loss::DerivedLoss;
use pbg_rows::optimizer::EPSILON;
use tch::{TchError, Tensor};

pub(super) use self::compiler::{CudaEvent, new_stream, open};
use self::compiler::{DeviceKernel, Gpu, KernelArgument, KernelCompiler, LaunchSize, WARP};
use self::loss_source::RowLayout;
use super::device::TorchDevice;
use super::parameter_rows::ParameterRows;
use super::score_tensors::ScoreTensors;
use super::sums::BatchSums;

/// Threads of a block.
const BLOCK: u32 = 256;
/// Largest number of blocks of a loss: several per multiprocessor of the largest GPUs.
const MOST_BLOCKS: i64 = 2048;
/// Rows per block of `transform_back`, as in `kernels.cu`.
const ROWS: i64 = 16;

/// Compiled kernels of one GPU.
pub(super) struct CudaKernels {
    compiler: KernelCompiler,
    update_rows: DeviceKernel,
    update_parameters: DeviceKernel,
    score_positives: DeviceKernel,
    differentiate_positives: DeviceKernel,
    transform: DeviceKernel,
    transform_back: DeviceKernel,
    losses: RefCell<Vec<(Arc<DerivedLoss>, RowLayout, DeviceKernel)>>,
}

/// Rows to which gradients are applied.
pub(super) struct RowUpdate<'t> {
    /// Rows, `[count, dimension]`; their accumulators, `[count]`; sums of gradients, `[count, dimension]`.
    pub(super) rows: &'t Tensor,
    pub(super) accumulators: &'t Tensor,
    pub(super) gradients: &'t Tensor,
    /// Target: row ids of a table, with its embeddings and accumulators. Without a target, rows are updated in place.
    pub(super) to: Option<(&'t Tensor, [&'t Tensor; 2])>,
}

/// An operator for which kernels exist.
#[derive(Clone, Copy)]
pub(super) enum FusedOperator {
    Diagonal,
    Translation,
    ComplexDiagonal,
    None,
}

/// An operator and the kernels that execute it.
#[derive(Clone, Copy)]
pub(super) struct OperatorKernel<'a> {
    pub(super) kernels: &'a CudaKernels,
    pub(super) operator: FusedOperator,
}

impl<'a> OperatorKernel<'a> {
    /// Returns the kernel of an operator, if there is a GPU and one exists.
    pub(super) fn of(kernels: Option<&'a CudaKernels>, operator: Operator) -> Option<Self> {
        let (kernels, operator) = kernels.zip(FusedOperator::of(operator))?;
        Some(Self { kernels, operator })
    }
}

/// Rows that an operator is applied to: all rows of a table, or those at `places`.
#[derive(Clone, Copy)]
pub(super) struct SelectedRows<'t> {
    table: &'t Tensor,
    places: Option<&'t Tensor>,
}

impl<'t> SelectedRows<'t> {
    pub(super) const fn all(table: &'t Tensor) -> Self {
        let places = None;
        Self { table, places }
    }

    pub(super) const fn at(table: &'t Tensor, places: &'t Tensor) -> Self {
        let places = Some(places);
        Self { table, places }
    }
}

/// What gradients are applied with on a GPU.
pub(super) struct CudaUpdate<'a> {
    pub(super) kernels: &'a CudaKernels,
    pub(super) lr: f32,
    /// Sums of the batch, whose loss decides whether anything is applied.
    pub(super) sums: &'a BatchSums,
}

impl FusedOperator {
    /// Returns the kernel's operator for `operator`, if one exists.
    pub(super) fn of(operator: Operator) -> Option<Self> {
        match operator {
            Operator::Diagonal => Some(Self::Diagonal),
            Operator::Translation => Some(Self::Translation),
            Operator::ComplexDiagonal => Some(Self::ComplexDiagonal),
            Operator::None => Some(Self::None),
            Operator::Linear | Operator::Affine | Operator::Traced(_) => None,
        }
    }

    /// Returns the relations of `count` rows, those of a slice's edges. Without an operator there are none, as draws
    /// have no relation.
    fn relations(self, of_edges: Option<&Tensor>, count: i64) -> Result<Option<&Tensor>, TchError> {
        let relations = of_edges.filter(|_| !matches!(self, Self::None));
        match relations {
            Some(relations) if relations.size()[0] != count => {
                let message = "every row with an operator must have a relation";
                Err(TchError::Shape(message.to_owned()))
            }
            _ => Ok(relations),
        }
    }

    /// Returns the first arguments of a kernel, the same forward and backward.
    fn arguments<'t>(
        self,
        rows: SelectedRows<'t>,
        count: i64,
        relations: Option<&'t Tensor>,
        parameters: &'t [ParameterRows],
    ) -> Vec<KernelArgument<'t>> {
        let values = |index: usize| or_none(parameters.get(index).map(|p| &p.values));
        vec![
            KernelArgument::Count(self as i64),
            KernelArgument::Tensor(rows.table),
            or_none(rows.places),
            KernelArgument::Count(count),
            KernelArgument::Count(rows.table.size()[1]),
            or_none(relations),
            values(0),
            values(1),
        ]
    }

    /// Returns the number of coordinates, out of `dimension`, for which a kernel needs a thread.
    fn width(self, dimension: i64) -> i64 {
        match self {
            Self::ComplexDiagonal => dimension / 2,
            Self::Diagonal | Self::Translation | Self::None => dimension,
        }
    }
}

/// Returns one thread for each of `count` numbers.
fn each(count: i64) -> LaunchSize {
    LaunchSize {
        blocks: (count + i64::from(BLOCK) - 1) / i64::from(BLOCK),
        block: [BLOCK, 1],
    }
}

/// Returns one warp for each of `count` rows.
fn warps(count: i64) -> LaunchSize {
    let rows = BLOCK / WARP;
    LaunchSize {
        blocks: (count + i64::from(rows) - 1) / i64::from(rows),
        block: [WARP, rows],
    }
}

fn or_none(tensor: Option<&Tensor>) -> KernelArgument<'_> {
    tensor.map_or(KernelArgument::None, KernelArgument::Tensor)
}

impl CudaKernels {
    /// Compiles the kernels for the GPU of `place`; `None` for main memory.
    ///
    /// # Errors
    /// When they cannot be compiled.
    pub(super) fn new(place: TorchDevice) -> Result<Option<Self>, TchError> {
        let gpu = Gpu::new(place)?;
        gpu.map(|gpu| Self::compiled(KernelCompiler::Gpu(gpu)))
            .transpose()
    }

    /// Compiles the kernels for the CPU.
    #[cfg(test)]
    pub(super) fn on_core() -> Result<Self, TchError> {
        Self::compiled(KernelCompiler::Core)
    }

    fn compiled(compiler: KernelCompiler) -> Result<Self, TchError> {
        let names = [
            c"update_rows",
            c"update_parameters",
            c"score_positives",
            c"differentiate_positives",
            c"transform",
            c"transform_back",
        ];
        let [
            update_rows,
            update_parameters,
            score_positives,
            differentiate_positives,
            transform,
            transform_back,
        ] = compiler.compile(include_str!("fused/kernels.cu"), names)?;
        Ok(Self {
            compiler,
            update_rows,
            update_parameters,
            score_positives,
            differentiate_positives,
            transform,
            transform_back,
            losses: RefCell::default(),
        })
    }

    /// Records an event after everything that this thread has queued on the GPU so far.
    pub(super) fn record_event(&self) -> Result<CudaEvent, TchError> {
        match self.compiler {
            KernelCompiler::Gpu(gpu) => CudaEvent::new(gpu),
            #[cfg(test)]
            KernelCompiler::Core => Err(TchError::Torch(
                "kernels on the CPU have no events".to_owned(),
            )),
        }
    }

    /// Replaces scores by gradients, and adds losses, violators and gradients to `sums`.
    pub(super) fn loss(
        &self,
        formula: &LossFormula,
        scores: &ScoreTensors,
        weights: Option<&Tensor>,
        sums: &BatchSums,
        side: usize,
    ) -> Result<(), TchError> {
        let [rows, columns]: [i64; 2] = [scores.negative.size()[0], scores.negative.size()[1]];
        let cut = RowLayout::of(columns);
        let kernel = self.of_loss(&formula.derived, cut)?;
        let at_once = i64::from((BLOCK / 2 / (WARP * cut.warps)).max(1));
        let threads = LaunchSize {
            blocks: ((rows + at_once - 1) / at_once).min(MOST_BLOCKS),
            block: [WARP * cut.warps, at_once as u32],
        };
        let [losses, violators, gradients] = sums.of_loss(side)?;
        let mut arguments = vec![
            KernelArgument::Tensor(&scores.positive),
            KernelArgument::Tensor(&scores.negative),
            or_none(weights),
            KernelArgument::Count(rows),
            KernelArgument::Count(columns),
            KernelArgument::Tensor(&losses),
            KernelArgument::Tensor(&violators),
            KernelArgument::Tensor(&gradients),
        ];
        arguments.extend(
            formula
                .parameters
                .iter()
                .map(|&number| KernelArgument::Number(number)),
        );
        start(&kernel, threads, &arguments)
    }

    fn of_loss(
        &self,
        derived: &Arc<DerivedLoss>,
        cut: RowLayout,
    ) -> Result<DeviceKernel, TchError> {
        let mut losses = self.losses.borrow_mut();
        let known = losses
            .iter()
            .find(|(known, of, _)| Arc::ptr_eq(known, derived) && *of == cut);
        if let Some((_, _, kernel)) = known {
            return Ok(*kernel);
        }
        let source = loss_source::source(derived, cut);
        let [kernel] = self.compiler.compile(&source, [c"loss"])?;
        losses.push((Arc::clone(derived), cut, kernel));
        Ok(kernel)
    }

    /// Applies row-Adagrad, unless the loss is not finite.
    pub(super) fn update_rows(
        &self,
        of: &RowUpdate<'_>,
        lr: f32,
        sums: &BatchSums,
    ) -> Result<(), TchError> {
        let [count, dimension]: [i64; 2] = [of.rows.size()[0], of.rows.size()[1]];
        let (ids, [to_rows, to_accumulators]) = match of.to {
            Some((ids, to)) => (Some(ids), to),
            None => (None, [of.rows, of.accumulators]),
        };
        let arguments = [
            KernelArgument::Tensor(of.rows),
            KernelArgument::Tensor(of.accumulators),
            KernelArgument::Tensor(of.gradients),
            KernelArgument::Count(count),
            KernelArgument::Count(dimension),
            KernelArgument::Number(lr),
            KernelArgument::Number(EPSILON),
            or_none(ids),
            KernelArgument::Tensor(to_rows),
            KernelArgument::Tensor(to_accumulators),
            KernelArgument::Tensor(sums.all()),
        ];
        start(&self.update_rows, warps(count), &arguments)
    }

    /// Applies Adagrad to the parameters that a batch has read, unless the loss is not finite.
    pub(super) fn update_parameters(
        &self,
        read: &ParameterRows,
        ids: &Tensor,
        [values, accumulators]: [&Tensor; 2],
        lr: f32,
        sums: &BatchSums,
    ) -> Result<(), TchError> {
        let [count, width]: [i64; 2] = [read.gradients.size()[0], read.gradients.size()[1]];
        let arguments = [
            KernelArgument::Tensor(&read.gradients),
            KernelArgument::Count(count),
            KernelArgument::Count(width),
            KernelArgument::Number(lr),
            KernelArgument::Number(EPSILON),
            KernelArgument::Tensor(ids),
            KernelArgument::Tensor(values),
            KernelArgument::Tensor(accumulators),
            KernelArgument::Tensor(sums.all()),
        ];
        start(&self.update_parameters, each(count * width), &arguments)
    }

    /// Computes inner products of rows, pair by pair.
    pub(super) fn score_positives(
        &self,
        queries: &Tensor,
        candidates: &Tensor,
    ) -> Result<Tensor, TchError> {
        let [count, dimension]: [i64; 2] = [queries.size()[0], queries.size()[1]];
        let scores = Tensor::f_empty([count], (queries.kind(), queries.device()))?;
        let arguments = [
            KernelArgument::Tensor(queries),
            KernelArgument::Tensor(candidates),
            KernelArgument::Count(count),
            KernelArgument::Count(dimension),
            KernelArgument::Tensor(&scores),
        ];
        start(&self.score_positives, warps(count), &arguments)?;
        Ok(scores)
    }

    /// Backward pass of `score_positives`: adds the gradients of queries and candidates to `sums`.
    pub(super) fn differentiate_positives(
        &self,
        [queries, candidates]: [&Tensor; 2],
        gradients: &Tensor,
        sums: [&Tensor; 2],
    ) -> Result<(), TchError> {
        let [count, dimension]: [i64; 2] = [queries.size()[0], queries.size()[1]];
        let arguments = [
            KernelArgument::Tensor(queries),
            KernelArgument::Tensor(candidates),
            KernelArgument::Count(count),
            KernelArgument::Count(dimension),
            KernelArgument::Tensor(gradients),
            KernelArgument::Tensor(sums[0]),
            KernelArgument::Tensor(sums[1]),
        ];
        start(&self.differentiate_positives, warps(count), &arguments)
    }

    /// Applies an operator to rows.
    pub(super) fn transform(
        &self,
        operator: FusedOperator,
        parameters: &[ParameterRows],
        relations: Option<&Tensor>,
        rows: SelectedRows<'_>,
    ) -> Result<Tensor, TchError> {
        let SelectedRows { table, places } = rows;
        let dimension = table.size()[1];
        let count = places.unwrap_or(table).size()[0];
        let relations = operator.relations(relations, count)?;
        let y = Tensor::f_empty([count, dimension], (table.kind(), table.device()))?;
        let mut arguments = operator.arguments(rows, count, relations, parameters);
        arguments.push(KernelArgument::Tensor(&y));
        start(&self.transform, warps(count), &arguments)?;
        Ok(y)
    }

    /// Backward pass of `transform`, from `gradients` of its results. Gradients of rows are added to `of_rows` if the
    /// rows were looked up; otherwise they replace `gradients`. Gradients of parameters are added to their sums.
    pub(super) fn transform_backward(
        &self,
        operator: FusedOperator,
        parameters: &mut [ParameterRows],
        relations: Option<&Tensor>,
        rows: SelectedRows<'_>,
        gradients: &Tensor,
        of_rows: Option<&Tensor>,
    ) -> Result<(), TchError> {
        let [count, dimension]: [i64; 2] = [gradients.size()[0], rows.table.size()[1]];
        let relations = operator.relations(relations, count)?;
        let width = operator.width(dimension).clamp(1, i64::from(BLOCK));
        let threads = LaunchSize {
            blocks: (count + ROWS - 1) / ROWS,
            block: [width as u32, 1],
        };
        let sums = |index: usize| or_none(parameters.get(index).map(|p| &p.gradients));
        let mut arguments = operator.arguments(rows, count, relations, parameters);
        arguments.extend([
            KernelArgument::Tensor(gradients),
            or_none(of_rows),
            sums(0),
            sums(1),
        ]);
        start(&self.transform_back, threads, &arguments)
    }
}

/// Starts a kernel of `kernels.cu` or of a loss.
fn start(
    kernel: &DeviceKernel,
    threads: LaunchSize,
    arguments: &[KernelArgument<'_>],
) -> Result<(), TchError> {
    // SAFETY: the functions above give each kernel the arguments that its source declares, in that order. All tensors
    // belong to the step of one worker and are on its GPU. They are as large as the sizes passed with them, which were
    // read from tensors with the same rows. They are the worker's own, or belong to tables and parameters that it
    // holds, and it continues with libtorch on this thread.
    unsafe { kernel.start(threads, arguments) }
}
