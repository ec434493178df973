//! An expression as a list of steps over rows of one component's length.

use pbg_core::loss::node::{Binary, Unary};

/// Where a step reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A component of the embeddings.
    Component(usize),
    /// A component of the gradients.
    Gradient(usize),
    /// A vector of the relation.
    Parameter(usize),
    /// A number, by its place among the constants.
    Constant(usize),
    /// What a step of the prologue wrote: as many rows as parameters have.
    Shared(usize),
    /// What a step wrote: a row per embedding.
    Place(usize),
}

/// Where a step writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Shared(usize),
    Place(usize),
    /// A component of what the program makes, which no step reads.
    Output(usize),
}

/// What becomes of a product and something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    /// `x + a b`
    Plus,
    /// `x - a b`
    Minus,
    /// `a b - x`
    Reversed,
}

/// What one loop computes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Work {
    Unary(Unary, Operand),
    Binary(Binary, [Operand; 2]),
    /// The second where the first is not 0, the third elsewhere.
    Select([Operand; 3]),
    /// A product, and a third value.
    MultiplyAdd(Sign, [Operand; 2], Operand),
    /// `a b + c d`, or `a b - c d`.
    Products {
        subtract: bool,
        first: [Operand; 2],
        second: [Operand; 2],
    },
}

/// One loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) out: Target,
    pub(super) work: Work,
}

/// What a program is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// It is 0 always.
    Zero,
    /// A step has written it in its place.
    Written,
    /// It is to be copied, or added up.
    Value(Operand),
    /// A product that nobody has multiplied yet; only of what is to be added up.
    Product([Operand; 2]),
}

/// Steps with all they need.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    pub(super) constants: Vec<f32>,
    /// Once per row of parameters.
    pub(super) prologue: Vec<Step>,
    /// Once per block of rows.
    pub(super) steps: Vec<Step>,
    /// Of components, in their order.
    pub(super) components: Vec<Output>,
    /// Of parameters, in their order, to be added up over rows; none of a program that goes forward.
    pub(super) parameters: Vec<Output>,
    pub(super) shared: usize,
    pub(super) places: usize,
}

impl Work {
    pub(super) fn operands(&self) -> impl Iterator<Item = Operand> {
        let operands = match *self {
            Self::Unary(_, x) => [Some(x), None, None, None],
            Self::Binary(_, [a, b]) => [Some(a), Some(b), None, None],
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

    pub(super) fn map_operands(self, f: impl Fn(Operand) -> Operand) -> Self {
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
        }
    }
}

impl Output {
    pub(super) fn operands(&self) -> impl Iterator<Item = Operand> {
        let operands = match *self {
            Self::Zero | Self::Written => [None, None],
            Self::Value(x) => [Some(x), None],
            Self::Product([a, b]) => [Some(a), Some(b)],
        };
        operands.into_iter().flatten()
    }

    pub(super) fn map_operands(self, f: impl Fn(Operand) -> Operand) -> Self {
        match self {
            Self::Zero | Self::Written => self,
            Self::Value(x) => Self::Value(f(x)),
            Self::Product(operands) => Self::Product(operands.map(f)),
        }
    }
}
