//! A derived graph as a list of steps over tiles of rows.
//!
//! Values that are the same for all rows are computed once per call. Values per row are stored in vectors, values per
//! negative in tiles. Lowering (`lower`) fuses steps where that is always correct: a sum with the step that computes
//! its terms, the logarithm of a sum of exponentials with the softmax of the same values, softplus with sigmoid, and a
//! factor per row with the step that follows.

use pbg_core::loss::node::{Binary, Unary};

mod lower;
mod places;

/// Index of a tile, which holds one value per negative.
pub(super) type Tile = usize;
/// Index of a vector, which holds one value per row.
pub(super) type Vector = usize;

/// The tile of the scores, which also marks masked negatives.
pub(super) const SCORES: Tile = 0;
/// The vector of the positives' scores.
pub(super) const POSITIVE: Vector = 0;

/// One value per negative, or one per row that is repeated for all its negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operand {
    Tile(Tile),
    Vector(Vector),
}

/// One loop. Sums omit masked negatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step {
    VectorUnary {
        op: Unary,
        out: Vector,
        x: Vector,
    },
    VectorBinary {
        op: Binary,
        out: Vector,
        a: Vector,
        b: Vector,
    },
    VectorSelect {
        out: Vector,
        operands: [Vector; 3],
    },
    Unary {
        op: Unary,
        out: Tile,
        x: Tile,
        sum: Option<Vector>,
    },
    /// An operation of which at least one operand is a tile.
    Binary {
        op: Binary,
        out: Tile,
        a: Operand,
        b: Operand,
    },
    Product {
        out: Tile,
        a: Tile,
        b: Tile,
        sum: Option<Vector>,
    },
    Select {
        out: Tile,
        operands: [Tile; 3],
    },
    /// A tile in which each row repeats the number of a vector.
    Broadcast {
        out: Tile,
        x: Vector,
    },
    /// A function and its derivative.
    Pair {
        op: Pair,
        out: [Tile; 2],
        x: Tile,
        sums: [Option<Vector>; 2],
    },
    /// `e^(x - shift)` and its sum; the shift is the largest value of each row.
    ExpShift {
        out: Tile,
        x: Tile,
        shift: Vector,
        sum: Vector,
    },
    Sum {
        out: Vector,
        x: Tile,
    },
    Max {
        out: Vector,
        x: Tile,
    },
}

/// A function and its derivative, which share most of their computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pair {
    /// Softplus and its derivative, the sigmoid.
    Softplus,
    /// `max(x, 0)`, and 1 where x is at least 0.
    Relu,
}

/// Form in which the program returns the gradient of the negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gradient {
    Tile(Tile),
    Scaled(Tile, Vector),
    Vector(Vector),
}

/// Steps with everything that they need.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    /// Vectors that hold a constant.
    pub(super) constants: Vec<(Vector, f32)>,
    /// Vectors that hold a parameter, with its index.
    pub(super) parameters: Vec<(Vector, usize)>,
    /// The vector that holds the number of columns.
    pub(super) columns: Option<Vector>,
    /// Steps that run once per call, for all rows.
    pub(super) prologue: Vec<Step>,
    /// The vector of the largest score of each row, which is computed after the scores are loaded.
    pub(super) largest: Option<Vector>,
    /// Steps that run once per tile.
    pub(super) steps: Vec<Step>,
    pub(super) loss: Vector,
    pub(super) positive: Vector,
    pub(super) negative: Gradient,
    pub(super) vectors: usize,
    pub(super) tiles: usize,
}

impl Step {
    fn inputs(&self) -> ([Option<Tile>; 3], [Option<Vector>; 3]) {
        let split = |operands: [Option<Operand>; 3]| {
            let tiles = operands.map(|operand| match operand {
                Some(Operand::Tile(tile)) => Some(tile),
                _ => None,
            });
            let vectors = operands.map(|operand| match operand {
                Some(Operand::Vector(vector)) => Some(vector),
                _ => None,
            });
            (tiles, vectors)
        };
        let tile = |x| ([Some(x), None, None], [None; 3]);
        match *self {
            Self::VectorUnary { x, .. } => ([None; 3], [Some(x), None, None]),
            Self::VectorBinary { a, b, .. } => ([None; 3], [Some(a), Some(b), None]),
            Self::VectorSelect { operands, .. } => ([None; 3], operands.map(Some)),
            Self::Unary { x, .. }
            | Self::Pair { x, .. }
            | Self::Sum { x, .. }
            | Self::Max { x, .. } => tile(x),
            Self::ExpShift { x, shift, .. } => ([Some(x), None, None], [Some(shift), None, None]),
            Self::Product { a, b, .. } => ([Some(a), Some(b), None], [None; 3]),
            Self::Binary { a, b, .. } => split([Some(a), Some(b), None]),
            Self::Select { operands, .. } => (operands.map(Some), [None; 3]),
            Self::Broadcast { x, .. } => ([None; 3], [Some(x), None, None]),
        }
    }

    fn outputs(&self) -> ([Option<Tile>; 2], [Option<Vector>; 2]) {
        match *self {
            Self::VectorUnary { out, .. }
            | Self::VectorBinary { out, .. }
            | Self::VectorSelect { out, .. }
            | Self::Sum { out, .. }
            | Self::Max { out, .. } => ([None; 2], [Some(out), None]),
            Self::Unary { out, sum, .. } | Self::Product { out, sum, .. } => {
                ([Some(out), None], [sum, None])
            }
            Self::Binary { out, .. } | Self::Select { out, .. } | Self::Broadcast { out, .. } => {
                ([Some(out), None], [None; 2])
            }
            Self::Pair { out, sums, .. } => (out.map(Some), sums),
            Self::ExpShift { out, sum, .. } => ([Some(out), None], [Some(sum), None]),
        }
    }

    fn rename(&mut self, name: &impl Fn(Tile) -> Tile) {
        let operand = |operand: &mut Operand| {
            if let Operand::Tile(tile) = operand {
                *tile = name(*tile);
            }
        };
        let tile = |tile: &mut Tile| *tile = name(*tile);
        match self {
            Self::VectorUnary { .. } | Self::VectorBinary { .. } | Self::VectorSelect { .. } => {}
            Self::Unary { out, x, .. } | Self::ExpShift { out, x, .. } => {
                [out, x].into_iter().for_each(tile);
            }
            Self::Product { out, a, b, .. } => [out, a, b].into_iter().for_each(tile),
            Self::Binary { out, a, b, .. } => {
                tile(out);
                [a, b].into_iter().for_each(operand);
            }
            Self::Select { out, operands } => {
                tile(out);
                operands.iter_mut().for_each(tile);
            }
            Self::Broadcast { out, .. } => tile(out),
            Self::Pair { out, x, .. } => {
                out.iter_mut().for_each(tile);
                tile(x);
            }
            Self::Sum { x, .. } | Self::Max { x, .. } => tile(x),
        }
    }
}
