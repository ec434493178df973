//! What a plugin hands over, and the checked graph that it becomes.

use std::num::NonZeroU32;

use super::builder::fold;
use super::error::GraphError;
use super::node::{Node, NodeId, Shape, Unary};

/// Nodes that a graph may have, unless its host grants other numbers.
pub const MAX_NODES: usize = 1024;
/// Parameters that a graph may have.
pub const MAX_PARAMETERS: usize = 64;
/// Bytes of a parameter's name.
const NAME_BYTES: usize = 64;

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
        if found == 0 {
            return Err(GraphError::Empty);
        }
        if found > max_nodes {
            return Err(GraphError::TooManyNodes {
                found,
                limit: max_nodes,
            });
        }
        check_parameters(&self.parameters)?;
        let mut shapes: Vec<Shape> = Vec::with_capacity(found);
        let mut constants: Vec<Option<f32>> = Vec::with_capacity(found);
        for (node, &what) in (0..).zip(&self.nodes) {
            self.check_operands(node, what)?;
            check_shape(node, what, &shapes)?;
            let value = fold(what, |id| constants[id as usize]);
            if let Some(value) = value.filter(|value| !value.is_finite()) {
                return Err(GraphError::NotFinite { node, what, value });
            }
            constants.push(value);
            shapes.push(what.shape(|id| shapes[id as usize]));
        }
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

    fn check_operands(&self, node: NodeId, what: Node) -> Result<(), GraphError> {
        let nodes = self.nodes.len();
        if let Node::Parameter(parameter) = what
            && parameter as usize >= self.parameters.len()
        {
            return Err(GraphError::UnknownParameter {
                node,
                parameter,
                parameters: self.parameters.len(),
            });
        }
        match what.operands().find(|&operand| operand >= node) {
            None => Ok(()),
            Some(operand) if operand as usize >= nodes => Err(GraphError::UnknownOperand {
                node,
                what,
                operand,
                nodes,
            }),
            Some(operand) => Err(GraphError::ForwardReference {
                node,
                what,
                operand,
            }),
        }
    }
}

fn check_shape(node: NodeId, what: Node, shapes: &[Shape]) -> Result<(), GraphError> {
    let (Node::Reduce(_, operand) | Node::Softmax(operand)) = what else {
        return Ok(());
    };
    match shapes[operand as usize] {
        Shape::Matrix => Ok(()),
        found => Err(GraphError::Shape {
            node,
            what,
            operand,
            found,
        }),
    }
}

fn check_parameters(parameters: &[Parameter]) -> Result<(), GraphError> {
    if parameters.len() > MAX_PARAMETERS {
        return Err(GraphError::TooManyParameters {
            found: parameters.len(),
            limit: MAX_PARAMETERS,
        });
    }
    for (index, Parameter { name, value }) in parameters.iter().enumerate() {
        let fault = |reason: String| Err(GraphError::Parameter { index, reason });
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(allowed) {
            return fault(format!(
                "its name must be 1 to {NAME_BYTES} lower-case letters, digits and underscores"
            ));
        }
        if parameters[..index].iter().any(|other| other.name == *name) {
            return fault(format!("{name} is there twice"));
        }
        if !value.is_finite() {
            return fault(format!("{name} is {value}, which is not finite"));
        }
    }
    Ok(())
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
