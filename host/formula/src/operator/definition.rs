//! The definition of an operator that a plugin returns, and the checked formula made from it.

use serde::{Deserialize, Serialize};

use super::derive::Expression;
use crate::check::{NodeCheck, parameter_names};
use crate::error::FormulaError;
use crate::node::{FormulaNode, NodeId, ValueShape};

/// Default limit of the number of nodes of a formula.
pub const MAX_NODES: usize = 1024;
/// Most parameters of a formula.
pub const MAX_PARAMETERS: usize = 128;
/// Numbers of components into which an embedding may be cut.
pub const COMPONENTS: [u32; 4] = [1, 2, 4, 8];

/// Initial values of a parameter's elements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InitialValue {
    /// 0.
    Zero,
    /// 1.
    One,
    /// Normally distributed around 0, with this standard deviation.
    Normal(f32),
    /// An angle in radians, uniformly distributed from -pi to pi. Its size has no meaning, so N3 does not penalise it.
    Angle,
}

/// Parameter vector of a relation, as long as a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParameterVector {
    /// Name in checkpoints: lower-case letters, digits and underscores.
    pub name: String,
    /// Initial values of its elements.
    pub initial: InitialValue,
}

/// Formula as a plugin returns it or a configuration contains it, not checked yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperatorDefinition {
    /// Name of the plugin that it comes from.
    pub name: String,
    /// Number of components into which an embedding is cut.
    pub components: u32,
    /// Parameters, to which [`FormulaNode::Parameter`] refers.
    pub parameters: Vec<ParameterVector>,
    /// Nodes, operands before users.
    pub nodes: Vec<FormulaNode>,
    /// Output node of each component, where the embedding is that of an edge's right entity; with dynamic relations, of
    /// the entity that is not replaced.
    pub outputs: Vec<NodeId>,
    /// Output node of each component, where the embedding is that of an edge's left entity; empty if the operator
    /// leaves that as it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lhs_outputs: Vec<NodeId>,
}

/// Checked formula with its derivatives: operands come before users, constants are finite, and every output depends on
/// the embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatorFormula {
    definition: OperatorDefinition,
    forward: Expression,
    backward: Expression,
    /// The formula of the left side, which has the same parameters.
    lhs: Option<Box<Self>>,
}

impl OperatorDefinition {
    /// Checks the definition, and differentiates it.
    ///
    /// # Errors
    /// Returns the first error, in the order of nodes.
    pub fn check(self, max_nodes: usize) -> Result<OperatorFormula, FormulaError> {
        let components = self.components;
        if !COMPONENTS.contains(&components) {
            let found = components;
            return Err(FormulaError::Components { found });
        }
        if self.parameters.is_empty() {
            return Err(FormulaError::Parameterless);
        }
        let mut check = NodeCheck::new(&self.nodes, self.parameters.len(), max_nodes)?;
        self.check_parameters()?;
        for (node, &what) in (0..).zip(&self.nodes) {
            self.check_kind(node, what)?;
            check.next(what)?;
        }
        let shapes = check.shapes;
        self.check_outputs(&self.outputs, "", &shapes)?;
        let lhs = match self.lhs_outputs.is_empty() {
            true => None,
            false => {
                self.check_outputs(&self.lhs_outputs, " of the left side", &shapes)?;
                let lhs = Self {
                    outputs: self.lhs_outputs.clone(),
                    lhs_outputs: Vec::new(),
                    ..self.clone()
                };
                Some(Box::new(OperatorFormula::derived(lhs, &shapes, None)))
            }
        };
        Ok(OperatorFormula::derived(self, &shapes, lhs))
    }

    /// Checks that there is one output per component, and that each exists and depends on the embedding.
    fn check_outputs(
        &self,
        outputs: &[NodeId],
        side: &'static str,
        shapes: &[ValueShape],
    ) -> Result<(), FormulaError> {
        let components = self.components;
        if outputs.len() != components as usize {
            return Err(FormulaError::Outputs {
                found: outputs.len(),
                side,
                components,
            });
        }
        for &output in outputs {
            match shapes.get(output as usize) {
                Some(ValueShape::Row) => {}
                Some(_) => return Err(FormulaError::Independent { output }),
                None => {
                    let nodes = self.nodes.len();
                    return Err(FormulaError::UnknownOutput { output, nodes });
                }
            }
        }
        Ok(())
    }

    fn check_kind(&self, node: NodeId, what: FormulaNode) -> Result<(), FormulaError> {
        match what {
            FormulaNode::Component(component) if component >= self.components => {
                Err(FormulaError::UnknownComponent {
                    node,
                    component,
                    of: "an embedding has",
                    components: self.components,
                })
            }
            FormulaNode::Component(_)
            | FormulaNode::Parameter(_)
            | FormulaNode::Constant(_)
            | FormulaNode::Unary(..)
            | FormulaNode::Binary(..)
            | FormulaNode::Select(..)
            | FormulaNode::Clamp(..)
            | FormulaNode::Sum(_) => Ok(()),
            FormulaNode::Positive
            | FormulaNode::Negative
            | FormulaNode::Columns
            | FormulaNode::Reduce(..)
            | FormulaNode::Softmax(_)
            | FormulaNode::Gradient(_) => {
                let kind = "an operator";
                Err(FormulaError::Foreign { node, what, kind })
            }
        }
    }

    fn check_parameters(&self) -> Result<(), FormulaError> {
        let names = self.parameters.iter().map(|p| p.name.as_str());
        parameter_names(names, MAX_PARAMETERS)?;
        for (index, ParameterVector { name, initial }) in self.parameters.iter().enumerate() {
            if let InitialValue::Normal(deviation) = *initial
                && !(deviation.is_finite() && deviation >= 0.0)
            {
                let reason = format!(
                    "{name} has an initial standard deviation of {deviation}, which must be finite and not negative"
                );
                return Err(FormulaError::Parameter { index, reason });
            }
        }
        Ok(())
    }
}

impl OperatorFormula {
    /// Differentiates a checked definition.
    fn derived(
        definition: OperatorDefinition,
        shapes: &[ValueShape],
        lhs: Option<Box<Self>>,
    ) -> Self {
        Self {
            forward: Expression::values(&definition),
            backward: Expression::gradients(&definition, shapes),
            definition,
            lhs,
        }
    }

    /// Returns the formula with which the operator transforms an edge's left entity, if it does; it has the same
    /// parameters.
    #[must_use]
    pub fn lhs(&self) -> Option<&Self> {
        self.lhs.as_deref()
    }

    /// Whether a value depends on several elements of a vector.
    #[must_use]
    pub fn mixes_elements(&self) -> bool {
        let mixes = |node: &FormulaNode| matches!(node, FormulaNode::Sum(_));
        self.definition.nodes.iter().any(mixes)
    }

    /// Returns the definition that it was made from.
    #[must_use]
    pub fn definition(&self) -> &OperatorDefinition {
        &self.definition
    }

    /// Returns the name of its plugin.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the number of components into which an embedding is cut.
    #[must_use]
    pub fn components(&self) -> usize {
        self.definition.components as usize
    }

    /// Returns the relation's parameter vectors.
    #[must_use]
    pub fn parameters(&self) -> &[ParameterVector] {
        &self.definition.parameters
    }

    /// Returns the expression of the output components.
    #[must_use]
    pub fn forward(&self) -> &Expression {
        &self.forward
    }

    /// Returns the expression of the gradients of the components, followed by those of the parameters; those without
    /// influence have none.
    #[must_use]
    pub fn backward(&self) -> &Expression {
        &self.backward
    }

    /// Whether components are the real and imaginary parts of complex numbers, whose modulus N3 penalises.
    #[must_use]
    pub fn is_complex(&self) -> bool {
        self.components() == 2
    }

    /// Whether the N3 penalty applies to the parameters, which it does unless one of them is an angle.
    #[must_use]
    pub fn has_sized_parameters(&self) -> bool {
        let angle = |p: &ParameterVector| p.initial == InitialValue::Angle;
        !self.parameters().iter().any(angle)
    }

    /// Whether it contains a stopped gradient, so that its gradient intentionally differs from the derivative of its
    /// value.
    #[must_use]
    pub fn stops_gradient(&self) -> bool {
        use crate::node::Unary;
        let stops = |node: &FormulaNode| matches!(node, FormulaNode::Unary(Unary::StopGradient, _));
        self.definition.nodes.iter().any(stops)
    }

    /// Returns the number of floats of its packed parameters for embeddings of `dimension` floats.
    #[must_use]
    pub fn parameter_width(&self, dimension: usize) -> usize {
        self.parameters().len() * (dimension / self.components())
    }
}
