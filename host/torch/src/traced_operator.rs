//! Traced operators on a device: every node becomes a tensor.

use pbg_formula::node::{Binary, FormulaNode, NodeId};
use pbg_formula::operator::{Expression, OperatorFormula};
use tch::{Kind, TchError, Tensor};

use super::formula::{binary, unary};

/// Inputs of an expression.
pub(super) struct OperatorInputs<'a> {
    components: Vec<Tensor>,
    gradients: Vec<Tensor>,
    parameters: &'a [Tensor],
}

/// Splits rows into components.
fn cut(rows: &Tensor, components: usize) -> Result<Vec<Tensor>, TchError> {
    let width = rows.size()[1] / components as i64;
    let component = |index| rows.f_narrow(1, index * width, width);
    (0..components as i64).map(component).collect()
}

impl<'a> OperatorInputs<'a> {
    pub(super) fn new(
        formula: &OperatorFormula,
        rows: &Tensor,
        gradients: Option<&Tensor>,
        parameters: &'a [Tensor],
    ) -> Result<Self, TchError> {
        let gradients = gradients.map(|gradients| cut(gradients, formula.components()));
        Ok(Self {
            components: cut(rows, formula.components())?,
            gradients: gradients.transpose()?.unwrap_or_default(),
            parameters,
        })
    }

    /// Evaluates the outputs of an expression; `None` for an output that is always 0.
    pub(super) fn evaluate(
        &self,
        expression: &Expression,
    ) -> Result<Vec<Option<Tensor>>, TchError> {
        let mut values: Vec<Tensor> = Vec::with_capacity(expression.nodes.len());
        for &node in &expression.nodes {
            values.push(self.value(node, &values)?);
        }
        let of = |id: NodeId| values[id as usize].shallow_clone();
        Ok(expression.outputs.iter().map(|id| id.map(of)).collect())
    }

    /// Evaluates the first `components` outputs of an expression and concatenates them.
    pub(super) fn outputs(
        &self,
        expression: &Expression,
        components: usize,
    ) -> Result<Tensor, TchError> {
        self.joined(&self.evaluate(expression)?[..components])
    }

    /// Concatenates components along a row; `None` counts as zeros.
    pub(super) fn joined(&self, components: &[Option<Tensor>]) -> Result<Tensor, TchError> {
        let whole = |component: &Option<Tensor>| match component {
            Some(tensor) => self.spread(tensor),
            None => self.components[0].f_zeros_like(),
        };
        let components = components
            .iter()
            .map(whole)
            .collect::<Result<Vec<_>, _>>()?;
        Tensor::f_cat(&components, 1)
    }

    /// Expands a value that is the same for all rows.
    pub(super) fn spread(&self, tensor: &Tensor) -> Result<Tensor, TchError> {
        tensor.f_expand(self.components[0].size(), false)
    }

    fn value(&self, node: FormulaNode, values: &[Tensor]) -> Result<Tensor, TchError> {
        let of = |id: NodeId| &values[id as usize];
        let place = (Kind::Float, self.components[0].device());
        let number = |value: f64| Tensor::f_full([1, 1], value, place);
        match node {
            FormulaNode::Component(index) => Ok(self.components[index as usize].shallow_clone()),
            FormulaNode::Gradient(index) => Ok(self.gradients[index as usize].shallow_clone()),
            FormulaNode::Parameter(index) => Ok(self.parameters[index as usize].shallow_clone()),
            FormulaNode::Constant(value) => number(value.into()),
            FormulaNode::Unary(op, x) => unary(op, of(x)),
            FormulaNode::Binary(op, a, b) => binary(op, of(a), of(b)),
            FormulaNode::Select(condition, then, otherwise) => {
                let chosen = of(condition).f_ne(0.0)?;
                of(then).f_where_self(&chosen, of(otherwise))
            }
            FormulaNode::Sum(x) => {
                // A value that is the same for all elements counts as often as there are elements.
                let (rows, width) = (of(x).size()[0], self.components[0].size()[1]);
                let whole = of(x).f_expand([rows, width], false)?;
                whole.f_sum_dim_intlist(1_i64, true, None)
            }
            FormulaNode::Clamp(x, low, high) => {
                let above = binary(Binary::Max, of(x), of(low))?;
                binary(Binary::Min, &above, of(high))
            }
            // A checked operator has no such node.
            FormulaNode::Positive
            | FormulaNode::Negative
            | FormulaNode::Columns
            | FormulaNode::Reduce(..)
            | FormulaNode::Softmax(_) => number(f64::NAN),
        }
    }
}
