//! Checks that are common to all formulas.

use super::builder::fold;
use super::error::FormulaError;
use super::node::{FormulaNode, NodeId, ValueShape};

/// Most bytes of a parameter's name.
const NAME_BYTES: usize = 64;

/// Checker of a list of nodes, from the first to the last.
pub(crate) struct NodeCheck<'a> {
    nodes: &'a [FormulaNode],
    parameters: usize,
    /// Shapes of the nodes checked so far.
    pub(crate) shapes: Vec<ValueShape>,
    constants: Vec<Option<f32>>,
}

impl<'a> NodeCheck<'a> {
    /// Creates a checker of `nodes`, which may refer to `parameters` parameters.
    ///
    /// # Errors
    /// Fails if there are no nodes, or more than `max_nodes`.
    pub(crate) fn new(
        nodes: &'a [FormulaNode],
        parameters: usize,
        max_nodes: usize,
    ) -> Result<Self, FormulaError> {
        let found = nodes.len();
        if found == 0 {
            return Err(FormulaError::Empty);
        }
        if found > max_nodes {
            return Err(FormulaError::TooManyNodes {
                found,
                limit: max_nodes,
            });
        }
        Ok(Self {
            nodes,
            parameters,
            shapes: Vec::with_capacity(found),
            constants: Vec::with_capacity(found),
        })
    }

    /// Checks the next node: its operands must come before it and have a suitable shape, and a constant value must be
    /// finite.
    pub(crate) fn next(&mut self, what: FormulaNode) -> Result<(), FormulaError> {
        let node = self.shapes.len() as NodeId;
        self.operands(node, what)?;
        reduced(node, what, &self.shapes)?;
        let value = fold(what, |id| self.constants[id as usize]);
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(FormulaError::NotFinite { node, what, value });
        }
        self.constants.push(value);
        let shape = what.shape(|id| self.shapes[id as usize]);
        self.shapes.push(shape);
        Ok(())
    }

    fn operands(&self, node: NodeId, what: FormulaNode) -> Result<(), FormulaError> {
        let nodes = self.nodes.len();
        if let FormulaNode::Parameter(parameter) = what
            && parameter as usize >= self.parameters
        {
            return Err(FormulaError::UnknownParameter {
                node,
                parameter,
                parameters: self.parameters,
            });
        }
        match what.operands().find(|&operand| operand >= node) {
            None => Ok(()),
            Some(operand) if operand as usize >= nodes => Err(FormulaError::UnknownOperand {
                node,
                what,
                operand,
                nodes,
            }),
            Some(operand) => Err(FormulaError::ForwardReference {
                node,
                what,
                operand,
            }),
        }
    }
}

fn reduced(node: NodeId, what: FormulaNode, shapes: &[ValueShape]) -> Result<(), FormulaError> {
    let (FormulaNode::Reduce(_, operand) | FormulaNode::Softmax(operand)) = what else {
        return Ok(());
    };
    match shapes[operand as usize] {
        ValueShape::Matrix => Ok(()),
        found => Err(FormulaError::Shape {
            node,
            what,
            operand,
            found,
        }),
    }
}

/// Checks the names of a formula's parameters, of which there may be at most `limit`.
///
/// # Errors
/// Fails if there are too many, or if a name is invalid or used twice.
pub(crate) fn parameter_names<'a>(
    names: impl ExactSizeIterator<Item = &'a str> + Clone,
    limit: usize,
) -> Result<(), FormulaError> {
    if names.len() > limit {
        return Err(FormulaError::TooManyParameters {
            found: names.len(),
            limit,
        });
    }
    for (index, name) in names.clone().enumerate() {
        let fault = |reason: String| Err(FormulaError::Parameter { index, reason });
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || name.len() > NAME_BYTES || !name.chars().all(allowed) {
            return fault(format!(
                "its name must be 1 to {NAME_BYTES} lower-case letters, digits and underscores"
            ));
        }
        if names.clone().take(index).any(|other| other == name) {
            return fault(format!("the name {name} is used twice"));
        }
    }
    Ok(())
}
