//! Shape inference: the shapes of results from those of operands, and the checks of operands.

use super::dimension::{Dim, TensorShape};
use super::error::ShapeError;
use super::graph::{Operation, TensorName};
use super::operands::Operands;
use crate::model::Operator;

const COMPARED: &str =
    "the two sides of a relation are compared, so their embeddings must have the same dimension";
const BATCHED: &str = "the batch is the first dimension of everything but weights and tables";

const GRADIENT: &str = "a gradient has the shape of the values that it belongs to";

/// Returns the number of floats of an operator's packed parameters for embeddings of `dimension` floats.
#[must_use]
pub fn parameter_width(operator: Operator, dimension: usize) -> usize {
    match operator {
        Operator::None => 0,
        Operator::Diagonal | Operator::Translation | Operator::ComplexDiagonal => dimension,
        Operator::Linear => dimension * dimension,
        Operator::Affine => dimension * (dimension + 1),
        Operator::Traced(formula) => formula.parameter_width(dimension),
    }
}

fn shape<const N: usize>(dims: [Dim; N]) -> TensorShape {
    TensorShape(dims.to_vec())
}

fn positives() -> TensorShape {
    shape([Dim::Chunks, Dim::Positives])
}

fn of_positives(width: usize) -> TensorShape {
    shape([Dim::Chunks, Dim::Positives, Dim::Embedding(width)])
}

/// Returns the shapes of the results that `operation` defines for operands of `shapes`. The builder adds the tensors
/// that a node keeps besides.
pub(super) fn infer(
    node: TensorName,
    operation: Operation,
    shapes: &[&TensorShape],
) -> Result<Vec<TensorShape>, ShapeError> {
    let operands = Operands { node, shapes };
    let like_first = |checked: Result<(), ShapeError>| checked.map(|()| operands.same(0));
    let alone = |shape: Result<TensorShape, ShapeError>| shape.map(|shape| vec![shape]);
    match operation {
        Operation::Read | Operation::Round => Ok(operands.same(0)),
        Operation::Gather => alone(gathered(&operands)),
        Operation::GatherAll => alone(all_entities(&operands)),
        Operation::Global => like_first(with_global(&operands)),
        Operation::Operator(operator) => like_first(transformed(&operands, operator, 0, 1)),
        Operation::Prepare { bias } => alone(prepared(&operands, bias)),
        Operation::Score { columns } => scored(&operands, columns),
        Operation::Loss => lost(&operands),
        Operation::QueryGradients => {
            let (_, width) = operands.rows(1, "candidates")?;
            Ok(vec![of_positives(width)])
        }
        Operation::CandidateGradients => alone(candidate_gradients(&operands)),
        Operation::PositiveGradients => positive_gradients(&operands),
        Operation::PredictRelations => {
            let (_, width) = operands.rows(0, "rows")?;
            operands.rows_of(1, "rows compared with", width, COMPARED)?;
            Ok(Vec::new())
        }
        Operation::Regularize(_) => like_first(gradients_of(&operands).map(|_| ())),
        Operation::Join => alone(gradients_of(&operands).map(of_positives)),
        Operation::Sum => alone(summed(&operands)),
        Operation::Back(operator) => like_first(back(&operands, operator)),
        Operation::UpdateRows => {
            let (_, width) = operands.rows(1, "table")?;
            operands.rows_of(0, "sums", width, GRADIENT)?;
            Ok(Vec::new())
        }
        Operation::RegularizeParameters | Operation::UpdateParameters => {
            as_long_as_parameters(&operands)?;
            Ok(Vec::new())
        }
    }
}

/// Returns the shape of rows of a table: those of the positives, followed by those drawn as negatives.
fn gathered(operands: &Operands<'_>) -> Result<TensorShape, ShapeError> {
    let (_, width) = operands.rows(0, "table")?;
    operands.exactly(1, "edges", positives(), BATCHED)?;
    let rows = match operands.get(2).map(|draws| draws.0.as_slice()) {
        None => Dim::Positives,
        Some([Dim::Chunks, Dim::Draws(side, draws)]) => Dim::Rows(*side, *draws),
        Some(_) => return Err(operands.wrong(2, "draws", "[chunks, draws]".into(), BATCHED)),
    };
    Ok(shape([Dim::Chunks, rows, Dim::Embedding(width)]))
}

fn all_entities(operands: &Operands<'_>) -> Result<TensorShape, ShapeError> {
    let (side, width) = operands.table(0)?;
    Ok(shape([Dim::Entities(side), Dim::Embedding(width)]))
}

fn with_global(operands: &Operands<'_>) -> Result<(), ShapeError> {
    let (_, width) = operands.rows(0, "rows")?;
    let reason = "the global embedding is added to every row";
    let global = shape([Dim::Embedding(width)]);
    operands.exactly(1, "global embedding", global, reason)
}

fn prepared(operands: &Operands<'_>, bias: bool) -> Result<TensorShape, ShapeError> {
    let (rows, width) = operands.rows(0, "rows")?;
    if bias && width < 2 {
        let expected = "rows of at least two floats".to_owned();
        let reason = "a bias takes the first coordinate, which must not be the only one";
        return Err(operands.wrong(0, "rows", expected, reason));
    }
    Ok(rows.clone())
}

/// Returns the shapes of the scores of candidates, and of positives.
fn scored(operands: &Operands<'_>, columns: Dim) -> Result<Vec<TensorShape>, ShapeError> {
    let (_, width) = operands.rows(0, "queries")?;
    operands.rows_of(1, "candidates", width, COMPARED)?;
    let scores = shape([Dim::Chunks, Dim::Positives, columns]);
    Ok(vec![scores, positives()])
}

/// Returns the shapes of the gradients of both kinds of scores.
fn lost(operands: &Operands<'_>) -> Result<Vec<TensorShape>, ShapeError> {
    operands.exactly(1, "scores of positives", positives(), BATCHED)?;
    let scores = operands.get(0).cloned().unwrap_or_else(positives);
    Ok(vec![scores, positives()])
}

/// Returns the shape of one gradient for each candidate of each chunk, or for each entity if the whole batch has one
/// set of candidates.
fn candidate_gradients(operands: &Operands<'_>) -> Result<TensorShape, ShapeError> {
    let (_, width) = operands.rows(1, "queries")?;
    let candidates = operands.rows_of(2, "candidates", width, COMPARED)?;
    if !candidates.is_batched() {
        return Ok(candidates.clone());
    }
    match operands.get(0).map(|scores| scores.0.as_slice()) {
        Some([Dim::Chunks, Dim::Positives, columns]) => {
            Ok(shape([Dim::Chunks, *columns, Dim::Embedding(width)]))
        }
        _ => {
            let expected = "[chunks, positives, candidates]".to_owned();
            Err(operands.wrong(0, "gradients of scores", expected, BATCHED))
        }
    }
}

fn positive_gradients(operands: &Operands<'_>) -> Result<Vec<TensorShape>, ShapeError> {
    operands.exactly(0, "gradients of scores", positives(), BATCHED)?;
    let (_, width) = operands.rows(1, "candidates")?;
    operands.rows_of(2, "queries", width, COMPARED)?;
    Ok(vec![of_positives(width), of_positives(width)])
}

/// Checks that the first operand contains gradients of the second, which must be rows. Returns the number of floats of
/// a row.
fn gradients_of(operands: &Operands<'_>) -> Result<usize, ShapeError> {
    let (_, width) = operands.rows(1, "rows")?;
    operands.rows_of(0, "gradients", width, GRADIENT)?;
    Ok(width)
}

/// Returns the shape of one gradient for each row of a table that the batch touches.
fn summed(operands: &Operands<'_>) -> Result<TensorShape, ShapeError> {
    let (side, width) = operands.table(1)?;
    operands.rows_of(0, "gradients", width, GRADIENT)?;
    Ok(shape([Dim::Touched(side), Dim::Embedding(width)]))
}

/// Checks the operands of a node that computes gradients before an operator from those after it.
fn back(operands: &Operands<'_>, operator: Operator) -> Result<(), ShapeError> {
    gradients_of(operands)?;
    if operator == Operator::None {
        return Ok(());
    }
    transformed(operands, operator, 1, 2)
}

fn as_long_as_parameters(operands: &Operands<'_>) -> Result<(), ShapeError> {
    let width = |index: usize| operands.get(index).and_then(TensorShape::width);
    if width(0) == width(1) {
        return Ok(());
    }
    let expected = operands
        .get(1)
        .map_or("missing".into(), TensorShape::to_string);
    Err(operands.wrong(0, "gradients", expected, GRADIENT))
}

/// Checks that rows and parameters fit an operator.
fn transformed(
    operands: &Operands<'_>,
    operator: Operator,
    rows: usize,
    parameters: usize,
) -> Result<(), ShapeError> {
    let (input, width) = operands.rows(rows, "rows")?;
    if !width.is_multiple_of(operator.components()) {
        let (expected, reason) = match operator.components() {
            2 => (
                "rows of an even number of floats",
                "the operator pairs coordinates, so the dimension must be even",
            ),
            8 => (
                "rows of a multiple of 8 floats",
                "the operator groups coordinates by eight, so the dimension must be a multiple of 8",
            ),
            _ => (
                "rows of a multiple of 4 floats",
                "the operator groups coordinates by four, so the dimension must be a multiple of 4",
            ),
        };
        return Err(operands.wrong(rows, "rows", expected.to_owned(), reason));
    }
    let wanted = Dim::Parameters(parameter_width(operator, width));
    let reason = "the dimension determines the number of an operator's parameters";
    match operands.get(parameters).map(|shape| shape.0.as_slice()) {
        // One row of parameters per relation: only positives have relations.
        Some(&[relations @ Dim::Relations(_), _]) => {
            let per_edge = shape([Dim::Chunks, Dim::Positives, Dim::Embedding(width)]);
            if *input != per_edge {
                let reason = "only positives have a relation";
                return Err(operands.wrong(rows, "rows", per_edge.to_string(), reason));
            }
            operands.exactly(parameters, "parameters", shape([relations, wanted]), reason)
        }
        _ => operands.exactly(parameters, "parameters", shape([wanted]), reason),
    }
}
