//! A loss graph and its gradient as a list of steps over tiles of rows.
//!
//! Values that are the same for all rows are computed once per call. Values per row are stored in vectors, values per
//! negative in tiles. Lowering (`lower`) fuses steps where that is always correct: a sum with the step that computes
//! its terms, the logarithm of a sum of exponentials with the softmax of the same values, softplus with sigmoid, and a
//! factor per row with the step that follows.

use pbg_formula::node::{Binary, Unary};

mod buffers;
mod lower;

/// Index of a tile, which holds one value per negative.
pub(super) type TileIndex = usize;
/// Index of a vector, which holds one value per row.
pub(super) type VectorIndex = usize;

/// The tile of the negatives' scores. A masked negative has the score [`MASKED`](pbg_core::strategy::MASKED) in it.
pub(super) const SCORES: TileIndex = 0;
/// The vector of the positives' scores.
pub(super) const POSITIVE: VectorIndex = 0;

/// Operand with one value per negative, or with one value per row that applies to all its negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum TileOperand {
    Tile(TileIndex),
    Vector(VectorIndex),
}

/// Step of a program: one loop over tiles or vectors. Sums and maxima omit masked negatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LossStep {
    VectorUnary {
        op: Unary,
        out: VectorIndex,
        x: VectorIndex,
    },
    VectorBinary {
        op: Binary,
        out: VectorIndex,
        a: VectorIndex,
        b: VectorIndex,
    },
    VectorSelect {
        out: VectorIndex,
        operands: [VectorIndex; 3],
    },
    Unary {
        op: Unary,
        out: TileIndex,
        x: TileIndex,
        sum: Option<VectorIndex>,
    },
    /// An operation of which at least one operand is a tile.
    Binary {
        op: Binary,
        out: TileIndex,
        a: TileOperand,
        b: TileOperand,
    },
    Product {
        out: TileIndex,
        a: TileIndex,
        b: TileIndex,
        sum: Option<VectorIndex>,
    },
    Select {
        out: TileIndex,
        operands: [TileIndex; 3],
    },
    /// A tile in which each row repeats its element of a vector.
    Broadcast {
        out: TileIndex,
        x: VectorIndex,
    },
    /// A function and its derivative.
    Pair {
        op: FunctionWithSlope,
        out: [TileIndex; 2],
        x: TileIndex,
        sums: [Option<VectorIndex>; 2],
    },
    /// `e^(x - shift)` and its sum; the shift is the largest value of each row.
    ExpShift {
        out: TileIndex,
        x: TileIndex,
        shift: VectorIndex,
        sum: VectorIndex,
    },
    Sum {
        out: VectorIndex,
        x: TileIndex,
    },
    Max {
        out: VectorIndex,
        x: TileIndex,
    },
}

/// A function and its derivative, which share most of their computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FunctionWithSlope {
    /// Softplus and its derivative, the sigmoid.
    Softplus,
    /// `max(x, 0)`, and 1 where x is at least 0.
    Relu,
}

/// Form in which the program returns the gradient of the negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NegativeGradient {
    /// A value per negative.
    Tile(TileIndex),
    /// The product of a value per negative and a factor per row.
    Scaled(TileIndex, VectorIndex),
    /// The same value for all negatives of a row.
    Vector(VectorIndex),
}

impl Default for NegativeGradient {
    fn default() -> Self {
        Self::Vector(0)
    }
}

/// Lowered loss: its steps, the vectors to fill before they run, and the vectors and tiles of the results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LossProgram {
    /// Vectors that hold a constant.
    pub(super) constants: Vec<(VectorIndex, f32)>,
    /// Vectors that hold a parameter, with its index.
    pub(super) parameters: Vec<(VectorIndex, usize)>,
    /// The vector that holds the number of columns.
    pub(super) columns: Option<VectorIndex>,
    /// Steps that run once per call, for all rows.
    pub(super) prologue: Vec<LossStep>,
    /// The vector of the largest score of each row, which is computed after the scores are loaded.
    pub(super) largest: Option<VectorIndex>,
    /// Steps that run once per tile.
    pub(super) steps: Vec<LossStep>,
    /// The vector of the losses.
    pub(super) loss: VectorIndex,
    /// The vector of the gradients of the positives' scores.
    pub(super) positive: VectorIndex,
    /// Gradient of the negatives' scores.
    pub(super) negative: NegativeGradient,
    /// Number of vectors.
    pub(super) vectors: usize,
    /// Number of tiles.
    pub(super) tiles: usize,
}

impl LossStep {
    /// Returns the tiles and vectors that the step reads.
    fn inputs(&self) -> ([Option<TileIndex>; 3], [Option<VectorIndex>; 3]) {
        let split = |operands: [Option<TileOperand>; 3]| {
            let tiles = operands.map(|operand| match operand {
                Some(TileOperand::Tile(tile)) => Some(tile),
                _ => None,
            });
            let vectors = operands.map(|operand| match operand {
                Some(TileOperand::Vector(vector)) => Some(vector),
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

    /// Returns the tiles and vectors that the step writes.
    fn outputs(&self) -> ([Option<TileIndex>; 2], [Option<VectorIndex>; 2]) {
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

    /// Replaces the index of each tile that the step reads or writes.
    fn rename(&mut self, name: &impl Fn(TileIndex) -> TileIndex) {
        let operand = |operand: &mut TileOperand| {
            if let TileOperand::Tile(tile) = operand {
                *tile = name(*tile);
            }
        };
        let tile = |tile: &mut TileIndex| *tile = name(*tile);
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
