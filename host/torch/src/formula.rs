//! Evaluation of a traced loss on scores on a device.
//!
//! Every node is one operation of libtorch on `[rows, 1]` or `[rows, columns]`; scalars are computed on the host.
//! Masked negatives are excluded from reductions, and their gradient is 0.

use pbg_core::strategy::{LossFormula, MASKED};
use pbg_formula::node::{Binary, FormulaNode, NodeId, Reduction, Unary};
use tch::{Kind, TchError, Tensor};

/// Losses and their derivatives.
pub(super) struct LossTensors {
    /// Losses, `[rows]`.
    pub(super) loss: Tensor,
    /// Derivatives by the positives' scores, `[rows]`.
    pub(super) positive: Tensor,
    /// Derivatives by the negatives' scores, `[rows, columns]`.
    pub(super) negative: Tensor,
}

/// The value of a node.
enum Value {
    One(f64),
    Many(Tensor),
}

/// Evaluation of a formula.
struct LossEvaluation<'a> {
    parameters: &'a [f32],
    positive: Tensor,
    negative: &'a Tensor,
    masked: Tensor,
    values: Vec<Option<Value>>,
}

/// Evaluates `formula` and its derivatives on the scores of positives, `[rows]`, and of their negatives,
/// `[rows, columns]`.
pub(super) fn evaluate(
    formula: &LossFormula,
    positive: &Tensor,
    negative: &Tensor,
) -> Result<LossTensors, TchError> {
    let derived = &formula.derived;
    let mut evaluation = LossEvaluation {
        parameters: &formula.parameters,
        positive: positive.f_unsqueeze(1)?,
        negative,
        masked: negative.f_eq(f64::from(MASKED))?,
        values: Vec::with_capacity(derived.nodes.len()),
    };
    let outputs = [derived.loss, derived.positive, derived.negative];
    let last_uses = last_uses(&derived.nodes, outputs);
    for (index, &node) in derived.nodes.iter().enumerate() {
        let value = evaluation.node(node)?;
        evaluation.values.push(Some(value));
        // Scores are large, so values that no later node reads are freed.
        for operand in node.operands() {
            if last_uses[operand as usize] == index {
                evaluation.values[operand as usize] = None;
            }
        }
    }
    let [rows, columns]: [i64; 2] = [negative.size()[0], negative.size()[1]];
    let negative = evaluation.tensor(derived.negative)?;
    Ok(LossTensors {
        loss: evaluation
            .tensor(derived.loss)?
            .f_expand([rows, 1], false)?
            .f_reshape([rows])?,
        positive: evaluation
            .tensor(derived.positive)?
            .f_expand([rows, 1], false)?
            .f_reshape([rows])?,
        negative: negative
            .f_expand([rows, columns], false)?
            .f_masked_fill(&evaluation.masked, 0.0)?,
    })
}

/// Returns the last node that reads each node; for outputs, the number of nodes.
fn last_uses(nodes: &[FormulaNode], outputs: [NodeId; 3]) -> Vec<usize> {
    let mut last = vec![0; nodes.len()];
    for (index, node) in nodes.iter().enumerate() {
        for operand in node.operands() {
            last[operand as usize] = index;
        }
    }
    for output in outputs {
        last[output as usize] = nodes.len();
    }
    last
}

impl LossEvaluation<'_> {
    fn node(&self, node: FormulaNode) -> Result<Value, TchError> {
        Ok(match node {
            FormulaNode::Positive => Value::Many(self.positive.shallow_clone()),
            FormulaNode::Negative => Value::Many(self.negative.shallow_clone()),
            FormulaNode::Columns => Value::One(self.negative.size()[1] as f64),
            FormulaNode::Constant(value) => Value::One(value.into()),
            // A checked loss has no such node.
            FormulaNode::Component(_) | FormulaNode::Gradient(_) | FormulaNode::Sum(_) => {
                Value::One(f64::NAN)
            }
            FormulaNode::Parameter(index) => Value::One(self.parameters[index as usize].into()),
            FormulaNode::Unary(op, x) => match self.value(x)? {
                Value::One(x) => rounded(op.apply(*x)),
                Value::Many(x) => Value::Many(unary(op, x)?),
            },
            FormulaNode::Binary(op, a, b) => match (self.value(a)?, self.value(b)?) {
                (Value::One(a), Value::One(b)) => rounded(op.apply(*a, *b)),
                _ => Value::Many(binary(op, &self.tensor(a)?, &self.tensor(b)?)?),
            },
            FormulaNode::Select(condition, then, otherwise) => {
                let chosen = self.tensor(condition)?.f_ne(0.0)?;
                let otherwise = self.tensor(otherwise)?;
                Value::Many(self.tensor(then)?.f_where_self(&chosen, &otherwise)?)
            }
            FormulaNode::Clamp(x, low, high) => {
                let above = self.tensor(x)?.f_maximum(&self.tensor(low)?)?;
                Value::Many(above.f_minimum(&self.tensor(high)?)?)
            }
            FormulaNode::Reduce(op, x) => Value::Many(self.reduce(op, &self.matrix(x)?)?),
            FormulaNode::Softmax(x) => {
                let present = self.present(&self.matrix(x)?, f64::NEG_INFINITY)?;
                Value::Many(present.f_softmax(1, Kind::Float)?)
            }
        })
    }

    fn value(&self, id: NodeId) -> Result<&Value, TchError> {
        let value = self.values.get(id as usize).and_then(Option::as_ref);
        value.ok_or_else(|| TchError::Shape(format!("node {id} of the loss has no value")))
    }

    /// Returns a node's value as a tensor that can be combined with any other.
    fn tensor(&self, id: NodeId) -> Result<Tensor, TchError> {
        match self.value(id)? {
            Value::One(value) => {
                Tensor::f_full([1, 1], *value, (Kind::Float, self.negative.device()))
            }
            Value::Many(tensor) => Ok(tensor.shallow_clone()),
        }
    }

    /// Returns a node's value with one number per negative.
    fn matrix(&self, id: NodeId) -> Result<Tensor, TchError> {
        self.tensor(id)?.f_expand(self.negative.size(), false)
    }

    /// Returns `x` with the values of masked negatives replaced by `value`.
    fn present(&self, x: &Tensor, value: f64) -> Result<Tensor, TchError> {
        x.f_masked_fill(&self.masked, value)
    }

    fn reduce(&self, op: Reduction, x: &Tensor) -> Result<Tensor, TchError> {
        let (rows, columns) = (x.size()[0], x.size()[1]);
        let sum = || self.present(x, 0.0)?.f_sum_dim_intlist(1_i64, true, None);
        match op {
            Reduction::Sum => sum(),
            Reduction::Mean => sum()?.f_div_scalar(columns.max(1) as f64),
            // The maximum of no values is an error in libtorch.
            Reduction::Max | Reduction::LogSumExp if columns == 0 => {
                let place = (Kind::Float, x.device());
                Tensor::f_full([rows, 1], f64::NEG_INFINITY, place)
            }
            Reduction::Max => self.present(x, f64::NEG_INFINITY)?.f_amax(1_i64, true),
            Reduction::LogSumExp => self.present(x, f64::NEG_INFINITY)?.f_logsumexp(1_i64, true),
        }
    }
}

/// Rounds to a 32-bit float.
fn rounded(value: f64) -> Value {
    Value::One(f64::from(value as f32))
}

pub(super) fn unary(op: Unary, x: &Tensor) -> Result<Tensor, TchError> {
    match op {
        Unary::Neg => x.f_neg(),
        Unary::Abs => x.f_abs(),
        Unary::Exp => x.f_exp(),
        Unary::Log => x.f_log(),
        Unary::Sqrt => x.f_sqrt(),
        Unary::Sigmoid => x.f_sigmoid(),
        Unary::Softplus => x.f_softplus(),
        Unary::Relu => x.f_relu(),
        Unary::StopGradient => Ok(x.shallow_clone()),
        Unary::Sin => x.f_sin(),
        Unary::Cos => x.f_cos(),
    }
}

pub(super) fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor, TchError> {
    let holds = match op {
        Binary::Add => return a.f_add(b),
        Binary::Sub => return a.f_sub(b),
        Binary::Mul => return a.f_mul(b),
        Binary::Div => return a.f_div(b),
        Binary::Pow => return a.f_pow(b),
        Binary::Min => return a.f_minimum(b),
        Binary::Max => return a.f_maximum(b),
        Binary::Less => a.f_lt_tensor(b),
        Binary::LessEqual => a.f_le_tensor(b),
        Binary::Greater => a.f_gt_tensor(b),
        Binary::GreaterEqual => a.f_ge_tensor(b),
        Binary::Equal => a.f_eq_tensor(b),
        Binary::NotEqual => a.f_ne_tensor(b),
    };
    holds?.f_to_kind(Kind::Float)
}
