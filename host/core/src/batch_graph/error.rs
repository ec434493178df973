//! Shapes that do not fit.

use super::graph::Name;

/// An operand of a node that does not have the shape that the node needs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {operand} must be {expected}, not {found}: {reason}")]
pub struct ShapeError {
    /// The node.
    pub node: Name,
    /// Which of its operands.
    pub operand: &'static str,
    /// The shape that fits.
    pub expected: String,
    /// The shape that it has.
    pub found: String,
    /// Why.
    pub reason: &'static str,
}
