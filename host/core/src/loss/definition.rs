//! What a plugin hands over, and the checked graph that it becomes.

use std::num::NonZeroU32;

use super::error::GraphError;
use super::node::{Node, NodeId, Shape, Unary};
use crate::formula::check::{NodeCheck, parameter_names};

/// Nodes that a graph may have, unless its host grants other numbers.
pub const MAX_NODES: usize = 1024;
/// Parameters that a graph may have.
pub const MAX_PARAMETERS: usize = 64;

/// A number of the graph that its plugin may change while training goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Lower-case letters, digits and underscores.
    pub name: String,
    /// Value at the beginning of a run.
    pub value: f32,
}

/// A graph as a plugin hands it over; nothing of it is to be believed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// Operands before users.
    pub nodes: Vec<Node>,
    /// The loss of each positive.
    pub output: NodeId,
    /// What [`Node::Parameter`] refers to.
    pub parameters: Vec<Parameter>,
    /// Parameters are updated after every so many batches; 0: never.
    pub update_every: u32,
}

/// A checked graph: operands come before users and are of the right shape, constants are finite,
/// the output is `[B]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    nodes: Vec<Node>,
    shapes: Vec<Shape>,
    parameters: Vec<Parameter>,
    output: NodeId,
    update_every: Option<NonZeroU32>,
}

impl Definition {
    /// Checks all of it.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order of nodes.
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
    /// Its nodes, operands before users.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The shape of every node.
    #[must_use]
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// Its parameters, with the values of the beginning.
    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// The loss of each positive.
    #[must_use]
    pub fn output(&self) -> NodeId {
        self.output
    }

    /// Whether its gradient is not that of its value on purpose.
    #[must_use]
    pub fn stops_gradient(&self) -> bool {
        let stops = |node: &Node| matches!(node, Node::Unary(Unary::StopGradient, _));
        self.nodes.iter().any(stops)
    }

    /// After how many batches its parameters are updated; `None`: never.
    #[must_use]
    pub fn update_every(&self) -> Option<NonZeroU32> {
        self.update_every
    }
}
