//! Lowering of reductions over the negatives of a row, and of operations that build on them.

use pbg_formula::node::{Binary, Reduction, Unary};

use super::{Lowering, Value};
use crate::losses::program::{LossStep, SCORES, TileIndex, VectorIndex};

/// Largest value of a row, exponentials of its values shifted by that, and the sum of the exponentials.
#[derive(Clone, Copy)]
pub(super) struct Exponentials {
    largest: VectorIndex,
    tile: TileIndex,
    total: VectorIndex,
}

impl Lowering<'_> {
    pub(super) fn softmax(&mut self, x: TileIndex) -> Value {
        let Exponentials { tile, total, .. } = self.exponentials(x);
        // Without terms the sum is 0, and the inverse of 0 is replaced by 0.
        let one = self.number(1.0);
        let zero = self.number(0.0);
        let inverse = self.vector_binary(Binary::Div, one, total, false);
        let out = self.vector();
        self.program.steps.push(LossStep::VectorSelect {
            out,
            operands: [total, inverse, zero],
        });
        Value::Scaled(tile, out)
    }

    pub(super) fn reduce(&mut self, op: Reduction, value: Value) -> VectorIndex {
        match op {
            Reduction::Sum | Reduction::Mean => match value {
                Value::Scaled(tile, factor) => {
                    let sum = self.sum(tile);
                    self.vector_binary(Binary::Mul, sum, factor, false)
                }
                value => {
                    let tile = self.as_tile(value);
                    self.sum(tile)
                }
            },
            Reduction::Max => {
                let x = self.as_tile(value);
                self.largest(x)
            }
            Reduction::LogSumExp => {
                let x = self.as_tile(value);
                let Exponentials { largest, total, .. } = self.exponentials(x);
                let rest = self.vector_unary(Unary::Log, total, false);
                let out = self.vector_binary(Binary::Add, largest, rest, false);
                self.known.logsums.insert(out, (largest, rest));
                out
            }
        }
    }

    /// Returns the sum of a tile, computed by the step that writes the tile if that step can.
    fn sum(&mut self, tile: TileIndex) -> VectorIndex {
        if let Some(&known) = self.known.sums.get(&tile) {
            return known;
        }
        let out = self.vector();
        let maker = self.makers[tile].map(|step| &mut self.program.steps[step]);
        let slot = match maker {
            Some(LossStep::Unary { sum, .. } | LossStep::Product { sum, .. }) => Some(sum),
            Some(LossStep::Pair {
                out: made, sums, ..
            }) => {
                let [of_function, of_slope] = sums;
                Some(if made[0] == tile {
                    of_function
                } else {
                    of_slope
                })
            }
            _ => None,
        };
        match slot {
            Some(slot) => *slot = Some(out),
            None => self.program.steps.push(LossStep::Sum { out, x: tile }),
        }
        self.known.sums.insert(tile, out);
        out
    }

    fn largest(&mut self, x: TileIndex) -> VectorIndex {
        if x == SCORES {
            if let Some(known) = self.program.largest {
                return known;
            }
            let out = self.vector();
            self.program.largest = Some(out);
            return out;
        }
        let out = self.vector();
        self.program.steps.push(LossStep::Max { out, x });
        out
    }

    fn exponentials(&mut self, x: TileIndex) -> Exponentials {
        if let Some(&known) = self.known.exponentials.get(&x) {
            return known;
        }
        let largest = self.largest(x);
        let (tile, total) = (self.tile(), self.vector());
        self.program.steps.push(LossStep::ExpShift {
            out: tile,
            x,
            shift: largest,
            sum: total,
        });
        self.known.sums.insert(tile, total);
        let made = Exponentials {
            largest,
            tile,
            total,
        };
        self.known.exponentials.insert(x, made);
        made
    }
}
