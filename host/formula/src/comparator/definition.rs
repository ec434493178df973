//! The definition of a comparator, and the checked formula made from it.

use serde::{Deserialize, Serialize};

use crate::check::NodeCheck;
use crate::error::FormulaError;
use crate::node::{FormulaNode, NodeId, Unary};
use crate::operator::Expression;
use crate::operator::definition::COMPONENTS;

/// Side of a pair of embeddings that many candidates replace; the other one is the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// Candidates are left embeddings.
    Left,
    /// Candidates are right embeddings.
    Right,
}

/// Formula as a plugin returns it or a configuration contains it, not checked yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComparatorDefinition {
    /// Name of the plugin that it comes from. A formula of a configuration has the name of its key.
    #[serde(default)]
    pub name: String,
    /// Number of components into which each of the two embeddings is cut. [`FormulaNode::Component`] counts those of the
    /// left embedding first, then those of the right one.
    pub components: u32,
    /// Nodes, operands before users.
    pub nodes: Vec<FormulaNode>,
    /// Node of the score, which is higher for embeddings that fit better.
    pub score: NodeId,
}

/// Checked formula with its derivatives: operands come before users, constants are finite, and the score is one number
/// that depends on both embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparatorFormula {
    definition: ComparatorDefinition,
    left: PairExpressions,
    right: PairExpressions,
}

/// The formula for one query and many candidates: components of the query are parameters, which all candidates share.
#[derive(Clone, Debug, PartialEq)]
pub struct PairExpressions {
    /// The score, as the only output.
    pub score: Expression,
    /// The derivatives of the score by the components of the candidate, followed by those of the query.
    pub slopes: Expression,
}

/// Properties of a node's value.
#[derive(Clone, Copy, Default)]
struct Dependence {
    left: bool,
    right: bool,
    /// Whether the value is one number per pair.
    number: bool,
}

impl ComparatorDefinition {
    /// Checks the definition, and differentiates it.
    ///
    /// # Errors
    /// Returns the first error, in the order of nodes.
    pub fn check(self, max_nodes: usize) -> Result<ComparatorFormula, FormulaError> {
        let found = self.components;
        if !COMPONENTS.contains(&found) {
            return Err(FormulaError::Components { found });
        }
        let mut check = NodeCheck::new(&self.nodes, 0, max_nodes)?;
        let mut known: Vec<Dependence> = Vec::with_capacity(self.nodes.len());
        for (node, &what) in (0..).zip(&self.nodes) {
            self.check_kind(node, what)?;
            check.next(what)?;
            known.push(self.dependence(what, &known));
        }
        let output = self.score;
        let Some(score) = known.get(output as usize) else {
            let nodes = self.nodes.len();
            return Err(FormulaError::UnknownOutput { output, nodes });
        };
        if !(score.left && score.right) {
            return Err(FormulaError::OneSided { output });
        }
        if !score.number {
            return Err(FormulaError::NotSummed { output });
        }
        let numbers: Vec<bool> = known.iter().map(|known| known.number).collect();
        let of = |candidates| PairExpressions::new(&self, candidates, &numbers);
        Ok(ComparatorFormula {
            left: of(Candidates::Left),
            right: of(Candidates::Right),
            definition: self,
        })
    }

    /// Returns the properties of a node whose operands are `known`.
    fn dependence(&self, node: FormulaNode, known: &[Dependence]) -> Dependence {
        if let FormulaNode::Component(index) = node {
            let left = index < self.components;
            return Dependence {
                left,
                right: !left,
                number: false,
            };
        }
        let operands = || node.operands().map(|id| known[id as usize]);
        Dependence {
            left: operands().any(|operand| operand.left),
            right: operands().any(|operand| operand.right),
            number: matches!(node, FormulaNode::Sum(_)) || operands().all(|operand| operand.number),
        }
    }

    fn check_kind(&self, node: NodeId, what: FormulaNode) -> Result<(), FormulaError> {
        match what {
            FormulaNode::Component(component) if component >= 2 * self.components => {
                Err(FormulaError::UnknownComponent {
                    node,
                    component,
                    of: "the left and the right embedding together have",
                    components: 2 * self.components,
                })
            }
            FormulaNode::Component(_)
            | FormulaNode::Constant(_)
            | FormulaNode::Unary(..)
            | FormulaNode::Binary(..)
            | FormulaNode::Select(..)
            | FormulaNode::Clamp(..)
            | FormulaNode::Sum(_) => Ok(()),
            FormulaNode::Positive
            | FormulaNode::Negative
            | FormulaNode::Columns
            | FormulaNode::Parameter(_)
            | FormulaNode::Reduce(..)
            | FormulaNode::Softmax(_)
            | FormulaNode::Gradient(_) => {
                let kind = "a comparator";
                Err(FormulaError::Foreign { node, what, kind })
            }
        }
    }
}

impl ComparatorFormula {
    /// Returns the definition that it was made from.
    #[must_use]
    pub fn definition(&self) -> &ComparatorDefinition {
        &self.definition
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Returns the number of components into which an embedding is cut.
    #[must_use]
    pub fn components(&self) -> usize {
        self.definition.components as usize
    }

    /// Returns the expressions for a query that is compared with many candidates.
    #[must_use]
    pub fn pairs(&self, candidates: Candidates) -> &PairExpressions {
        match candidates {
            Candidates::Left => &self.left,
            Candidates::Right => &self.right,
        }
    }

    /// Whether it contains a stopped gradient, so that its gradient intentionally differs from the derivative of its
    /// value.
    #[must_use]
    pub fn stops_gradient(&self) -> bool {
        let stops = |node: &FormulaNode| matches!(node, FormulaNode::Unary(Unary::StopGradient, _));
        self.definition.nodes.iter().any(stops)
    }
}
