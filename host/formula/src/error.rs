//! Errors of formulas.

use super::node::{FormulaNode, NodeId, ValueShape};

/// Error in a formula of a loss, an operator or a comparator. Messages name the node by its index in the list.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FormulaError {
    /// There are no nodes.
    #[error("the graph has no nodes")]
    Empty,
    /// There are more nodes than allowed.
    #[error("the graph has {found} nodes, more than the {limit} allowed")]
    TooManyNodes {
        /// Number of nodes.
        found: usize,
        /// Greatest allowed number.
        limit: usize,
    },
    /// There are more parameters than allowed.
    #[error("the graph has {found} parameters, more than the {limit} allowed")]
    TooManyParameters {
        /// Number of parameters.
        found: usize,
        /// Greatest allowed number.
        limit: usize,
    },
    /// An operand does not exist.
    #[error("node {node}, {what}: there is no node {operand}; the graph has {nodes} nodes")]
    UnknownOperand {
        /// Index of the node.
        node: NodeId,
        /// The node.
        what: FormulaNode,
        /// Index of the operand.
        operand: NodeId,
        /// Number of nodes in the graph.
        nodes: usize,
    },
    /// An operand does not come before the node that uses it, which would allow cycles.
    #[error(
        "node {node}, {what}: operand {operand} does not come before it; a node may only use \
         earlier nodes, so that there are no cycles"
    )]
    ForwardReference {
        /// Index of the node.
        node: NodeId,
        /// The node.
        what: FormulaNode,
        /// Index of the operand.
        operand: NodeId,
    },
    /// A parameter does not exist.
    #[error(
        "node {node}: there is no parameter {parameter}; the graph has {parameters} parameters"
    )]
    UnknownParameter {
        /// Index of the node.
        node: NodeId,
        /// Index of the parameter.
        parameter: u32,
        /// Number of parameters of the graph.
        parameters: usize,
    },
    /// A number is infinite or not a number, either given or computed from constants alone.
    #[error("node {node}, {what}: its value is always {value}, which is not finite")]
    NotFinite {
        /// Index of the node.
        node: NodeId,
        /// The node.
        what: FormulaNode,
        /// The value.
        value: f32,
    },
    /// An operand has the wrong shape.
    #[error(
        "node {node}, {what}: node {operand} is {found}, but only [B, N] can be reduced over the \
         negatives"
    )]
    Shape {
        /// Index of the node.
        node: NodeId,
        /// The node.
        what: FormulaNode,
        /// Index of the operand.
        operand: NodeId,
        /// Shape of the operand.
        found: ValueShape,
    },
    /// The name or the value of a parameter is invalid.
    #[error("parameter {index} of the graph: {reason}")]
    Parameter {
        /// Index of the parameter.
        index: usize,
        /// What is wrong.
        reason: String,
    },
    /// A node is not allowed in formulas of this kind.
    #[error("node {node}, {what}: this node is not allowed in {kind}")]
    Foreign {
        /// Index of the node.
        node: NodeId,
        /// The node.
        what: FormulaNode,
        /// Kind of the formula.
        kind: &'static str,
    },
    /// Embeddings cannot be cut into this many components.
    #[error("{found} components: the number of components of an embedding must be 1, 2, 4 or 8")]
    Components {
        /// Number of components.
        found: u32,
    },
    /// A component does not exist.
    #[error(
        "node {node}: there is no component {component}; {of} {components} component{}, counted from 0",
        if *components == 1 { "" } else { "s" }
    )]
    UnknownComponent {
        /// Index of the node.
        node: NodeId,
        /// Index of the component.
        component: u32,
        /// Beginning of a sentence on the embeddings that are cut into components.
        of: &'static str,
        /// Number of components of these embeddings.
        components: u32,
    },
    /// The operator has no parameters to learn.
    #[error("it has no parameters, so it would be the same for all relations")]
    Parameterless,
    /// The number of outputs differs from the number of components.
    #[error(
        "{found} outputs{side} for {components} components: an operator must have one output per component"
    )]
    Outputs {
        /// Number of outputs.
        found: usize,
        /// Side of an edge that they belong to, as a phrase.
        side: &'static str,
        /// Number of components of an embedding.
        components: u32,
    },
    /// An output does not depend on the embedding.
    #[error("the output, node {output}, depends on no component of the embedding")]
    Independent {
        /// Index of the output node.
        output: NodeId,
    },
    /// A score does not depend on both embeddings.
    #[error("the score, node {output}, does not depend on both embeddings")]
    OneSided {
        /// Index of the score's node.
        output: NodeId,
    },
    /// A score is not one number per pair of embeddings.
    #[error("the score, node {output}, differs from element to element: sum it over the vector")]
    NotSummed {
        /// Index of the score's node.
        output: NodeId,
    },
    /// The output node does not exist.
    #[error("the output is node {output}, but the graph has {nodes} nodes")]
    UnknownOutput {
        /// Index of the output node.
        output: NodeId,
        /// Number of nodes in the graph.
        nodes: usize,
    },
    /// The output has the wrong shape.
    #[error(
        "the output, node {output}, is {found}, but a loss must have one value per positive, [B]; {}",
        match .found {
            ValueShape::Matrix => "reduce it over the negatives, with sum or mean",
            _ => "it depends on no score",
        }
    )]
    OutputShape {
        /// Index of the output node.
        output: NodeId,
        /// Shape of the output node.
        found: ValueShape,
    },
}
