//! Vocabulary of formulas: nodes, operations, shapes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Index of a node in its list.
pub type NodeId = u32;

/// Shape of a value. The shapes are ordered by size: an operation on values of different shapes has the largest of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueShape {
    /// One number for all rows; in an operator, one for all edges of a relation.
    Scalar,
    /// One number per positive: `[B]`; in an operator, one per edge.
    Row,
    /// One number per negative: `[B, N]`.
    Matrix,
}

impl fmt::Display for ValueShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scalar => "a scalar",
            Self::Row => "[B]",
            Self::Matrix => "[B, N]",
        })
    }
}

/// Element-wise function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unary {
    /// `-x`
    Neg,
    /// Absolute value.
    Abs,
    /// `e^x`
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// `ln(1 + e^x)`
    Softplus,
    /// `max(x, 0)`
    Relu,
    /// `x`, with a gradient of 0.
    StopGradient,
    /// Sine of an angle in radians.
    Sin,
    /// Cosine of an angle in radians.
    Cos,
}

/// Element-wise function of two values. Comparisons return 1 or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are sufficient")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    /// The left to the power of the right.
    Pow,
    Min,
    Max,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
}

/// Reduction over the negatives of each row, from `[B, N]` to `[B]`. Masked negatives are excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Sum.
    Sum,
    /// Sum divided by the number of columns, including masked ones; 0 if there are no columns.
    Mean,
    /// Maximum; negative infinity if there are no negatives.
    Max,
    /// `ln(sum(e^x))`; negative infinity if there are no negatives.
    #[serde(rename = "logsumexp")]
    LogSumExp,
}

/// Node of a formula, which computes one value. The kind of the formula decides which nodes it may have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FormulaNode {
    /// Scores of the positives, `[B]`.
    Positive,
    /// Scores of the negatives, `[B, N]`.
    Negative,
    /// N, the number of negatives, including masked ones; a scalar.
    Columns,
    /// A number.
    Constant(f32),
    /// A named parameter, by index; a scalar in a loss.
    Parameter(u32),
    /// A function of one value.
    Unary(Unary, NodeId),
    /// A function of two values.
    Binary(Binary, NodeId, NodeId),
    /// The second operand where the first is not 0, the third elsewhere.
    Select(NodeId, NodeId, NodeId),
    /// The first operand, raised to at least the second and then lowered to at most the third.
    Clamp(NodeId, NodeId, NodeId),
    /// A reduction over the negatives.
    Reduce(Reduction, NodeId),
    /// `e^x` divided by its sum over the row; `[B, N]`.
    Softmax(NodeId),
    /// The sum over all elements of a vector, the same number in every element; not in losses.
    Sum(NodeId),
    /// A component of the embedding that an operator transforms, or of the two that are compared, by index.
    Component(u32),
    /// The gradient of an output component of an operator, by index; in derivatives only.
    Gradient(u32),
}

impl FormulaNode {
    /// Returns the nodes that this one uses.
    pub fn operands(self) -> impl Iterator<Item = NodeId> {
        let (mut operands, mut count) = ([0; 3], 0);
        let _ = self.map_operands(|operand| {
            operands[count] = operand;
            count += 1;
            operand
        });
        operands.into_iter().take(count)
    }

    /// Returns the same node with other operands.
    #[must_use]
    pub fn map_operands(self, mut f: impl FnMut(NodeId) -> NodeId) -> Self {
        match self {
            Self::Positive
            | Self::Negative
            | Self::Columns
            | Self::Constant(_)
            | Self::Parameter(_)
            | Self::Component(_)
            | Self::Gradient(_) => self,
            Self::Unary(op, x) => Self::Unary(op, f(x)),
            Self::Binary(op, a, b) => Self::Binary(op, f(a), f(b)),
            Self::Select(a, b, c) => Self::Select(f(a), f(b), f(c)),
            Self::Clamp(a, b, c) => Self::Clamp(f(a), f(b), f(c)),
            Self::Reduce(op, x) => Self::Reduce(op, f(x)),
            Self::Softmax(x) => Self::Softmax(f(x)),
            Self::Sum(x) => Self::Sum(f(x)),
        }
    }

    /// Returns its shape, given the shapes of its operands.
    #[must_use]
    pub fn shape(self, of: impl Fn(NodeId) -> ValueShape) -> ValueShape {
        match self {
            Self::Positive | Self::Reduce(..) | Self::Component(_) | Self::Gradient(_) => {
                ValueShape::Row
            }
            Self::Negative | Self::Softmax(_) => ValueShape::Matrix,
            Self::Columns | Self::Constant(_) | Self::Parameter(_) => ValueShape::Scalar,
            _ => self.operands().map(of).max().unwrap_or(ValueShape::Scalar),
        }
    }
}

impl Unary {
    /// Applies the function.
    #[must_use]
    pub fn apply(self, x: f64) -> f64 {
        match self {
            Self::Neg => -x,
            Self::Abs => x.abs(),
            Self::Exp => x.exp(),
            Self::Log => x.ln(),
            Self::Sqrt => x.sqrt(),
            Self::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Self::Softplus => {
                let tail = (-x.abs()).exp().ln_1p();
                if x < 0.0 { tail } else { x + tail }
            }
            Self::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Self::StopGradient => x,
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
        }
    }
}

impl Binary {
    /// Applies the function. `Min` and `Max` propagate NaN.
    #[must_use]
    pub fn apply(self, a: f64, b: f64) -> f64 {
        let number = |holds: bool| f64::from(u8::from(holds));
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Pow => a.powf(b),
            Self::Min if a <= b || a.is_nan() => a,
            Self::Max if a >= b || a.is_nan() => a,
            Self::Min | Self::Max => b,
            Self::Less => number(a < b),
            Self::LessEqual => number(a <= b),
            Self::Greater => number(a > b),
            Self::GreaterEqual => number(a >= b),
            Self::Equal => number(a == b),
            Self::NotEqual => number(a != b),
        }
    }
}

impl fmt::Display for Unary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Neg => "neg",
            Self::Abs => "abs",
            Self::Exp => "exp",
            Self::Log => "log",
            Self::Sqrt => "sqrt",
            Self::Sigmoid => "sigmoid",
            Self::Softplus => "softplus",
            Self::Relu => "relu",
            Self::StopGradient => "stop-gradient",
            Self::Sin => "sin",
            Self::Cos => "cos",
        })
    }
}

impl fmt::Display for Binary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Pow => "pow",
            Self::Min => "min",
            Self::Max => "max",
            Self::Less => "less",
            Self::LessEqual => "less-equal",
            Self::Greater => "greater",
            Self::GreaterEqual => "greater-equal",
            Self::Equal => "equal",
            Self::NotEqual => "not-equal",
        })
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Max => "max",
            Self::LogSumExp => "logsumexp",
        })
    }
}

/// The operation and its operands, as in `sub(2, 0)`.
impl fmt::Display for FormulaNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Positive => f.write_str("positive"),
            Self::Negative => f.write_str("negative"),
            Self::Columns => f.write_str("columns"),
            Self::Constant(value) => write!(f, "constant {value}"),
            Self::Parameter(index) => write!(f, "parameter {index}"),
            Self::Component(index) => write!(f, "component {index}"),
            Self::Gradient(index) => write!(f, "gradient {index}"),
            Self::Unary(op, x) => write!(f, "{op}({x})"),
            Self::Binary(op, a, b) => write!(f, "{op}({a}, {b})"),
            Self::Select(a, b, c) => write!(f, "select({a}, {b}, {c})"),
            Self::Clamp(a, b, c) => write!(f, "clamp({a}, {b}, {c})"),
            Self::Reduce(op, x) => write!(f, "{op}({x})"),
            Self::Softmax(x) => write!(f, "softmax({x})"),
            Self::Sum(x) => write!(f, "sum({x})"),
        }
    }
}
