//! The node in which a formula stops to be finite, for messages.

use std::fmt;

use crate::interpret::NodeValue;
use crate::node::{FormulaNode, NodeId};
use crate::operator::Expression;
use crate::operator::interpret::VectorInput;

/// Number of a formula that is infinite or not a number, although the numbers that it is computed from are finite.
#[derive(Clone, Debug, PartialEq)]
pub struct FormulaBreak {
    /// What computes it.
    pub node: FormulaNode,
    /// Numbers that it is computed from: those of the first element, if it is a sum.
    pub operands: Vec<f64>,
    /// The number.
    pub value: f64,
}

impl Expression {
    /// Returns the origin of the first element of the outputs that is not finite, computed in single precision as in
    /// training; `None` if all are finite, or an input is not.
    #[must_use]
    pub fn first_break(&self, input: &VectorInput<'_>) -> Option<FormulaBreak> {
        let values = input.input().evaluate_rounded(&self.nodes);
        let outputs = self.outputs.iter().flatten();
        let mut elements = outputs.flat_map(|&id| (0..input.width).map(move |i| (id, i)));
        let (mut id, mut element) =
            elements.find(|&(id, i)| !values[id as usize].at(i).is_finite())?;
        let bad = |id: NodeId, at: usize| !values[id as usize].at(at).is_finite();
        loop {
            let node = self.nodes[id as usize];
            let mut found = None;
            for operand in node.operands() {
                let elements = match node {
                    FormulaNode::Sum(_) => 0..input.width,
                    _ => element..element + 1,
                };
                found = found.or(elements
                    .filter(|&at| bad(operand, at))
                    .map(|at| (operand, at))
                    .next());
            }
            match found {
                Some(earlier) => (id, element) = earlier,
                None => return of_node(id, node, element, &values),
            }
        }
    }
}

/// Describes a node with its operands; `None` for an input of the formula.
fn of_node(
    id: NodeId,
    node: FormulaNode,
    element: usize,
    values: &[NodeValue],
) -> Option<FormulaBreak> {
    let at = |id: NodeId| values[id as usize].at(element);
    let operands: Vec<f64> = node.operands().map(at).collect();
    (!operands.is_empty()).then(|| FormulaBreak {
        node,
        operands,
        value: at(id),
    })
}

/// Formats a number in a few digits.
#[must_use]
pub fn short(x: f64) -> String {
    match x == 0.0 || (1e-3..1e6).contains(&x.abs()) {
        true => format!("{:.4}", x)
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => format!("{x:.3e}"),
    }
}

impl fmt::Display for FormulaBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands: Vec<String> = self.operands.iter().map(|&x| short(x)).collect();
        let operands = operands.join(", ");
        match self.node {
            FormulaNode::Unary(op, _) => write!(f, "{op}({operands})")?,
            FormulaNode::Binary(op, ..) => write!(f, "{op}({operands})")?,
            FormulaNode::Sum(_) => write!(f, "a sum")?,
            FormulaNode::Softmax(_) => write!(f, "softmax({operands})")?,
            FormulaNode::Select(..) => write!(f, "select({operands})")?,
            _ => write!(f, "clamp({operands})")?,
        }
        match self.value.is_nan() {
            true => write!(f, " is not a number"),
            false => write!(f, " is infinite in single precision"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Binary, Unary};

    #[test]
    fn the_node_that_begins_it_is_found() {
        // log(x) * 2 + 1
        let expression = Expression {
            nodes: vec![
                FormulaNode::Component(0),
                FormulaNode::Unary(Unary::Log, 0),
                FormulaNode::Constant(2.0),
                FormulaNode::Binary(Binary::Mul, 1, 2),
                FormulaNode::Sum(3),
            ],
            shapes: vec![],
            outputs: vec![Some(4)],
        };
        let found = |components: &[f64]| {
            expression.first_break(&VectorInput {
                width: 2,
                components,
                parameters: &[],
                gradients: &[],
            })
        };
        assert_eq!(found(&[1.0, 2.0]), None);
        let negative = found(&[1.0, -3.0]).unwrap();
        assert_eq!(negative.operands, [-3.0]);
        assert_eq!(negative.to_string(), "log(-3) is not a number");
        let infinite = found(&[0.0, 1.0]).unwrap();
        assert_eq!(
            infinite.to_string(),
            "log(0) is infinite in single precision"
        );
        // The formula is not to blame for its input.
        assert_eq!(found(&[f64::NAN, 1.0]), None);
    }

    #[test]
    fn numbers_are_those_of_training() {
        // log(exp(x)) is 100 in double precision.
        let expression = Expression {
            nodes: vec![
                FormulaNode::Component(0),
                FormulaNode::Unary(Unary::Exp, 0),
                FormulaNode::Unary(Unary::Log, 1),
            ],
            shapes: vec![],
            outputs: vec![Some(2)],
        };
        let found = expression.first_break(&VectorInput {
            width: 1,
            components: &[100.0],
            parameters: &[],
            gradients: &[],
        });
        assert_eq!(
            found.unwrap().to_string(),
            "exp(100) is infinite in single precision"
        );
    }
}
