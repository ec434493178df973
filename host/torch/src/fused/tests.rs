//! Tests of the kernels, run on the CPU, against libtorch's operations or plain loops on the same numbers.

use std::sync::Arc;

use pbg_core::model::Operator;
use pbg_core::strategy::{LossFormula, MASKED};
use pbg_formula::loss::{DerivedLoss, LossDefinition, LossParameter as Named};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use tch::{Device, Kind, Tensor};

use super::{CudaKernels, RowUpdate, SelectedRows};
use crate::device::TorchDevice;
use crate::formula::evaluate;
use crate::operator::OperatorApplication;
use crate::parameter_rows::ParameterRows;
use crate::score_tensors::ScoreTensors;
use crate::sums::BatchSums;

fn kernels() -> CudaKernels {
    CudaKernels::on_core().expect("the kernels compile")
}

/// Returns pseudo-random numbers between -2 and 2, the same each time.
fn numbers(size: &[i64], seed: f64) -> Tensor {
    let count: i64 = size.iter().product();
    let values = Tensor::arange_start(0, count, (Kind::Double, Device::Cpu));
    ((values * 0.7 + seed).sin() * 2.0)
        .to_kind(Kind::Float)
        .reshape(size)
}

fn offsets(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn row_of(table: &Tensor, index: i64) -> Tensor {
    table.narrow(0, index, 1)
}

fn close(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.size(), expected.size(), "{what}");
    let apart = (found - expected).abs() / (expected.abs() + 1.0);
    let most = f64::try_from(apart.reshape([-1]).amax(0, false)).expect("a number");
    assert!(most < 1e-5, "{what}: {most}");
}

fn sums() -> BatchSums {
    BatchSums::new(TorchDevice::MAIN_MEMORY).expect("room")
}

/// PBG's softmax.
pub(crate) fn softmax() -> Vec<FormulaNode> {
    vec![
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Reduce(Reduction::LogSumExp, 1),
        FormulaNode::Binary(Binary::Sub, 2, 0),
        FormulaNode::Unary(Unary::Softplus, 3),
    ]
}

/// Losses that together use every kind of node.
fn formulas() -> Vec<LossFormula> {
    let ranking = vec![
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Parameter(0),
        FormulaNode::Binary(Binary::Sub, 1, 0),
        FormulaNode::Binary(Binary::Add, 3, 2),
        FormulaNode::Unary(Unary::Relu, 4),
        FormulaNode::Reduce(Reduction::Sum, 5),
    ];
    let many = vec![
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Binary(Binary::Sub, 1, 0),
        FormulaNode::Softmax(2),
        FormulaNode::Unary(Unary::StopGradient, 3),
        FormulaNode::Unary(Unary::Abs, 2),
        FormulaNode::Parameter(0),
        FormulaNode::Binary(Binary::Add, 5, 6),
        FormulaNode::Binary(Binary::Pow, 7, 6),
        FormulaNode::Unary(Unary::Log, 7),
        FormulaNode::Binary(Binary::Greater, 1, 6),
        FormulaNode::Select(10, 8, 9),
        FormulaNode::Unary(Unary::Neg, 6),
        FormulaNode::Clamp(1, 12, 6),
        FormulaNode::Unary(Unary::Exp, 13),
        FormulaNode::Unary(Unary::Sqrt, 14),
        FormulaNode::Unary(Unary::Sin, 1),
        FormulaNode::Unary(Unary::Cos, 16),
        FormulaNode::Binary(Binary::Min, 15, 17),
        FormulaNode::Binary(Binary::Max, 18, 11),
        FormulaNode::Binary(Binary::Mul, 19, 4),
        FormulaNode::Reduce(Reduction::Sum, 20),
        FormulaNode::Reduce(Reduction::Mean, 11),
        FormulaNode::Reduce(Reduction::Max, 13),
        FormulaNode::Unary(Unary::Sigmoid, 23),
        FormulaNode::Columns,
        FormulaNode::Binary(Binary::Div, 24, 25),
        FormulaNode::Binary(Binary::Add, 21, 22),
        FormulaNode::Binary(Binary::Add, 27, 26),
    ];
    let formula = |nodes: Vec<FormulaNode>| {
        let definition = LossDefinition {
            output: nodes.len() as u32 - 1,
            nodes,
            parameters: vec![Named {
                name: "margin".to_owned(),
                value: 0.6,
            }],
            update_every: 0,
        };
        let graph = definition.check(1000).expect("a valid graph");
        LossFormula {
            derived: Arc::new(DerivedLoss::of(&graph)),
            parameters: vec![0.6],
        }
    };
    [softmax(), ranking, many].map(formula).into()
}

#[test]
fn a_loss_and_its_gradients_are_those_of_its_formula() {
    crate::load_found();
    let kernels = kernels();
    for (index, formula) in formulas().iter().enumerate() {
        for columns in [1, 5, 40] {
            let rows = 7;
            let positive = numbers(&[rows], 0.3);
            let negative = numbers(&[rows, columns], 1.1);
            // One negative is masked in some rows, and all negatives of one row.
            let _same = negative
                .narrow(1, 0, 1)
                .narrow(0, 0, 3)
                .fill_(f64::from(MASKED));
            let _same = negative.narrow(0, 6, 1).fill_(f64::from(MASKED));
            let weights = numbers(&[rows], 2.0).abs();
            let expected = evaluate(formula, &positive, &negative).expect("a loss");
            let above = negative.gt_tensor(&positive.unsqueeze(1)).sum(Kind::Double);
            let scores = ScoreTensors {
                positive: positive.copy(),
                negative: negative.copy(),
                distances: None,
                positive_distances: None,
            };
            let sums = sums();
            kernels
                .loss(formula, &scores, Some(&weights), &sums, 1)
                .expect("the kernel starts");
            let what = format!("formula {index}, {columns} columns");
            let finite = |x: Tensor| x.where_self(&x.isfinite(), &x.zeros_like());
            close(
                &what,
                &finite(scores.positive),
                &finite(expected.positive * &weights),
            );
            let by_row = weights.unsqueeze(1);
            close(
                &what,
                &finite(scores.negative),
                &finite(expected.negative * by_row),
            );
            let loss = (expected.loss * weights).sum(Kind::Double);
            let [losses, violators, _] = sums.of_loss(1).expect("the sums are present");
            close(&what, &finite(losses), &finite(loss.reshape([1])));
            close(&what, &violators, &above.reshape([1]));
        }
    }
}

fn parameters(kind: Operator, relations: i64, seed: f64) -> Vec<ParameterRows> {
    let (count, width) = match kind {
        Operator::None => (0, 0),
        Operator::ComplexDiagonal => (2, 3),
        _ => (1, 6),
    };
    let parameter =
        |index| ParameterRows::of(index, numbers(&[relations, width], seed + index as f64));
    (0..count).map(parameter).collect()
}

#[test]
fn operators_and_the_way_back_are_those_of_libtorch() {
    crate::load_found();
    let kernels = kernels();
    let relations = offsets(&[2, 2, 0, 1, 2, 0, 0, 2, 1, 1, 0, 2, 1, 0, 2, 2, 1, 0, 1]);
    let rows = relations.size()[0];
    for operator in [
        Operator::None,
        Operator::Diagonal,
        Operator::Translation,
        Operator::ComplexDiagonal,
    ] {
        for relations in [None, Some(&relations)] {
            let transform = |kernels| OperatorApplication {
                operator,
                relations,
                kernels,
            };
            let (x, gradient) = (numbers(&[rows, 6], 0.1), numbers(&[rows, 6], 0.9));
            let count = if relations.is_some() { 3 } else { 1 };
            let [mut expected, mut found] = [(); 2].map(|()| parameters(operator, count, 0.5));
            let what = format!("{operator:?}, {}", relations.is_some());
            let y = transform(None).forward(&expected, &x).expect("room");
            let z = transform(Some(&kernels)).forward(&found, &x);
            close(&what, &z.expect("room"), &y);
            let back = transform(None)
                .backward(&mut expected, &x, &gradient)
                .expect("room");
            let same = transform(Some(&kernels)).backward(&mut found, &x, &gradient.copy());
            close(&what, &same.expect("room"), &back);
            for (found, expected) in found.iter().zip(&expected) {
                close(&what, &found.gradients, &expected.gradients);
            }
        }
    }
}

#[test]
fn rows_are_looked_up_and_their_gradients_summed_by_row() {
    crate::load_found();
    let kernels = kernels();
    let (table, places) = (numbers(&[4, 6], 0.2), offsets(&[3, 0, 3, 1, 3]));
    let relations = offsets(&[0, 1, 2, 1, 0]);
    let mut read = parameters(Operator::ComplexDiagonal, 3, 0.4);
    let operator = super::FusedOperator::ComplexDiagonal;
    let rows = SelectedRows::at(&table, &places);
    let y = kernels
        .transform(operator, &read, Some(&relations), rows)
        .expect("room");
    let transform = OperatorApplication {
        operator: Operator::ComplexDiagonal,
        relations: Some(&relations),
        kernels: None,
    };
    let looked_up = table.index_select(0, &places);
    close(
        "forward",
        &y,
        &transform.forward(&read, &looked_up).expect("room"),
    );
    let gradient = numbers(&[5, 6], 0.8);
    let sums = Tensor::zeros([4, 6], (Kind::Float, Device::Cpu));
    let (back, used) = (gradient.copy(), Some(&relations));
    kernels
        .transform_backward(operator, &mut read, used, rows, &back, Some(&sums))
        .expect("the kernel starts");
    let mut expected = parameters(Operator::ComplexDiagonal, 3, 0.4);
    let of_rows = transform
        .backward(&mut expected, &looked_up, &gradient)
        .expect("room");
    close(
        "back",
        &sums,
        &sums.zeros_like().index_add_(0, &places, &of_rows),
    );
    for (found, expected) in read.iter().zip(&expected) {
        close("parameters", &found.gradients, &expected.gradients);
    }
}

#[test]
fn positives_are_inner_products() {
    crate::load_found();
    let kernels = kernels();
    let [q, k] = [0.1, 0.6].map(|seed| numbers(&[9, 5], seed));
    let scores = kernels.score_positives(&q, &k).expect("room");
    close(
        "scores",
        &scores,
        &(&q * &k).sum_dim_intlist(1_i64, false, None),
    );
    let gradients = numbers(&[9], 1.4);
    let [to_q, to_k] = [0.2, 0.3].map(|seed| numbers(&[9, 5], seed));
    let each = gradients.unsqueeze(1);
    let expected = [&to_q + &k * &each, &to_k + &q * &each];
    kernels
        .differentiate_positives([&q, &k], &gradients, [&to_q, &to_k])
        .expect("the kernel starts");
    close("queries", &to_q, &expected[0]);
    close("candidates", &to_k, &expected[1]);
}

#[test]
fn updates_are_adagrads_and_leave_out_what_is_not_finite() {
    crate::load_found();
    let kernels = kernels();
    let (lr, epsilon) = (0.5, f64::from(pbg_rows::optimizer::EPSILON));
    let [rows, gradients] = [0.1, 0.7].map(|seed| numbers(&[3, 4], seed));
    let accumulators = numbers(&[3], 0.2).abs();
    let _same = gradients
        .narrow(0, 1, 1)
        .narrow(1, 2, 1)
        .fill_(f64::INFINITY);
    let table = Tensor::zeros([5, 4], (Kind::Float, Device::Cpu));
    let accumulated = Tensor::zeros([5], (Kind::Float, Device::Cpu));
    let sums = sums();
    let update = |sums: &BatchSums| {
        let rows = RowUpdate {
            rows: &rows,
            accumulators: &accumulators,
            gradients: &gradients,
            to: Some((&offsets(&[4, 0, 2]), [&table, &accumulated])),
        };
        kernels
            .update_rows(&rows, lr, sums)
            .expect("the kernel starts");
    };
    update(&sums);
    let squares = gradients.square().mean_dim(1_i64, false, None);
    let after = &accumulators + squares;
    let moved = &rows - &gradients * f64::from(lr) / (after.sqrt() + epsilon).unsqueeze(1);
    for (row, to) in [(0, 4), (2, 2)] {
        close("row", &row_of(&table, to), &row_of(&moved, row));
        close(
            "accumulator",
            &row_of(&accumulated, to),
            &row_of(&after, row),
        );
    }
    close("left out", &row_of(&table, 0), &row_of(&rows, 1));
    close(
        "left out",
        &row_of(&accumulated, 0),
        &row_of(&accumulators, 1),
    );
    assert!(sums.stats(3).is_err(), "one gradient is infinite");
    // If the loss of a batch is not finite, nothing is applied.
    let untouched = table.copy();
    let broken = self::sums();
    let _same = broken.all().narrow(0, 0, 1).fill_(f64::NAN);
    let _same = rows.shallow_clone().fill_(9.0);
    update(&broken);
    close("nothing", &table, &untouched);
}

#[test]
fn parameters_have_an_accumulator_for_each_element() {
    crate::load_found();
    let kernels = kernels();
    let read = ParameterRows::of(0, numbers(&[2, 3], 0.4));
    read.gradients.shallow_clone().copy_(&numbers(&[2, 3], 0.9));
    let [values, accumulators] = [0.5, 0.6].map(|seed| numbers(&[4, 3], seed).abs());
    let (before, accumulated) = (values.copy(), accumulators.copy());
    let ids = offsets(&[3, 1]);
    let all = [&values, &accumulators];
    kernels
        .update_parameters(&read, &ids, all, 0.5, &sums())
        .expect("the kernel starts");
    let after = accumulated.index_select(0, &ids) + read.gradients.square();
    close("accumulators", &accumulators.index_select(0, &ids), &after);
    let epsilon = f64::from(pbg_rows::optimizer::EPSILON);
    let moved = before.index_select(0, &ids) - &read.gradients * 0.5 / (after.sqrt() + epsilon);
    close("values", &values.index_select(0, &ids), &moved);
    close("others", &row_of(&values, 0), &row_of(&before, 0));
}
