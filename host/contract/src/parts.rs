//! Search for parts of a formula that do nothing: what cannot be wrong for the host, and is seldom what the author meant.

use pbg_formula::node::{FormulaNode, NodeId};

/// Levels of operands that a description of a node shows.
const DEPTH: u32 = 3;

/// Nodes of a formula, with the names of its inputs.
pub(crate) struct FormulaParts<'a> {
    nodes: &'a [FormulaNode],
    outputs: &'a [NodeId],
    /// Name of a parameter or a component.
    name: &'a dyn Fn(FormulaNode) -> Option<String>,
}

impl<'a> FormulaParts<'a> {
    pub(crate) fn new(
        nodes: &'a [FormulaNode],
        outputs: &'a [NodeId],
        name: &'a dyn Fn(FormulaNode) -> Option<String>,
    ) -> Self {
        Self {
            nodes,
            outputs,
            name,
        }
    }

    /// Returns a sentence for every value that is computed and on which `result` does not depend, and for every branch
    /// that none of the `inputs` tried takes. `outcomes` tells whether a condition holds and fails for some of them.
    pub(crate) fn idle(
        &self,
        result: &str,
        inputs: &str,
        outcomes: impl Fn(NodeId) -> Option<[bool; 2]>,
    ) -> Vec<String> {
        let (nodes, used) = (self.nodes, used(self.nodes, self.outputs));
        let mut found = Vec::new();
        for (id, node) in (0..).zip(nodes) {
            let is_operand = nodes.iter().any(|other| other.operands().any(|x| x == id));
            // The SDKs list inputs in advance.
            let is_input = node.operands().next().is_none();
            if !used[id as usize] && !is_operand && !is_input {
                let shown = self.expression(id, DEPTH);
                found.push(format!(
                    "{shown} is computed, and {result} does not depend on it"
                ));
            }
            let (true, FormulaNode::Select(condition, ..)) = (used[id as usize], *node) else {
                continue;
            };
            let outcome = match outcomes(condition) {
                Some([true, false]) => "holds, so the branch for the opposite is never taken",
                Some([false, true]) => "does not hold, so its branch is never taken",
                _ => continue,
            };
            let shown = self.expression(condition, DEPTH);
            found.push(format!("for all {inputs} tried, {shown} {outcome}"));
        }
        found
    }

    /// Writes a node with its operands, down to `depth` levels.
    fn expression(&self, id: NodeId, depth: u32) -> String {
        let node = self.nodes[id as usize];
        let name = match node {
            FormulaNode::Positive => "positive".to_owned(),
            FormulaNode::Negative => "negative".to_owned(),
            FormulaNode::Constant(value) => value.to_string(),
            FormulaNode::Parameter(_) | FormulaNode::Component(_) => {
                (self.name)(node).unwrap_or_else(|| node.to_string())
            }
            _ => node
                .to_string()
                .split('(')
                .next()
                .unwrap_or_default()
                .to_owned(),
        };
        let operands: Vec<String> = node
            .operands()
            .map(|operand| match depth {
                0 => "...".to_owned(),
                _ => self.expression(operand, depth - 1),
            })
            .collect();
        match operands[..] {
            [] => name,
            _ => format!("{name}({})", operands.join(", ")),
        }
    }
}

/// Returns for each node whether one of the nodes `outputs` depends on it.
pub(crate) fn used(nodes: &[FormulaNode], outputs: &[NodeId]) -> Vec<bool> {
    let mut used = vec![false; nodes.len()];
    outputs.iter().for_each(|&id| used[id as usize] = true);
    for id in (0..used.len()).rev() {
        if used[id] {
            let operands = nodes[id].operands();
            operands.for_each(|operand| used[operand as usize] = true);
        }
    }
    used
}
