//! Shapes of results from shapes of operands, and what operands must look like.

use super::dimension::{Dim, Shape};
use super::error::ShapeError;
use super::graph::{Name, Operation};
use crate::graph::Side;
use crate::model::Operator;

const COMPARED: &str =
    "the two sides of a relation are compared, so their embeddings have one dimension";
const BATCHED: &str = "the batch is the first dimension of everything but weights and tables";

const GRADIENT: &str = "a gradient is as long as what it is the gradient of";

/// Floats of an operator's packed parameters for embeddings of `dimension` floats.
#[must_use]
pub fn parameter_width(operator: Operator, dimension: usize) -> usize {
    match operator {
        Operator::None => 0,
        Operator::Diagonal | Operator::Translation | Operator::ComplexDiagonal => dimension,
        Operator::Linear => dimension * dimension,
        Operator::Affine => dimension * (dimension + 1),
    }
}

/// The operands of one node.
struct Operands<'a> {
    node: Name,
    shapes: &'a [&'a Shape],
}

impl Operands<'_> {
    fn get(&self, index: usize) -> Option<&Shape> {
        self.shapes.get(index).copied()
    }

    fn wrong(
        &self,
        index: usize,
        operand: &'static str,
        expected: String,
        reason: &'static str,
    ) -> ShapeError {
        let found = match self.get(index) {
            Some(shape) => shape.to_string(),
            None => "missing".to_owned(),
        };
        ShapeError {
            node: self.node,
            operand,
            expected,
            found,
            reason,
        }
    }

    /// Operand `index`, which is rows of floats.
    fn rows(&self, index: usize, operand: &'static str) -> Result<(&Shape, usize), ShapeError> {
        let rows = self
            .get(index)
            .and_then(|shape| shape.width().map(|w| (shape, w)));
        let rows = rows.filter(|(shape, width)| shape.0.len() > 1 && *width > 0);
        rows.ok_or_else(|| {
            let reason = "an embedding has at least one coordinate";
            self.wrong(index, operand, "rows of at least one float".into(), reason)
        })
    }

    /// Operand `index`, rows as long as `width`.
    fn rows_of(
        &self,
        index: usize,
        operand: &'static str,
        width: usize,
        reason: &'static str,
    ) -> Result<&Shape, ShapeError> {
        let (shape, found) = self.rows(index, operand)?;
        if found == width {
            return Ok(shape);
        }
        let expected = shape.with_width(width).to_string();
        Err(self.wrong(index, operand, expected, reason))
    }

    /// Operand `index`, whose shape is known.
    fn exactly(
        &self,
        index: usize,
        operand: &'static str,
        shape: Shape,
        reason: &'static str,
    ) -> Result<(), ShapeError> {
        if self.get(index) == Some(&shape) {
            return Ok(());
        }
        Err(self.wrong(index, operand, shape.to_string(), reason))
    }
}

fn shape<const N: usize>(dims: [Dim; N]) -> Shape {
    Shape(dims.to_vec())
}

/// Shapes of the results of `operation` on operands of `shapes`: those that the operation defines (one arm per
/// operation, so this is long); what else a node keeps is the builder's.
pub(super) fn infer(
    node: Name,
    operation: Operation,
    shapes: &[&Shape],
) -> Result<Vec<Shape>, ShapeError> {
    let operands = Operands { node, shapes };
    let positives = || shape([Dim::Chunks, Dim::Positives]);
    let of_positives = |width| shape([Dim::Chunks, Dim::Positives, Dim::Embedding(width)]);
    let same = |index: usize| operands.get(index).cloned().into_iter().collect();
    Ok(match operation {
        Operation::Read | Operation::Round => same(0),
        Operation::Gather => {
            let (_, width) = operands.rows(0, "table")?;
            operands.exactly(1, "edges", positives(), BATCHED)?;
            let rows = match operands.get(2).map(|draws| draws.0.as_slice()) {
                None => Dim::Positives,
                Some([Dim::Chunks, Dim::Draws(side, draws)]) => Dim::Rows(*side, *draws),
                Some(_) => {
                    return Err(operands.wrong(2, "draws", "[chunks, draws]".into(), BATCHED));
                }
            };
            vec![shape([Dim::Chunks, rows, Dim::Embedding(width)])]
        }
        Operation::GatherAll => {
            let (table, width) = operands.rows(0, "table")?;
            let side = table_side(&operands, 0, table)?;
            vec![shape([Dim::Entities(side), Dim::Embedding(width)])]
        }
        Operation::Global => {
            let (_, width) = operands.rows(0, "rows")?;
            let reason = "the global embedding is added to every row";
            operands.exactly(
                1,
                "global embedding",
                shape([Dim::Embedding(width)]),
                reason,
            )?;
            same(0)
        }
        Operation::Operator(operator) => {
            transformed(&operands, operator, 0, 1)?;
            same(0)
        }
        Operation::Prepare { bias } => {
            let (rows, width) = operands.rows(0, "rows")?;
            if bias && width < 2 {
                let expected = "rows of at least two floats".to_owned();
                let reason = "a bias takes the first coordinate, which must not be the only one";
                return Err(operands.wrong(0, "rows", expected, reason));
            }
            vec![rows.clone()]
        }
        Operation::Score { columns } => {
            let (_, width) = operands.rows(0, "queries")?;
            operands.rows_of(1, "candidates", width, COMPARED)?;
            vec![shape([Dim::Chunks, Dim::Positives, columns]), positives()]
        }
        Operation::Loss => {
            operands.exactly(1, "scores of positives", positives(), BATCHED)?;
            vec![
                operands.get(0).cloned().unwrap_or_else(positives),
                positives(),
            ]
        }
        Operation::QueryGradients => {
            let (_, width) = operands.rows(1, "candidates")?;
            vec![of_positives(width)]
        }
        Operation::CandidateGradients => {
            let (_, width) = operands.rows(1, "queries")?;
            let candidates = operands.rows_of(2, "candidates", width, COMPARED)?;
            let scores = operands.get(0).map(|scores| scores.0.as_slice());
            match (candidates.is_batched(), scores) {
                (false, _) => same(2),
                (true, Some([Dim::Chunks, Dim::Positives, columns])) => {
                    vec![shape([Dim::Chunks, *columns, Dim::Embedding(width)])]
                }
                (true, _) => {
                    let expected = "[chunks, positives, candidates]".to_owned();
                    return Err(operands.wrong(0, "gradients of scores", expected, BATCHED));
                }
            }
        }
        Operation::PositiveGradients => {
            operands.exactly(0, "gradients of scores", positives(), BATCHED)?;
            let (_, width) = operands.rows(1, "candidates")?;
            operands.rows_of(2, "queries", width, COMPARED)?;
            vec![of_positives(width), of_positives(width)]
        }
        Operation::Regularize => {
            let (_, width) = operands.rows(1, "rows")?;
            operands.rows_of(0, "gradients", width, GRADIENT)?;
            same(0)
        }
        Operation::Join => {
            let (_, width) = operands.rows(1, "rows")?;
            operands.rows_of(0, "gradients", width, GRADIENT)?;
            vec![of_positives(width)]
        }
        Operation::Sum => {
            let (table, width) = operands.rows(1, "table")?;
            let side = table_side(&operands, 1, table)?;
            operands.rows_of(0, "gradients", width, GRADIENT)?;
            vec![shape([Dim::Touched(side), Dim::Embedding(width)])]
        }
        Operation::Back(operator) => {
            let (_, width) = operands.rows(1, "rows")?;
            operands.rows_of(0, "gradients", width, GRADIENT)?;
            if operator != Operator::None {
                transformed(&operands, operator, 1, 2)?;
            }
            same(0)
        }
        Operation::UpdateRows => {
            let (_, width) = operands.rows(1, "table")?;
            operands.rows_of(0, "sums", width, GRADIENT)?;
            Vec::new()
        }
        Operation::RegularizeParameters | Operation::UpdateParameters => {
            let width = |index: usize| operands.get(index).and_then(Shape::width);
            if width(0) != width(1) {
                let expected = operands.get(1).map_or("missing".into(), Shape::to_string);
                return Err(operands.wrong(0, "gradients", expected, GRADIENT));
            }
            Vec::new()
        }
    })
}

/// The side of the table that is operand `index`.
fn table_side(operands: &Operands<'_>, index: usize, table: &Shape) -> Result<Side, ShapeError> {
    match table.0.first() {
        Some(&Dim::TableRows(side)) => Ok(side),
        _ => {
            let expected = "[table rows, floats]".to_owned();
            Err(operands.wrong(index, "table", expected, "entities are rows of a table"))
        }
    }
}

/// Checks that rows and parameters fit an operator.
fn transformed(
    operands: &Operands<'_>,
    operator: Operator,
    rows: usize,
    parameters: usize,
) -> Result<(), ShapeError> {
    let (input, width) = operands.rows(rows, "rows")?;
    if operator == Operator::ComplexDiagonal && !width.is_multiple_of(2) {
        let expected = "rows of an even number of floats".to_owned();
        let reason = "complex_diagonal pairs coordinates, so the dimension must be even";
        return Err(operands.wrong(rows, "rows", expected, reason));
    }
    let wanted = Dim::Parameters(parameter_width(operator, width));
    let reason = "an operator's parameters are as many as the dimension asks for";
    match operands.get(parameters).map(|shape| shape.0.as_slice()) {
        // A row per relation: only positives have a relation of their own.
        Some(&[relations @ Dim::Relations(_), _]) => {
            let per_edge = shape([Dim::Chunks, Dim::Positives, Dim::Embedding(width)]);
            if *input != per_edge {
                let reason = "only positives have a relation of their own";
                return Err(operands.wrong(rows, "rows", per_edge.to_string(), reason));
            }
            operands.exactly(parameters, "parameters", shape([relations, wanted]), reason)
        }
        _ => operands.exactly(parameters, "parameters", shape([wanted]), reason),
    }
}
