//! The definition of a loss that a plugin returns, and the checked graph made from it.

use std::num::NonZeroU32;

use super::error::GraphError;
use super::node::{Node, NodeId, Shape, Unary};
use crate::formula::check::{NodeCheck, parameter_names};

/// Default limit of the number of nodes of a graph.
pub const MAX_NODES: usize = 1024;
/// Most parameters of a graph.
pub const MAX_PARAMETERS: usize = 64;

/// Number of the graph that its plugin may change during training.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name: lower-case letters, digits and underscores.
    pub name: String,
    /// Initial value.
    pub value: f32,
}

/// Graph as a plugin returns it, not checked yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// Nodes, operands before users.
    pub nodes: Vec<Node>,
    /// Node with the loss of each positive.
    pub output: NodeId,
    /// Parameters, to which [`Node::Parameter`] refers.
    pub parameters: Vec<Parameter>,
    /// Number of batches between two updates of the parameters; 0 for no updates.
    pub update_every: u32,
}

/// Checked graph: operands come before users and have suitable shapes, constants are finite, and the output is `[B]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    shapes: Vec<Shape>,
    parameters: Vec<Parameter>,
    output: NodeId,
    update_every: Option<NonZeroU32>,
}

impl Definition {
    /// Checks the definition.
    ///
    /// # Errors
    /// Returns the first error, in the order of nodes.
    pub fn check(self, max_nodes: usize) -> Result<Graph, GraphError> {
        let found = self.nodes.len();
        let mut check = NodeCheck::new(&self.nodes, self.parameters.len(), max_nodes)?;
        check_parameters(&self.parameters)?;
        for (node, &what) in (0..).zip(&self.nodes) {
            if let Node::Component(_) | Node::Gradient(_) = what {
                let kind = "a loss";
                return Err(GraphError::Foreign { node, what, kind });
            }
            check.next(what)?;
        }
        let shapes = check.shapes;
        let output = self.output;
        match shapes.get(output as usize) {
            Some(Shape::Row) => Ok(Graph {
                nodes: self.nodes,
                shapes,
                parameters: self.parameters,
                output,
                update_every: NonZeroU32::new(self.update_every),
            }),
            Some(&found) => Err(GraphError::OutputShape { output, found }),
            None => Err(GraphError::UnknownOutput {
                output,
                nodes: found,
            }),
        }
    }
}

fn check_parameters(parameters: &[Parameter]) -> Result<(), GraphError> {
    let names = parameters.iter().map(|parameter| parameter.name.as_str());
    parameter_names(names, MAX_PARAMETERS)?;
    match parameters.iter().position(|p| !p.value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            let Parameter { name, value } = &parameters[index];
            let reason = format!("{name} is {value}, which is not finite");
            Err(GraphError::Parameter { index, reason })
        }
    }
}

impl Graph {
    /// Returns the nodes, operands before users.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the shape of every node.
    #[must_use]
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Returns the parameters, with their initial values.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Returns the node with the loss of each positive.
    #[must_use]
    pub fn output(&self) -> NodeId {
        self.output
    }

    /// Whether it contains a stopped gradient, so that its gradient intentionally differs from the derivative of its
    /// value.
    #[must_use]
    pub fn stops_gradient(&self) -> bool {
        let stops = |node: &Node| matches!(node, Node::Unary(Unary::StopGradient, _));
        self.nodes.iter().any(stops)
    }

    /// Returns the number of batches between two updates of the parameters; `None` if they are not updated.
    #[must_use]
    pub fn update_every(&self) -> Option<NonZeroU32> {
        self.update_every
    }
}
