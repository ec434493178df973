//! Search for parts of a loss's formula that do nothing: what cannot be wrong for the host, and is seldom what the author
//! meant.

use pbg_formula::loss::{LossDefinition, LossGraph};
use pbg_formula::node::{Binary, FormulaNode, NodeId, Reduction, ValueShape};

use super::direction::scaled_scores;
use crate::parts::{FormulaParts, used};

/// Checks that the loss depends on every parameter of the formula.
pub(super) fn parameters(graph: &LossGraph) -> Result<String, String> {
    let used = used(graph.nodes(), &[graph.output()]);
    let is_used = |index: usize| {
        let nodes = graph.nodes().iter().zip(&used);
        nodes.into_iter().any(|(node, used)| {
            *used && matches!(node, FormulaNode::Parameter(n) if *n as usize == index)
        })
    };
    let names = names(graph);
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
    let names = names(graph);
    let name = |node| match node {
        FormulaNode::Parameter(index) => names.get(index as usize).map(|&name| name.to_owned()),
        _ => None,
    };
    let outputs = [graph.output()];
    let parts = FormulaParts::new(graph.nodes(), &outputs, &name);
    parts.idle("the loss", "scores", |condition| outcomes(graph, condition))
}

fn names(graph: &LossGraph) -> Vec<&str> {
    graph.parameters().iter().map(|p| p.name.as_str()).collect()
}

/// Returns whether a condition holds for some scores tried, and whether it fails for some.
fn outcomes(graph: &LossGraph, condition: NodeId) -> Option<[bool; 2]> {
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
    Some([holds, fails])
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
