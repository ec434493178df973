//! What is wrong with a graph.

use super::node::{Node, NodeId, Shape};

/// A formula that is none of what it should be: of a loss, or of an operator. Messages name the node by its index in the list.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// No nodes.
    #[error("the graph has no nodes")]
    Empty,
    /// More nodes than granted.
    #[error("the graph has {found} nodes, more than the {limit} that one may have")]
    TooManyNodes {
        /// Nodes.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// More parameters than granted.
    #[error("the graph has {found} parameters, more than the {limit} that one may have")]
    TooManyParameters {
        /// Parameters.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// An operand that is not there.
    #[error("node {node}, {what}: there is no node {operand}, the graph has {nodes}")]
    UnknownOperand {
        /// Which node.
        node: NodeId,
        /// The node.
        what: Node,
        /// The operand.
        operand: NodeId,
        /// Nodes in the graph.
        nodes: usize,
    },
    /// An operand that does not come before its user; a cycle would need one.
    #[error(
        "node {node}, {what}: operand {operand} does not come before it; a node uses earlier ones \
         only, so that there are no cycles"
    )]
    ForwardReference {
        /// Which node.
        node: NodeId,
        /// The node.
        what: Node,
        /// The operand.
        operand: NodeId,
    },
    /// A parameter that is not there.
    #[error("node {node}: there is no parameter {parameter}, the graph has {parameters}")]
    UnknownParameter {
        /// Which node.
        node: NodeId,
        /// The index.
        parameter: u32,
        /// Parameters of the graph.
        parameters: usize,
    },
    /// A number that is infinite or not a number, given or computed from constants alone.
    #[error("node {node}, {what}: its value is always {value}, which is not finite")]
    NotFinite {
        /// Which node.
        node: NodeId,
        /// The node.
        what: Node,
        /// The value.
        value: f32,
    },
    /// An operand of the wrong shape.
    #[error(
        "node {node}, {what}: node {operand} is {found}, and only [B, N] can be reduced over the \
         negatives"
    )]
    Shape {
        /// Which node.
        node: NodeId,
        /// The node.
        what: Node,
        /// The operand.
        operand: NodeId,
        /// Its shape.
        found: Shape,
    },
    /// A name or value of a parameter.
    #[error("parameter {index} of the graph: {reason}")]
    Parameter {
        /// Its index.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// A node that formulas of this kind have not.
    #[error("node {node}, {what}: there is no such node in {kind}")]
    Foreign {
        /// Which node.
        node: NodeId,
        /// The node.
        what: Node,
        /// What the formula is of.
        kind: &'static str,
    },
    /// Embeddings cannot be cut into so many components.
    #[error("{found} components: an embedding is taken as a whole, or cut into 2 or 4 components")]
    Components {
        /// Components.
        found: u32,
    },
    /// A component that is not there.
    #[error("node {node}: there is no component {component}, embeddings have {components}")]
    UnknownComponent {
        /// Which node.
        node: NodeId,
        /// The index.
        component: u32,
        /// Components of an embedding.
        components: u32,
    },
    /// Nothing to learn.
    #[error("it has no parameters, so it would be the same for all relations")]
    Parameterless,
    /// Not one output per component.
    #[error(
        "{found} outputs for {components} components: an operator makes an embedding of an embedding"
    )]
    Outputs {
        /// Outputs.
        found: usize,
        /// Components of an embedding.
        components: u32,
    },
    /// An output that is the same for all embeddings.
    #[error("the output, node {output}, depends on no component of the embedding")]
    Independent {
        /// The node.
        output: NodeId,
    },
    /// The output is not there.
    #[error("the output is node {output}, the graph has {nodes}")]
    UnknownOutput {
        /// The index.
        output: NodeId,
        /// Nodes in the graph.
        nodes: usize,
    },
    /// The output has the wrong shape.
    #[error(
        "the output, node {output}, is {found}: a loss has one value per positive, [B]; {}",
        match .found {
            Shape::Matrix => "reduce it over the negatives, with sum or mean",
            _ => "it depends on no score",
        }
    )]
    OutputShape {
        /// The node.
        output: NodeId,
        /// Its shape.
        found: Shape,
    },
}
