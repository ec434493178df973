//! A program with the buffers for its execution.

use pbg_rows::gradient_rows::GradientRows;

use super::block::RowsShape;
use super::program::{OperatorProgram, Output};
use super::run::{Buffers, ProgramInputs, add, copy, run};

/// A program with its buffers.
#[derive(Debug)]
pub(super) struct CompiledProgram {
    program: OperatorProgram,
    /// Each constant repeated over one row.
    constants: Vec<f32>,
    shared: Vec<Vec<f32>>,
    places: Vec<Vec<f32>>,
    width: usize,
}

/// Destination of the gradients of parameters.
pub(crate) enum ParameterSums<'a> {
    /// One packed row, to which the gradients of all rows are added.
    Shared(&'a mut [f32]),
    /// One packed row per relation type, and the relation type of each row.
    PerRow(&'a mut GradientRows, &'a [u32]),
}

/// The embeddings of a block of rows.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) embeddings: &'a [f32],
    pub(super) gradients: &'a [f32],
    pub(super) dimension: usize,
    pub(super) rows: usize,
}

/// The parameters of a block's rows.
#[derive(Clone, Copy)]
pub(super) struct Packed<'a> {
    pub(super) values: &'a [f32],
    /// Floats from one row to the next; 0 where all rows share one.
    pub(super) stride: usize,
}

impl CompiledProgram {
    pub(super) fn new(program: OperatorProgram) -> Self {
        Self {
            constants: Vec::new(),
            shared: vec![Vec::new(); program.shared],
            places: vec![Vec::new(); program.places],
            width: 0,
            program,
        }
    }

    /// Makes room for blocks of `rows` rows of `width` floats.
    pub(super) fn fit(&mut self, RowsShape { rows, width }: RowsShape) {
        if self.width != width {
            self.width = width;
            self.constants.clear();
            // Reserved exactly, here and below, so that the buffers take the announced memory.
            let floats = self.program.constants.len() * width;
            self.constants.reserve_exact(floats);
            for &value in &self.program.constants {
                self.constants.extend(std::iter::repeat_n(value, width));
            }
        }
        for buffer in self.shared.iter_mut().chain(&mut self.places) {
            if buffer.len() < rows * width {
                buffer.reserve_exact(rows * width - buffer.len());
                buffer.resize(rows * width, 0.0);
            }
        }
    }

    /// Runs the prologue, which computes everything that depends on parameters alone.
    pub(super) fn prepare(&mut self, packed: Packed<'_>, extent: RowsShape) {
        if self.program.prologue.is_empty() {
            return;
        }
        let rows = if packed.stride == 0 { 1 } else { extent.rows };
        let inputs = ProgramInputs {
            embeddings: &[],
            gradients: &[],
            parameters: packed.values,
            parameter_stride: packed.stride,
            constants: &self.constants,
            dimension: extent.width,
            extent: RowsShape { rows, ..extent },
        };
        let mut buffers = Buffers {
            shared: &mut self.shared,
            places: &mut self.places,
            out: &mut [],
        };
        run(&self.program.prologue, &inputs, &mut buffers);
    }

    /// Runs the steps on a block, writes the components of the result to `out`, and adds the gradients of parameters to
    /// `sums`.
    pub(super) fn block(
        &mut self,
        block: Block<'_>,
        packed: Packed<'_>,
        out: &mut [f32],
        sums: Option<ParameterSums<'_>>,
    ) {
        let inputs = inputs(&self.constants, self.width, block, packed);
        let mut buffers = Buffers {
            shared: &mut self.shared,
            places: &mut self.places,
            out,
        };
        run(&self.program.steps, &inputs, &mut buffers);
        copy(&self.program.components, &inputs, &mut buffers);
        match sums {
            None => {}
            Some(ParameterSums::Shared(sum)) => {
                for row in 0..block.rows {
                    add(&self.program.parameters, &inputs, &buffers, row, sum);
                }
            }
            Some(ParameterSums::PerRow(sums, relations)) => {
                for (row, &relation) in relations.iter().enumerate() {
                    let sum = sums.row_mut(relation);
                    add(&self.program.parameters, &inputs, &buffers, row, sum);
                }
            }
        }
    }

    /// Runs the steps on a block of candidates that share one query, and passes the outputs to `read`.
    pub(super) fn pairs(
        &mut self,
        block: Block<'_>,
        packed: Packed<'_>,
        read: impl FnOnce(&[Output], &ProgramInputs<'_>, &Buffers<'_>),
    ) {
        let inputs = inputs(&self.constants, self.width, block, packed);
        let mut buffers = Buffers {
            shared: &mut self.shared,
            places: &mut self.places,
            out: &mut [],
        };
        run(&self.program.steps, &inputs, &mut buffers);
        read(&self.program.parameters, &inputs, &buffers);
    }

    pub(super) fn bytes(&self) -> usize {
        let buffers = self.shared.iter().chain(&self.places);
        let floats: usize = buffers.map(Vec::capacity).sum();
        4 * (floats + self.constants.capacity())
    }

    /// Returns the size in bytes of the buffers for blocks of all `shapes`.
    pub(super) fn bytes_for(&self, shapes: &[RowsShape]) -> usize {
        let buffers = self.shared.len() + self.places.len();
        let floats = shapes.iter().map(|shape| shape.rows * shape.width).max();
        let width = shapes.iter().map(|shape| shape.width).max();
        4 * (buffers * floats.unwrap_or(0) + self.program.constants.len() * width.unwrap_or(0))
    }
}

/// Returns the inputs of a program for a block of rows.
fn inputs<'a>(
    constants: &'a [f32],
    width: usize,
    block: Block<'a>,
    packed: Packed<'a>,
) -> ProgramInputs<'a> {
    ProgramInputs {
        embeddings: block.embeddings,
        gradients: block.gradients,
        parameters: packed.values,
        parameter_stride: packed.stride,
        constants,
        dimension: block.dimension,
        extent: RowsShape {
            rows: block.rows,
            width,
        },
    }
}
