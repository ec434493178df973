//! Loops that a comparator's program saves: those of signs, of functions that are summed, of negated outputs, and of
//! numbers that no element needs.

use pbg_formula::node::{Binary, FormulaNode, NodeId, Unary, ValueShape};
use pbg_formula::operator::Expression;

/// How a node is computed with fewer loops.
#[derive(Clone, Copy)]
pub(super) enum Shortcut {
    /// Its only user computes it.
    Absorbed,
    /// The sign of a node.
    Sign(NodeId),
    /// The sum of a function of a node.
    SumOf(Unary, NodeId),
    /// The negation of a node, as an output.
    Negated(NodeId),
}

/// Shortcuts of an expression's nodes; none of operators.
#[derive(Default)]
pub(super) struct Shortcuts {
    nodes: Vec<Option<Shortcut>>,
    /// Whether only the first element of a node's rows is read.
    narrow: Vec<bool>,
}

impl Shortcuts {
    /// Finds the shortcuts of an expression, given the number of uses of each node, and whether it has the same number in
    /// all elements.
    pub(super) fn of(expression: &Expression, uses: &[u32], uniform: &[bool]) -> Self {
        let nodes = &expression.nodes;
        let mut found: Vec<Option<Shortcut>> = vec![None; nodes.len()];
        let own = |id: NodeId| {
            let varies = !uniform[id as usize];
            let row = expression.shapes[id as usize] == ValueShape::Row;
            uses[id as usize] == 1 && varies && row
        };
        let is_output = |id: usize| expression.outputs.contains(&Some(id as NodeId));
        for (id, &node) in nodes.iter().enumerate() {
            match node {
                FormulaNode::Binary(Binary::Sub, a, b) if own(a) && own(b) => {
                    if let Some(x) = sign(nodes, [a, b]) {
                        found[id] = Some(Shortcut::Sign(x));
                        found[a as usize] = Some(Shortcut::Absorbed);
                        found[b as usize] = Some(Shortcut::Absorbed);
                    }
                }
                FormulaNode::Sum(x) if own(x) => match nodes[x as usize] {
                    // Large angles take another path, row by row.
                    FormulaNode::Unary(Unary::Sin | Unary::Cos, _) => {}
                    FormulaNode::Unary(op, x_of) => {
                        found[id] = Some(Shortcut::SumOf(op, x_of));
                        found[x as usize] = Some(Shortcut::Absorbed);
                    }
                    _ => {}
                },
                FormulaNode::Unary(Unary::Neg, x) if is_output(id) && own(id as NodeId) => {
                    found[id] = Some(Shortcut::Negated(x));
                }
                _ => {}
            }
        }
        Self {
            narrow: narrow(expression, uniform),
            nodes: found,
        }
    }

    pub(super) fn of_node(&self, id: NodeId) -> Option<Shortcut> {
        self.nodes.get(id as usize).copied().flatten()
    }

    pub(super) fn is_narrow(&self, id: NodeId) -> bool {
        self.narrow.get(id as usize).copied().unwrap_or(false)
    }
}

/// Returns the node whose sign is the difference of two comparisons, `(x > 0) - (x < 0)`.
fn sign(nodes: &[FormulaNode], [a, b]: [NodeId; 2]) -> Option<NodeId> {
    let is_zero = |id: NodeId| nodes[id as usize] == FormulaNode::Constant(0.0);
    match (nodes[a as usize], nodes[b as usize]) {
        (
            FormulaNode::Binary(Binary::Greater, x, zero),
            FormulaNode::Binary(Binary::Less, y, other),
        ) if x == y && is_zero(zero) && is_zero(other) => Some(x),
        _ => None,
    }
}

/// Returns whether only the first element of each node is read: it is one number, and so are all that use it. Sums read
/// all elements of their operand, and so do outputs, unless the score is the only one. A product may be computed with
/// its user, so its operands are read as it is.
fn narrow(expression: &Expression, uniform: &[bool]) -> Vec<bool> {
    let mut narrow = uniform.to_vec();
    let score = matches!(expression.outputs[..], [Some(id)] if uniform[id as usize]);
    if !score {
        let outputs = expression.outputs.iter().flatten();
        outputs.for_each(|&id| narrow[id as usize] = false);
    }
    for (id, node) in expression.nodes.iter().enumerate().rev() {
        let reads_all = match node {
            FormulaNode::Sum(_) => true,
            FormulaNode::Binary(Binary::Mul, ..) => !narrow[id],
            _ => !uniform[id],
        };
        if reads_all {
            node.operands()
                .for_each(|operand| narrow[operand as usize] = false);
        }
    }
    narrow
}
