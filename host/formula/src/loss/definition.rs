//! The definition of a loss that a plugin returns, and the checked graph made from it.

use std::num::NonZeroU32;

use crate::check::{NodeCheck, parameter_names};
use crate::error::FormulaError;
use crate::node::{FormulaNode, NodeId, Unary, ValueShape};

/// Default limit of the number of nodes of a graph.
pub const MAX_NODES: usize = 1024;
/// Most parameters of a graph.
pub const MAX_PARAMETERS: usize = 64;

/// Number of the graph that its plugin may change during training.
#[derive(Clone, Debug, PartialEq)]
pub struct LossParameter {
    /// Name: lower-case letters, digits and underscores.
    pub name: String,
    /// Initial value.
    pub value: f32,
}

/// Graph as a plugin returns it, not checked yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LossDefinition {
    /// Nodes, operands before users.
    pub nodes: Vec<FormulaNode>,
    /// Node with the loss of each positive.
    pub output: NodeId,
    /// Parameters, to which [`FormulaNode::Parameter`] refers.
    pub parameters: Vec<LossParameter>,
    /// Number of batches between two updates of the parameters; 0 for no updates.
    pub update_every: u32,
}

/// Checked graph: operands come before users and have suitable shapes, constants are finite, and the output is `[B]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LossGraph {
    nodes: Vec<FormulaNode>,
    shapes: Vec<ValueShape>,
    parameters: Vec<LossParameter>,
    output: NodeId,
    update_every: Option<NonZeroU32>,
}

impl LossDefinition {
    /// Checks the definition.
    ///
    /// # Errors
    /// Returns the first error, in the order of nodes.
    pub fn check(self, max_nodes: usize) -> Result<LossGraph, FormulaError> {
        let found = self.nodes.len();
        let mut check = NodeCheck::new(&self.nodes, self.parameters.len(), max_nodes)?;
        check_parameters(&self.parameters)?;
        for (node, &what) in (0..).zip(&self.nodes) {
            if let FormulaNode::Component(_) | FormulaNode::Gradient(_) | FormulaNode::Sum(_) = what
            {
                let kind = "a loss";
                return Err(FormulaError::Foreign { node, what, kind });
            }
            check.next(what)?;
        }
        let shapes = check.shapes;
        let output = self.output;
        match shapes.get(output as usize) {
            Some(ValueShape::Row) => Ok(LossGraph {
                nodes: self.nodes,
                shapes,
                parameters: self.parameters,
                output,
                update_every: NonZeroU32::new(self.update_every),
            }),
            Some(&found) => Err(FormulaError::OutputShape { output, found }),
            None => Err(FormulaError::UnknownOutput {
                output,
                nodes: found,
            }),
        }
    }
}

fn check_parameters(parameters: &[LossParameter]) -> Result<(), FormulaError> {
    let names = parameters.iter().map(|parameter| parameter.name.as_str());
    parameter_names(names, MAX_PARAMETERS)?;
    match parameters.iter().position(|p| !p.value.is_finite()) {
        None => Ok(()),
        Some(index) => {
            let LossParameter { name, value } = &parameters[index];
            let reason = format!("{name} is {value}, which is not finite");
            Err(FormulaError::Parameter { index, reason })
        }
    }
}

impl LossGraph {
    /// Returns the nodes, operands before users.
    #[must_use]
    pub fn nodes(&self) -> &[FormulaNode] {
        &self.nodes
    }

    /// Returns the shape of every node.
    #[must_use]
    pub fn shapes(&self) -> &[ValueShape] {
        &self.shapes
    }

    /// Returns the parameters, with their initial values.
    #[must_use]
    pub fn parameters(&self) -> &[LossParameter] {
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
        let stops = |node: &FormulaNode| matches!(node, FormulaNode::Unary(Unary::StopGradient, _));
        self.nodes.iter().any(stops)
    }

    /// Returns the number of batches between two updates of the parameters; `None` if they are not updated.
    #[must_use]
    pub fn update_every(&self) -> Option<NonZeroU32> {
        self.update_every
    }
}
