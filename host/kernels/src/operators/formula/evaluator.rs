//! A formula with the buffers for its evaluation.

use pbg_formula::operator::FormulaHandle;
use pbg_rows::params::ParamTensor;

use super::block::RowsShape;
use super::compiled::{Block, CompiledProgram, Packed, ParameterSums};
use super::program::OperatorProgram;
use crate::operators::read_packed;

/// Floats of embeddings per block, unless a single row has more: 8 KiB, so that a few such buffers fit the first-level
/// cache.
const BLOCK: usize = 2048;

/// Evaluator of one formula, for one worker.
#[derive(Debug)]
pub(crate) struct Evaluator {
    formula: FormulaHandle,
    forward: CompiledProgram,
    backward: CompiledProgram,
    /// Gradients of `y` of a block: a copy, since the gradients of `x` overwrite the originals.
    gradients: Vec<f32>,
    /// Parameters of each row of a block.
    packed: Vec<f32>,
}

/// Parameters of the rows to evaluate.
#[derive(Clone, Copy)]
pub(crate) enum FormulaParameters<'a> {
    /// One packed row, which all rows share.
    Shared(&'a [f32]),
    /// The operator's tensors, and the relation type of each row.
    PerRow(&'a [ParamTensor], &'a [u32]),
}

impl Evaluator {
    pub(super) fn new(formula: FormulaHandle) -> Self {
        let components = formula.components();
        Self {
            forward: CompiledProgram::new(OperatorProgram::new(formula.forward(), components)),
            backward: CompiledProgram::new(OperatorProgram::new(formula.backward(), components)),
            formula,
            gradients: Vec::new(),
            packed: Vec::new(),
        }
    }

    pub(super) fn formula(&self) -> FormulaHandle {
        self.formula
    }

    /// Returns the number of rows per block for embeddings of `dimension` floats, and the width of a component.
    fn extent(&self, dimension: usize) -> RowsShape {
        RowsShape {
            rows: (BLOCK / dimension.max(1)).max(1),
            width: dimension / self.formula.components(),
        }
    }

    /// Prepares a packed row of parameters for calls of [`Evaluator::prepared`].
    pub(crate) fn prepare(&mut self, packed: &[f32], dimension: usize) {
        let extent = self.extent(dimension);
        self.forward.fit(extent);
        let (values, stride) = (packed, 0);
        self.forward.prepare(Packed { values, stride }, extent);
    }

    /// Computes `y = f(x)`, row by row, with the parameters of the last call of [`Evaluator::prepare`].
    pub(crate) fn prepared(&mut self, packed: &[f32], x: &[f32], y: &mut [f32], dimension: usize) {
        let at_once = self.extent(dimension).rows * dimension;
        for (embeddings, out) in x.chunks(at_once).zip(y.chunks_mut(at_once)) {
            let block = Block {
                embeddings,
                gradients: &[],
                dimension,
                rows: embeddings.len() / dimension,
            };
            let (values, stride) = (packed, 0);
            self.forward
                .block(block, Packed { values, stride }, out, None);
        }
    }

    /// Computes `y = f(x)`, row by row.
    pub(crate) fn forward(
        &mut self,
        given: FormulaParameters<'_>,
        x: &[f32],
        y: &mut [f32],
        dimension: usize,
    ) {
        let (tensors, relations) = match given {
            FormulaParameters::Shared(packed) => {
                self.prepare(packed, dimension);
                return self.prepared(packed, x, y, dimension);
            }
            FormulaParameters::PerRow(tensors, relations) => (tensors, relations),
        };
        let extent = self.extent(dimension);
        self.forward.fit(extent);
        let at_once = extent.rows * dimension;
        let rows = x.chunks(at_once).zip(y.chunks_mut(at_once));
        for ((embeddings, out), relations) in rows.zip(relations.chunks(extent.rows)) {
            let rows = embeddings.len() / dimension;
            let stride = read_rows(&mut self.packed, tensors, &relations[..rows]);
            let values = &self.packed;
            let packed = Packed { values, stride };
            self.forward.prepare(packed, RowsShape { rows, ..extent });
            let block = Block {
                embeddings,
                gradients: &[],
                dimension,
                rows,
            };
            self.forward.block(block, packed, out, None);
        }
    }

    /// Replaces the gradients of `y = f(x)` by those of `x`, row by row, and adds the gradients of the parameters to
    /// `sums`.
    pub(crate) fn backward(
        &mut self,
        given: FormulaParameters<'_>,
        mut sums: ParameterSums<'_>,
        x: &[f32],
        gradients: &mut [f32],
        dimension: usize,
    ) {
        let extent = self.extent(dimension);
        self.backward.fit(extent);
        if let FormulaParameters::Shared(values) = given {
            self.backward.prepare(Packed { values, stride: 0 }, extent);
        }
        let at_once = extent.rows * dimension;
        let blocks = x.chunks(at_once).zip(gradients.chunks_mut(at_once));
        for (index, (embeddings, out)) in blocks.enumerate() {
            let (first, rows) = (index * extent.rows, embeddings.len() / dimension);
            let packed = match given {
                FormulaParameters::Shared(values) => Packed { values, stride: 0 },
                FormulaParameters::PerRow(tensors, relations) => {
                    let relations = &relations[first..first + rows];
                    let stride = read_rows(&mut self.packed, tensors, relations);
                    let values = &self.packed;
                    self.backward
                        .prepare(Packed { values, stride }, RowsShape { rows, ..extent });
                    Packed { values, stride }
                }
            };
            self.gradients.clear();
            // Reserved exactly, so that the buffer takes the announced memory.
            self.gradients.reserve_exact(at_once);
            self.gradients.extend_from_slice(out);
            let block = Block {
                embeddings,
                gradients: &self.gradients,
                dimension,
                rows,
            };
            let sums = match &mut sums {
                ParameterSums::Shared(sum) => ParameterSums::Shared(sum),
                ParameterSums::PerRow(sums, relations) => {
                    ParameterSums::PerRow(sums, &relations[first..first + rows])
                }
            };
            self.backward.block(block, packed, out, Some(sums));
        }
    }

    /// Returns the current size of the buffers in bytes.
    pub(super) fn bytes(&self) -> usize {
        let own = self.gradients.capacity() + self.packed.capacity();
        self.forward.bytes() + self.backward.bytes() + 4 * own
    }

    /// Returns the size in bytes of the buffers for embeddings of all these dimensions.
    pub(super) fn bytes_for(&self, dimensions: &[usize]) -> usize {
        let shapes: Vec<RowsShape> = dimensions.iter().map(|&d| self.extent(d)).collect();
        let passes = self.forward.bytes_for(&shapes) + self.backward.bytes_for(&shapes);
        let largest = |floats: &dyn Fn(usize) -> usize| {
            let blocks = shapes.iter().zip(dimensions);
            blocks.map(|(shape, &d)| shape.rows * floats(d)).max()
        };
        let gradients = largest(&|dimension| dimension).unwrap_or(0);
        let packed = largest(&|dimension| self.formula.parameter_width(dimension)).unwrap_or(0);
        passes + 4 * (gradients + packed)
    }
}

/// Reads the parameters of rows with these relation types into `packed`, row by row, and returns the floats per row.
fn read_rows(packed: &mut Vec<f32>, tensors: &[ParamTensor], relations: &[u32]) -> usize {
    let width = tensors.iter().map(|tensor| tensor.values.width()).sum();
    packed.clear();
    packed.reserve_exact(relations.len() * width);
    packed.resize(relations.len() * width, 0.0);
    for (row, &relation) in packed.chunks_exact_mut(width).zip(relations) {
        read_packed(tensors, relation as usize, row);
    }
    width
}
