//! Adagrad, by row or by element for embeddings and by element for parameters, and Adam for embeddings.
//!
//! A worker adds its own squared gradient to the accumulator that it has just read, and divides by the root of that
//! sum. So it never divides by less than its own contribution, whatever other workers write meanwhile.
//!
//! Adam updates only the rows of a batch. Each row counts its own updates, so that the averages of a rare row are not
//! taken for averages over many steps, and nothing but the row itself is needed to continue.

use std::ops::Range;

use pbg_core::model::Optimizer;

use crate::gradient_rows::GradientRows;
use crate::params::ParamTensor;
use crate::shared_rows::SharedRows;
use crate::table::Table;
use crate::vector;

/// Term added to each divisor, which keeps the first steps finite.
pub const EPSILON: f32 = 1e-10;

/// Applies gradients to the rows of a table and clears them.
///
/// A gradient that is not finite is never applied. Returns whether all were finite.
#[must_use]
pub fn apply_rows(
    gradients: &mut GradientRows,
    table: &Table,
    lr: f32,
    work: &mut Vec<f32>,
) -> bool {
    let mut finite = true;
    let announce = |row| {
        table.embeddings.prefetch(row);
        table.state.prefetch(row);
    };
    gradients.drain(announce, |row, gradient| {
        finite &= apply_row(table, row, gradient, lr, work)
    });
    finite
}

/// Applies the sum of several workers' gradients to the rows of a range, without clearing any. Returns whether all were
/// finite.
#[must_use]
pub fn apply_summed_rows(
    gradients: &[&GradientRows],
    rows: Range<usize>,
    table: &Table,
    lr: f32,
    [scratch, work]: [&mut Vec<f32>; 2],
) -> bool {
    let mut finite = true;
    for row in rows {
        let mut sums = gradients.iter().filter_map(|gradients| gradients.sum(row));
        let Some(first) = sums.next() else { continue };
        let mut more = sums.peekable();
        if more.peek().is_none() {
            finite &= apply_row(table, row, first, lr, work);
            continue;
        }
        scratch.clear();
        scratch.extend_from_slice(first);
        more.for_each(|sum| vector::add(scratch, sum));
        finite &= apply_row(table, row, scratch, lr, work);
    }
    finite
}

/// Applies a gradient to one row with the optimizer whose accumulators the table holds, unless the table is frozen.
#[inline]
fn apply_row(table: &Table, row: usize, gradient: &[f32], lr: f32, work: &mut Vec<f32>) -> bool {
    if table.frozen {
        return gradient.iter().all(|value| value.is_finite());
    }
    match table.optimizer {
        Optimizer::RowAdagrad => row_adagrad(table, row, gradient, lr),
        Optimizer::Adagrad => elements(&table.embeddings, &table.state, row, gradient, lr, work),
        Optimizer::Adam => adam_row(table, row, gradient, lr, work),
    }
}

/// Applies row-Adagrad to one row, whose accumulator is the sum of mean squared gradients.
#[inline]
fn row_adagrad(table: &Table, row: usize, gradient: &[f32], lr: f32) -> bool {
    let mean = vector::dot(gradient, gradient) / gradient.len() as f32;
    let mut accumulator = [0.0];
    table.state.read_row(row, &mut accumulator);
    let sum = accumulator[0] + mean;
    if !sum.is_finite() {
        return false;
    }
    table.state.write_row(row, &[sum]);
    table
        .embeddings
        .add_to_row(row, -lr / (sum.sqrt() + EPSILON), gradient);
    true
}

/// Applies Adagrad to row `row` of all tensors of one operator; `gradient` is packed, tensor after tensor. Returns
/// whether it was finite.
#[must_use]
pub fn apply_packed(
    tensors: &[ParamTensor],
    row: usize,
    gradient: &[f32],
    lr: f32,
    scratch: &mut Vec<f32>,
) -> bool {
    let mut finite = true;
    let mut first = 0;
    for tensor in tensors {
        let width = tensor.values.width();
        finite &= apply_elements(tensor, row, &gradient[first..first + width], lr, scratch);
        first += width;
    }
    finite
}

/// Applies Adagrad with one accumulator per element to row `row` of a tensor. Returns whether the gradient was finite;
/// elements that are not finite are skipped.
#[must_use]
pub fn apply_elements(
    tensor: &ParamTensor,
    row: usize,
    gradient: &[f32],
    lr: f32,
    scratch: &mut Vec<f32>,
) -> bool {
    elements(&tensor.values, &tensor.adagrad, row, gradient, lr, scratch)
}

/// Applies Adagrad to row `row` of an array of values and the array of their accumulators.
fn elements(
    of_values: &SharedRows,
    of_accumulators: &SharedRows,
    row: usize,
    gradient: &[f32],
    lr: f32,
    scratch: &mut Vec<f32>,
) -> bool {
    let width = gradient.len();
    scratch.resize(2 * width, 0.0);
    let (values, accumulators) = scratch.split_at_mut(width);
    of_values.read_row(row, values);
    of_accumulators.read_row(row, accumulators);
    let finite = adagrad(values, accumulators, gradient, lr);
    of_values.write_row(row, values);
    of_accumulators.write_row(row, accumulators);
    finite
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn adagrad(values: &mut [f32], accumulators: &mut [f32], gradient: &[f32], lr: f32) -> bool {
    let mut finite = true;
    for ((value, accumulator), &g) in values.iter_mut().zip(accumulators).zip(gradient) {
        let sum = *accumulator + g * g;
        // Without a branch, so that the loop vectorises.
        let takes = sum.is_finite();
        finite &= takes;
        let step = lr * g / (sum.sqrt() + EPSILON);
        *accumulator = if takes { sum } else { *accumulator };
        *value -= if takes { step } else { 0.0 };
    }
    finite
}

/// Adam's weight of the previous average of gradients.
const BETA1: f32 = Optimizer::ADAM_BETAS[0];
/// Adam's weight of the previous average of squared gradients.
const BETA2: f32 = Optimizer::ADAM_BETAS[1];
/// Adam's term added to each divisor.
const ADAM_EPSILON: f32 = 1e-8;
/// Largest length of a step, in learning rates. Averages of the same gradients give at most 7.3; a worker that reads an
/// average of one update and one of another could take a step of any length.
const LONGEST_STEP: f32 = 10.0;
/// Number of updates from which on they are no longer counted: neither average needs a correction.
const UNCORRECTED: f32 = 65536.0;

/// Applies Adam to one row, which counts its updates. Returns whether the gradient was finite; elements that are not
/// finite are skipped.
fn adam_row(table: &Table, row: usize, gradient: &[f32], lr: f32, scratch: &mut Vec<f32>) -> bool {
    let width = gradient.len();
    scratch.resize(3 * width + 1, 0.0);
    let (values, state) = scratch.split_at_mut(width);
    table.embeddings.read_row(row, values);
    table.state.read_row(row, state);
    let (averages, updates) = state.split_at_mut(2 * width);
    updates[0] = (updates[0] + 1.0).min(UNCORRECTED);
    let (means, squares) = averages.split_at_mut(width);
    let finite = adam(
        values,
        [means, squares],
        gradient,
        Correction::new(lr, updates[0]),
    );
    table.embeddings.write_row(row, values);
    table.state.write_row(row, state);
    finite
}

/// Factors that correct the averages for their start at zero.
#[derive(Clone, Copy)]
struct Correction {
    /// Factor of the average of gradients, with the learning rate.
    step: f32,
    /// Factor of the root of the average of squared gradients.
    root: f32,
    /// Longest step.
    longest: f32,
}

impl Correction {
    fn new(lr: f32, updates: f32) -> Self {
        let weight = |beta: f32| 1.0 - power(f64::from(beta), updates as u32);
        Self {
            step: (f64::from(lr) / weight(BETA1)) as f32,
            root: weight(BETA2).sqrt().recip() as f32,
            longest: LONGEST_STEP * lr,
        }
    }
}

/// Computes `base` to the power `exponent` by products, so that the result is the same on all processors.
fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn adam(
    values: &mut [f32],
    [means, squares]: [&mut [f32]; 2],
    gradient: &[f32],
    correction: Correction,
) -> bool {
    let Correction {
        step,
        root,
        longest,
    } = correction;
    let mut finite = true;
    let averages = means.iter_mut().zip(squares);
    for ((value, (mean, square)), &g) in values.iter_mut().zip(averages).zip(gradient) {
        let new_mean = BETA1 * *mean + (1.0 - BETA1) * g;
        let new_square = BETA2 * *square + (1.0 - BETA2) * g * g;
        // Without a branch, so that the loop vectorises.
        let takes = new_square.is_finite();
        finite &= takes;
        let difference = step * new_mean / (new_square.sqrt() * root + ADAM_EPSILON);
        *mean = if takes { new_mean } else { *mean };
        *square = if takes { new_square } else { *square };
        let difference = difference.clamp(-longest, longest);
        *value -= if takes { difference } else { 0.0 };
    }
    finite
}
