//! An expression as a list of steps over rows of one component's width.

use pbg_formula::node::{Binary, Unary};

/// Source of a step's operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOperand {
    /// A component of the embeddings.
    Component(usize),
    /// A component of the gradients.
    Gradient(usize),
    /// A parameter vector of the relation.
    Parameter(usize),
    /// A constant, by its index.
    Constant(usize),
    /// A value computed by the prologue, with one row per row of parameters.
    Shared(usize),
    /// A value computed by an earlier step, with one row per embedding.
    Buffer(usize),
}

/// Destination of a step's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepTarget {
    Shared(usize),
    Place(usize),
    /// A component of the program's output, which no step reads.
    Output(usize),
}

/// Signs with which a product and a third value are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// `x + a b`
    Plus,
    /// `x - a b`
    Minus,
    /// `a b - x`
    Reversed,
}

/// The computation of one loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RowOperation {
    Unary(Unary, RowOperand),
    Binary(Binary, [RowOperand; 2]),
    /// The second operand where the first is not 0, and the third elsewhere.
    Select([RowOperand; 3]),
    /// A product plus or minus a third value.
    MultiplyAdd(Sign, [RowOperand; 2], RowOperand),
    /// `a b + c d`, or `a b - c d`.
    Products {
        subtract: bool,
        first: [RowOperand; 2],
        second: [RowOperand; 2],
    },
    /// The sign of each element: -1, 0 or 1.
    Sign(RowOperand),
    /// The sum over a row, in every element of the result.
    Sum(RowOperand),
    /// The sum of a function of each element of a row, in every element of the result.
    SumOf(Unary, RowOperand),
    /// The inner product of two rows, in every element of the result.
    Dot([RowOperand; 2]),
}

/// One loop and the destination of its result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OperatorStep {
    pub(super) out: StepTarget,
    pub(super) work: RowOperation,
    /// Whether all elements of a row of the result are equal, since those of its operands are.
    pub(super) uniform: bool,
    /// Whether only the first element of a row of the result is read.
    pub(super) narrow: bool,
}

/// Source of one of a program's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// The output is always 0.
    Zero,
    /// A step has already written it to its destination.
    Written,
    /// A value that must be copied, or added to a sum.
    Value(RowOperand),
    /// A value that is subtracted from a sum.
    Negated(RowOperand),
    /// A product that no step has computed; it only occurs in outputs that are added to a sum.
    Product([RowOperand; 2]),
}

/// Steps with everything that they need.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct OperatorProgram {
    pub(super) constants: Vec<f32>,
    /// Steps that run once per row of parameters.
    pub(super) prologue: Vec<OperatorStep>,
    /// Steps that run once per block of rows.
    pub(super) steps: Vec<OperatorStep>,
    /// Outputs of the components, in their order.
    pub(super) components: Vec<Output>,
    /// Outputs of the parameters, in their order, to be summed over rows; empty in a forward program.
    pub(super) parameters: Vec<Output>,
    pub(super) shared: usize,
    pub(super) places: usize,
}

impl RowOperation {
    pub(super) fn operands(&self) -> impl Iterator<Item = RowOperand> {
        let operands = match *self {
            Self::Unary(_, x) | Self::Sign(x) | Self::Sum(x) | Self::SumOf(_, x) => {
                [Some(x), None, None, None]
            }
            Self::Binary(_, [a, b]) | Self::Dot([a, b]) => [Some(a), Some(b), None, None],
            Self::Select([c, a, b]) => [Some(c), Some(a), Some(b), None],
            Self::MultiplyAdd(_, [a, b], x) => [Some(a), Some(b), Some(x), None],
            Self::Products {
                first: [a, b],
                second: [c, d],
                ..
            } => [Some(a), Some(b), Some(c), Some(d)],
        };
        operands.into_iter().flatten()
    }

    pub(super) fn map_operands(self, f: impl Fn(RowOperand) -> RowOperand) -> Self {
        match self {
            Self::Unary(op, x) => Self::Unary(op, f(x)),
            Self::Binary(op, operands) => Self::Binary(op, operands.map(f)),
            Self::Select(operands) => Self::Select(operands.map(f)),
            Self::MultiplyAdd(sign, factors, x) => Self::MultiplyAdd(sign, factors.map(&f), f(x)),
            Self::Products {
                subtract,
                first,
                second,
            } => Self::Products {
                subtract,
                first: first.map(&f),
                second: second.map(&f),
            },
            Self::Sign(x) => Self::Sign(f(x)),
            Self::Sum(x) => Self::Sum(f(x)),
            Self::SumOf(op, x) => Self::SumOf(op, f(x)),
            Self::Dot(operands) => Self::Dot(operands.map(f)),
        }
    }
}

impl Output {
    pub(super) fn operands(&self) -> impl Iterator<Item = RowOperand> {
        let operands = match *self {
            Self::Zero | Self::Written => [None, None],
            Self::Value(x) | Self::Negated(x) => [Some(x), None],
            Self::Product([a, b]) => [Some(a), Some(b)],
        };
        operands.into_iter().flatten()
    }

    pub(super) fn map_operands(self, f: impl Fn(RowOperand) -> RowOperand) -> Self {
        match self {
            Self::Zero | Self::Written => self,
            Self::Value(x) => Self::Value(f(x)),
            Self::Negated(x) => Self::Negated(f(x)),
            Self::Product(operands) => Self::Product(operands.map(f)),
        }
    }
}
