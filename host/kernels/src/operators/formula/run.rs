//! Execution of a program's steps on a block of rows, compiled for several instruction sets.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;
use pbg_formula::node::Unary;
use pbg_rows::vector;

use super::block::{RowsMut, RowsRef, RowsShape, map, repeat, spread, sums, zip, zip3, zip4};
use super::program::{OperatorStep, Output, RowOperand, RowOperation, Sign, StepTarget};
use crate::losses::vectors::{with_binary, with_unary};

/// Inputs of a program, which no step writes.
#[derive(Clone, Copy)]
pub(super) struct ProgramInputs<'a> {
    /// Embeddings, row by row.
    pub(super) embeddings: &'a [f32],
    /// Gradients of the operator's results, row by row; empty in a forward program.
    pub(super) gradients: &'a [f32],
    /// Packed parameters.
    pub(super) parameters: &'a [f32],
    /// Floats from one row of parameters to the next; 0 where all rows share one.
    pub(super) parameter_stride: usize,
    /// Rows of constants, each of which repeats one number.
    pub(super) constants: &'a [f32],
    /// Floats of an embedding.
    pub(super) dimension: usize,
    pub(super) extent: RowsShape,
}

/// Buffers that steps write and later steps read.
pub(super) struct Buffers<'a> {
    pub(super) shared: &'a mut [Vec<f32>],
    pub(super) places: &'a mut [Vec<f32>],
    /// The program's output, row by row: transformed embeddings, or gradients of embeddings.
    pub(super) out: &'a mut [f32],
}

impl<'a> ProgramInputs<'a> {
    /// Returns the rows that an operand refers to.
    #[inline(always)]
    fn rows<'b>(
        &self,
        operand: RowOperand,
        shared: &'b [Vec<f32>],
        places: &'b [Vec<f32>],
    ) -> RowsRef<'b>
    where
        'a: 'b,
    {
        let (width, dimension) = (self.extent.width, self.dimension);
        let (values, stride): (&[f32], usize) = match operand {
            RowOperand::Component(index) => (&self.embeddings[index * width..], dimension),
            RowOperand::Gradient(index) => (&self.gradients[index * width..], dimension),
            RowOperand::Parameter(index) => {
                (&self.parameters[index * width..], self.parameter_stride)
            }
            RowOperand::Constant(index) => (&self.constants[index * width..], 0),
            RowOperand::Shared(index) => {
                let repeated = self.parameter_stride == 0;
                (&shared[index], if repeated { 0 } else { width })
            }
            RowOperand::Buffer(index) => (&places[index], width),
        };
        RowsRef { values, stride }
    }
}

/// Runs `steps` in order.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn run(steps: &[OperatorStep], inputs: &ProgramInputs<'_>, buffers: &mut Buffers<'_>) {
    for step in steps {
        if target_cfg_f!(target_feature = "fma") {
            one::<true>(step, inputs, buffers);
        } else {
            one::<false>(step, inputs, buffers);
        }
    }
}

#[inline(always)]
fn one<const FMA: bool>(
    step: &OperatorStep,
    inputs: &ProgramInputs<'_>,
    buffers: &mut Buffers<'_>,
) {
    let width = inputs.extent.width;
    match step.out {
        StepTarget::Shared(index) => {
            let mut taken = std::mem::take(&mut buffers.shared[index]);
            let mut out = RowsMut {
                values: &mut taken,
                stride: width,
            };
            work::<FMA>(step, inputs, buffers.shared, buffers.places, &mut out);
            buffers.shared[index] = taken;
        }
        StepTarget::Place(index) => {
            let mut taken = std::mem::take(&mut buffers.places[index]);
            let mut out = RowsMut {
                values: &mut taken,
                stride: width,
            };
            work::<FMA>(step, inputs, buffers.shared, buffers.places, &mut out);
            buffers.places[index] = taken;
        }
        StepTarget::Output(index) => {
            let mut out = RowsMut {
                values: &mut buffers.out[index * width..],
                stride: inputs.dimension,
            };
            work::<FMA>(step, inputs, buffers.shared, buffers.places, &mut out);
        }
    }
}

#[inline(always)]
fn work<const FMA: bool>(
    step: &OperatorStep,
    inputs: &ProgramInputs<'_>,
    shared: &[Vec<f32>],
    places: &[Vec<f32>],
    out: &mut RowsMut<'_>,
) {
    let whole = inputs.extent;
    // Of equal elements only the first one is computed.
    let extent = RowsShape {
        width: if step.uniform { 1 } else { whole.width },
        ..whole
    };
    let rows = |operand| inputs.rows(operand, shared, places);
    match step.work {
        RowOperation::Unary(op, x) => {
            let x = rows(x);
            with_unary!(op, FMA, f => map(out, x, extent, f));
            if let Unary::Sin | Unary::Cos = op {
                repair(op, out, x, extent);
            }
        }
        RowOperation::Binary(op, operands) => {
            let operands = operands.map(rows);
            with_binary!(op, f => zip(out, operands, extent, f));
        }
        RowOperation::Select(operands) => zip3(out, operands.map(rows), extent, |c, a, b| {
            if c == 0.0 { b } else { a }
        }),
        RowOperation::MultiplyAdd(sign, [a, b], x) => {
            let operands = [a, b, x].map(rows);
            match sign {
                Sign::Plus => zip3(out, operands, extent, |a, b, x| x + a * b),
                Sign::Minus => zip3(out, operands, extent, |a, b, x| x - a * b),
                Sign::Reversed => zip3(out, operands, extent, |a, b, x| a * b - x),
            }
        }
        RowOperation::Products {
            subtract,
            first: [a, b],
            second: [c, d],
        } => {
            let operands = [a, b, c, d].map(rows);
            match subtract {
                false => zip4(out, operands, extent, |a, b, c, d| a * b + c * d),
                true => zip4(out, operands, extent, |a, b, c, d| a * b - c * d),
            }
        }
        RowOperation::Sign(x) => map(out, rows(x), extent, sign),
        RowOperation::Sum(x) => {
            let x = rows(x);
            let extent = written(step, whole);
            repeat(out, extent, |row| vector::sum(x.row(row, whole.width)));
        }
        RowOperation::SumOf(op, x) => {
            let (x, written) = (rows(x), written(step, whole));
            with_unary!(op, FMA, f => sums(out, x, [written, whole], f));
        }
        RowOperation::Dot(operands) => {
            let [a, b] = operands.map(rows);
            let dot = |row| vector::dot(a.row(row, whole.width), b.row(row, whole.width));
            repeat(out, written(step, whole), dot);
        }
    }
    if step.uniform && !step.narrow {
        spread(out, whole);
    }
}

/// Returns the elements of a sum that are written.
#[inline(always)]
fn written(step: &OperatorStep, whole: RowsShape) -> RowsShape {
    RowsShape {
        width: if step.narrow { 1 } else { whole.width },
        ..whole
    }
}

/// Returns -1, 0 or 1; 0 for NaN, as the difference of two comparisons.
#[inline(always)]
fn sign(x: f32) -> f32 {
    let number = |holds: bool| if holds { 1.0_f32 } else { 0.0 };
    number(x > 0.0) - number(x < 0.0)
}

/// Recomputes sines and cosines of large angles, for which the fast functions return NaN.
#[inline(always)]
fn repair(op: Unary, out: &mut RowsMut<'_>, x: RowsRef<'_>, extent: RowsShape) {
    let RowsShape { rows, width } = extent;
    for row in 0..rows {
        let made = &mut out.values[row * out.stride..][..width];
        if made.iter().any(|value| value.is_nan()) {
            slow(op, made, x.row(row, width));
        }
    }
}

#[cold]
fn slow(op: Unary, out: &mut [f32], x: &[f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = op.apply(x.into()) as f32;
    }
}

/// Copies the outputs that no step has written directly.
pub(super) fn copy(outputs: &[Output], inputs: &ProgramInputs<'_>, buffers: &mut Buffers<'_>) {
    let RowsShape { rows, width } = inputs.extent;
    for (index, output) in outputs.iter().enumerate() {
        let source = match *output {
            Output::Written => continue,
            Output::Zero => None,
            Output::Value(operand) | Output::Negated(operand) | Output::Product([operand, _]) => {
                Some(inputs.rows(operand, buffers.shared, buffers.places))
            }
        };
        for row in 0..rows {
            let to = row * inputs.dimension + index * width;
            let out = &mut buffers.out[to..to + width];
            match &source {
                Some(source) => out.copy_from_slice(source.row(row, width)),
                None => out.fill(0.0),
            }
        }
    }
}

/// Adds the gradients of the parameters of row `row` to `sum`, packed.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn add(
    outputs: &[Output],
    inputs: &ProgramInputs<'_>,
    buffers: &Buffers<'_>,
    row: usize,
    sum: &mut [f32],
) {
    let width = inputs.extent.width;
    let rows = |operand| inputs.rows(operand, buffers.shared, buffers.places);
    for (output, sum) in outputs.iter().zip(sum.chunks_exact_mut(width)) {
        match *output {
            Output::Zero | Output::Written => {}
            Output::Value(x) => {
                let x = rows(x).row(row, width);
                sum.iter_mut().zip(x).for_each(|(sum, &x)| *sum += x);
            }
            Output::Negated(x) => {
                let x = rows(x).row(row, width);
                sum.iter_mut().zip(x).for_each(|(sum, &x)| *sum -= x);
            }
            Output::Product(operands) => {
                let [a, b] = operands.map(|operand| rows(operand).row(row, width));
                let factors = a.iter().zip(b);
                sum.iter_mut()
                    .zip(factors)
                    .for_each(|(sum, (&a, &b))| *sum += a * b);
            }
        }
    }
}

/// Copies the first element of each row of a value, which is the same in all elements.
pub(super) fn first_elements(
    output: Output,
    inputs: &ProgramInputs<'_>,
    buffers: &Buffers<'_>,
    out: &mut [f32],
) {
    let width = inputs.extent.width;
    let rows = |operand| inputs.rows(operand, buffers.shared, buffers.places);
    for (row, out) in out.iter_mut().enumerate() {
        let of = |operand| rows(operand).row(row, width)[0];
        *out = match output {
            Output::Zero | Output::Written => 0.0,
            Output::Value(x) => of(x),
            Output::Negated(x) => -of(x),
            Output::Product([a, b]) => of(a) * of(b),
        };
    }
}

/// Adds each row of the values, one after the other, to the sum of its value, multiplied by `factor`.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn add_scaled(
    outputs: &[Output],
    inputs: &ProgramInputs<'_>,
    buffers: &Buffers<'_>,
    (row, factor): (usize, f32),
    sum: &mut [f32],
) {
    let width = inputs.extent.width;
    let rows = |operand| inputs.rows(operand, buffers.shared, buffers.places);
    for (output, sum) in outputs.iter().zip(sum.chunks_exact_mut(width)) {
        match *output {
            Output::Zero | Output::Written => {}
            Output::Value(x) => {
                let x = rows(x).row(row, width);
                sum.iter_mut()
                    .zip(x)
                    .for_each(|(sum, &x)| *sum += factor * x);
            }
            Output::Negated(x) => {
                let x = rows(x).row(row, width);
                sum.iter_mut()
                    .zip(x)
                    .for_each(|(sum, &x)| *sum -= factor * x);
            }
            Output::Product(operands) => {
                let [a, b] = operands.map(|operand| rows(operand).row(row, width));
                let factors = a.iter().zip(b);
                sum.iter_mut()
                    .zip(factors)
                    .for_each(|(sum, (&a, &b))| *sum += factor * (a * b));
            }
        }
    }
}
