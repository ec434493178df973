//! The error for operands of the wrong shape.

use super::graph::TensorName;

/// Error for an operand whose shape does not fit its node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {operand} must be {expected}, not {found}: {reason}")]
pub struct ShapeError {
    /// The node.
    pub node: TensorName,
    /// Name of the operand.
    pub operand: &'static str,
    /// Expected shape.
    pub expected: String,
    /// Actual shape.
    pub found: String,
    /// Reason for which the node needs the expected shape.
    pub reason: &'static str,
}
