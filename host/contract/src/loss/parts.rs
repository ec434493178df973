//! Search for parts of a loss's formula that do nothing: what cannot be wrong for the host, and is seldom what the author
//! meant.

use pbg_formula::loss::{LossDefinition, LossGraph};
use pbg_formula::node::{Binary, FormulaNode, NodeId, Reduction, ValueShape};

use super::direction::scaled_scores;

/// Levels of operands that a description of a node shows.
const DEPTH: u32 = 3;

/// Checks that the loss depends on every parameter of the formula.
pub(super) fn parameters(graph: &LossGraph) -> Result<String, String> {
    let used = used(graph);
    let is_used = |index: usize| {
        let nodes = graph.nodes().iter().zip(&used);
        nodes.into_iter().any(|(node, used)| {
            *used && matches!(node, FormulaNode::Parameter(n) if *n as usize == index)
        })
    };
    let names: Vec<&str> = graph.parameters().iter().map(|p| p.name.as_str()).collect();
    match (0..names.len()).find(|&index| !is_used(index)) {
        Some(index) => Err(format!(
            "the loss does not depend on {}; use it, or remove it",
            names[index]
        )),
        None => Ok(format!("{}: the loss depends on each", names.join(", "))),
    }
}

/// Returns a sentence for every value that is computed and not used, and for every branch that no score tried takes.
pub(super) fn idle(graph: &LossGraph) -> Vec<String> {
    let used = used(graph);
    let nodes = graph.nodes();
    let mut found = Vec::new();
    for (id, node) in (0..).zip(nodes) {
        let is_operand = nodes.iter().any(|other| other.operands().any(|x| x == id));
        // The SDKs list scores and parameters in advance.
        let is_input = node.operands().next().is_none();
        if !used[id as usize] && !is_operand && !is_input {
            let shown = expression(graph, id, DEPTH);
            found.push(format!(
                "{shown} is computed, and the loss does not depend on it"
            ));
        }
        if let (true, FormulaNode::Select(condition, ..)) = (used[id as usize], *node) {
            found.extend(untaken(graph, condition));
        }
    }
    found
}

/// Returns for each node whether the loss depends on it.
fn used(graph: &LossGraph) -> Vec<bool> {
    let mut used = vec![false; graph.nodes().len()];
    used[graph.output() as usize] = true;
    for id in (0..used.len()).rev() {
        if used[id] {
            let operands = graph.nodes()[id].operands();
            operands.for_each(|operand| used[operand as usize] = true);
        }
    }
    used
}

/// Returns a sentence if a condition has the same outcome for all scores tried.
fn untaken(graph: &LossGraph, condition: NodeId) -> Option<String> {
    let fraction = holding(graph, condition)?;
    let values: Vec<f32> = graph.parameters().iter().map(|p| p.value).collect();
    let (mut holds, mut fails) = (false, false);
    for rows in scaled_scores() {
        for (row, &positive) in rows.positive.iter().enumerate() {
            let negatives = &rows.negative[row * rows.columns..(row + 1) * rows.columns];
            let negatives: Vec<f64> = negatives.iter().map(|&score| score.into()).collect();
            let share = fraction.loss_of(&values, positive.into(), &negatives);
            holds |= share > 0.0;
            fails |= share < 1.0;
        }
    }
    let outcome = match (holds, fails) {
        (true, false) => "holds, so the branch for the opposite is never taken",
        (false, true) => "does not hold, so its branch is never taken",
        _ => return None,
    };
    let shown = expression(graph, condition, DEPTH);
    Some(format!("for all scores tried, {shown} {outcome}"))
}

/// Returns a graph with the fraction of a row's negatives for which a condition holds; for a condition on the whole row,
/// 0 or 1.
fn holding(graph: &LossGraph, condition: NodeId) -> Option<LossGraph> {
    let mut nodes = graph.nodes().to_vec();
    let mut add = |node| {
        nodes.push(node);
        nodes.len() as NodeId - 1
    };
    let zero = add(FormulaNode::Constant(0.0));
    let holds = add(FormulaNode::Binary(Binary::NotEqual, condition, zero));
    let output = match graph.shapes()[condition as usize] {
        ValueShape::Matrix => add(FormulaNode::Reduce(Reduction::Mean, holds)),
        _ => {
            let positive = add(FormulaNode::Positive);
            let nothing = add(FormulaNode::Binary(Binary::Mul, positive, zero));
            add(FormulaNode::Binary(Binary::Add, holds, nothing))
        }
    };
    let definition = LossDefinition {
        nodes,
        output,
        parameters: graph.parameters().to_vec(),
        update_every: 0,
    };
    definition.check(usize::MAX).ok()
}

/// Writes a node with its operands, down to `depth` levels.
fn expression(graph: &LossGraph, id: NodeId, depth: u32) -> String {
    let node = graph.nodes()[id as usize];
    let name = match node {
        FormulaNode::Positive => "positive".to_owned(),
        FormulaNode::Negative => "negative".to_owned(),
        FormulaNode::Constant(value) => value.to_string(),
        FormulaNode::Parameter(index) => {
            let parameter = graph.parameters().get(index as usize);
            parameter.map_or_else(|| node.to_string(), |parameter| parameter.name.clone())
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
            _ => expression(graph, operand, depth - 1),
        })
        .collect();
    match operands[..] {
        [] => name,
        _ => format!("{name}({})", operands.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use pbg_formula::loss::LossParameter;

    use super::*;

    /// A hinge with a margin, whose condition for taking it is `condition`; node 3 is the margin.
    fn graph(condition: FormulaNode, last: Option<FormulaNode>) -> LossGraph {
        let mut nodes = vec![
            FormulaNode::Positive,
            FormulaNode::Negative,
            FormulaNode::Constant(0.0),
            FormulaNode::Parameter(0),
            FormulaNode::Binary(Binary::Sub, 1, 0),
            FormulaNode::Binary(Binary::Add, 4, 3),
            condition,
            FormulaNode::Select(6, 5, 2),
            FormulaNode::Reduce(Reduction::Sum, 7),
        ];
        nodes.extend(last);
        let definition = LossDefinition {
            nodes,
            output: 8,
            parameters: vec![LossParameter {
                name: "margin".to_owned(),
                value: 0.1,
            }],
            update_every: 0,
        };
        definition.check(100).unwrap()
    }

    #[test]
    fn what_does_nothing_is_named() {
        let hinge = FormulaNode::Binary(Binary::Greater, 5, 2);
        assert!(idle(&graph(hinge, None)).is_empty());
        let found = idle(&graph(hinge, Some(FormulaNode::Binary(Binary::Mul, 4, 3))));
        assert_eq!(
            found,
            [
                "mul(sub(negative, positive), margin) is computed, and the loss does not depend on it"
            ]
        );
        let never = idle(&graph(FormulaNode::Binary(Binary::Less, 0, 0), None));
        assert_eq!(
            never,
            [
                "for all scores tried, less(positive, positive) does not hold, so its branch is never taken"
            ]
        );
        let always = idle(&graph(FormulaNode::Binary(Binary::Equal, 2, 2), None));
        assert_eq!(always.len(), 1);
        assert!(
            always[0].ends_with("the branch for the opposite is never taken"),
            "{always:?}"
        );
    }

    #[test]
    fn a_parameter_that_the_loss_does_not_depend_on_is_named() {
        let hinge = FormulaNode::Binary(Binary::Greater, 5, 2);
        parameters(&graph(hinge, None)).unwrap();
        let mut definition = LossDefinition {
            nodes: graph(hinge, None).nodes().to_vec(),
            output: 8,
            parameters: graph(hinge, None).parameters().to_vec(),
            update_every: 0,
        };
        // The difference instead of the difference with the margin.
        definition.nodes[5] = FormulaNode::Binary(Binary::Add, 4, 2);
        let broken = parameters(&definition.check(100).unwrap()).unwrap_err();
        assert!(broken.contains("does not depend on margin"), "{broken}");
    }
}
