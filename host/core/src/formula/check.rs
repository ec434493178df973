//! Checks that are common to all formulas.

use super::builder::fold;
use super::error::GraphError;
use super::node::{Node, NodeId, Shape};

/// Most bytes of a parameter's name.
const NAME_BYTES: usize = 64;

/// Checker of a list of nodes, from the first to the last.
pub(crate) struct NodeCheck<'a> {
    nodes: &'a [Node],
    parameters: usize,
    /// Shapes of the nodes checked so far.
    pub(crate) shapes: Vec<Shape>,
    constants: Vec<Option<f32>>,
}

impl<'a> NodeCheck<'a> {
    /// Creates a checker of `nodes`, which may refer to `parameters` parameters.
    ///
    /// # Errors
    /// Fails if there are no nodes, or more than `max_nodes`.
    pub(crate) fn new(
        nodes: &'a [Node],
        parameters: usize,
        max_nodes: usize,
    ) -> Result<Self, GraphError> {
        let found = nodes.len();
        if found == 0 {
            return Err(GraphError::Empty);
        }
        if found > max_nodes {
            return Err(GraphError::TooManyNodes {
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
    pub(crate) fn next(&mut self, what: Node) -> Result<(), GraphError> {
        let node = self.shapes.len() as NodeId;
        self.operands(node, what)?;
        reduced(node, what, &self.shapes)?;
        let value = fold(what, |id| self.constants[id as usize]);
        if let Some(value) = value.filter(|value| !value.is_finite()) {
            return Err(GraphError::NotFinite { node, what, value });
        }
        self.constants.push(value);
        let shape = what.shape(|id| self.shapes[id as usize]);
        self.shapes.push(shape);
        Ok(())
    }

    fn operands(&self, node: NodeId, what: Node) -> Result<(), GraphError> {
        let nodes = self.nodes.len();
        if let Node::Parameter(parameter) = what
            && parameter as usize >= self.parameters
        {
            return Err(GraphError::UnknownParameter {
                node,
                parameter,
                parameters: self.parameters,
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

fn reduced(node: NodeId, what: Node, shapes: &[Shape]) -> Result<(), GraphError> {
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

/// Checks the names of a formula's parameters, of which there may be at most `limit`.
///
/// # Errors
/// Fails if there are too many, or if a name is invalid or used twice.
pub(crate) fn parameter_names<'a>(
    names: impl ExactSizeIterator<Item = &'a str> + Clone,
    limit: usize,
) -> Result<(), GraphError> {
    if names.len() > limit {
        return Err(GraphError::TooManyParameters {
            found: names.len(),
            limit,
        });
    }
    for (index, name) in names.clone().enumerate() {
        let fault = |reason: String| Err(GraphError::Parameter { index, reason });
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
