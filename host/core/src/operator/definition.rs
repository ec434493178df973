//! What a plugin hands over, and the checked formula that it becomes.

use serde::{Deserialize, Serialize};

use super::derive::Expression;
use crate::formula::check::{NodeCheck, parameter_names};
use crate::formula::error::GraphError;
use crate::formula::node::{Node, NodeId, Shape};

/// Nodes that a formula may have, unless its host grants other numbers.
pub const MAX_NODES: usize = 1024;
/// Parameters that a formula may have.
pub const MAX_PARAMETERS: usize = 16;
/// Into how many components an embedding may be cut.
pub const COMPONENTS: [u32; 3] = [1, 2, 4];

/// What the elements of a parameter are before any training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Initial {
    /// 0.
    Zero,
    /// 1.
    One,
    /// Normally distributed around 0, with this standard deviation.
    Normal(f32),
    /// An angle in radians, uniformly distributed from -pi to pi. It has no size, so N3 leaves it alone.
    Angle,
}

/// A vector of the relation's own, as long as a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterVector {
    /// Lower-case letters, digits and underscores: what checkpoints call it.
    pub name: String,
    /// Its elements at the beginning of a run.
    pub initial: Initial,
}

/// A formula as a plugin hands it over, or as a configuration has it; nothing of it is to be believed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// Name of the plugin that it is of.
    pub name: String,
    /// Into how many components an embedding is cut.
    pub components: u32,
    /// What [`Node::Parameter`] refers to.
    pub parameters: Vec<ParameterVector>,
    /// Operands before users.
    pub nodes: Vec<Node>,
    /// What each component becomes.
    pub outputs: Vec<NodeId>,
}

/// A checked formula with its derivatives: operands come before users, constants are finite, every output depends on
/// the embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    definition: Definition,
    forward: Expression,
    backward: Expression,
}

impl Definition {
    /// Checks all of it, and differentiates it.
    ///
    /// # Errors
    /// The first thing that is wrong, in the order of nodes.
    pub fn check(self, max_nodes: usize) -> Result<Formula, GraphError> {
        let components = self.components;
        if !COMPONENTS.contains(&components) {
            let found = components;
            return Err(GraphError::Components { found });
        }
        if self.parameters.is_empty() {
            return Err(GraphError::Parameterless);
        }
        let mut check = NodeCheck::new(&self.nodes, self.parameters.len(), max_nodes)?;
        self.check_parameters()?;
        for (node, &what) in (0..).zip(&self.nodes) {
            self.check_kind(node, what)?;
            check.next(what)?;
        }
        if self.outputs.len() != components as usize {
            let found = self.outputs.len();
            return Err(GraphError::Outputs { found, components });
        }
        for &output in &self.outputs {
            match check.shapes.get(output as usize) {
                Some(Shape::Row) => {}
                Some(_) => return Err(GraphError::Independent { output }),
                None => {
                    let nodes = self.nodes.len();
                    return Err(GraphError::UnknownOutput { output, nodes });
                }
            }
        }
        let shapes = check.shapes;
        Ok(Formula {
            forward: Expression::values(&self),
            backward: Expression::gradients(&self, &shapes),
            definition: self,
        })
    }

    fn check_kind(&self, node: NodeId, what: Node) -> Result<(), GraphError> {
        match what {
            Node::Component(component) if component >= self.components => {
                Err(GraphError::UnknownComponent {
                    node,
                    component,
                    components: self.components,
                })
            }
            Node::Component(_)
            | Node::Parameter(_)
            | Node::Constant(_)
            | Node::Unary(..)
            | Node::Binary(..)
            | Node::Select(..)
            | Node::Clamp(..) => Ok(()),
            Node::Positive
            | Node::Negative
            | Node::Columns
            | Node::Reduce(..)
            | Node::Softmax(_)
            | Node::Gradient(_) => {
                let kind = "an operator";
                Err(GraphError::Foreign { node, what, kind })
            }
        }
    }

    fn check_parameters(&self) -> Result<(), GraphError> {
        let names = self.parameters.iter().map(|p| p.name.as_str());
        parameter_names(names, MAX_PARAMETERS)?;
        for (index, ParameterVector { name, initial }) in self.parameters.iter().enumerate() {
            if let Initial::Normal(deviation) = *initial
                && !(deviation.is_finite() && deviation >= 0.0)
            {
                let reason = format!(
                    "{name} begins with a standard deviation of {deviation}, which must be finite and not negative"
                );
                return Err(GraphError::Parameter { index, reason });
            }
        }
        Ok(())
    }
}

impl Formula {
    /// What it was made of.
    #[must_use]
    pub fn definition(&self) -> &Definition {
        &self.definition
    }

    /// The name of its plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Into how many components an embedding is cut.
    #[must_use]
    pub fn components(&self) -> usize {
        self.definition.components as usize
    }

    /// The relation's vectors.
    #[must_use]
    pub fn parameters(&self) -> &[ParameterVector] {
        &self.definition.parameters
    }

    /// What each component becomes.
    #[must_use]
    pub fn forward(&self) -> &Expression {
        &self.forward
    }

    /// The gradients of components, then those of parameters; none for what plays no part.
    #[must_use]
    pub fn backward(&self) -> &Expression {
        &self.backward
    }

    /// Whether components pair up to complex numbers, whose modulus N3 penalises.
    #[must_use]
    pub fn is_complex(&self) -> bool {
        self.components() == 2
    }

    /// Whether N3 of the parameters means anything.
    #[must_use]
    pub fn has_sized_parameters(&self) -> bool {
        let angle = |p: &ParameterVector| p.initial == Initial::Angle;
        !self.parameters().iter().any(angle)
    }

    /// Whether its gradient is not that of its value on purpose.
    #[must_use]
    pub fn stops_gradient(&self) -> bool {
        use crate::formula::node::Unary;
        let stops = |node: &Node| matches!(node, Node::Unary(Unary::StopGradient, _));
        self.definition.nodes.iter().any(stops)
    }

    /// Floats of its packed parameters for embeddings of `dimension` floats.
    #[must_use]
    pub fn parameter_width(&self, dimension: usize) -> usize {
        self.parameters().len() * (dimension / self.components())
    }
}
