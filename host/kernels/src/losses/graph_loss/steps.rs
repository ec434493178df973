//! Execution of a program's steps on the tiles of a few rows.

use pbg_formula::node::{Binary, Unary};

use crate::losses::maths;
use crate::losses::program::{
    FunctionWithSlope, LossStep, SCORES, TileIndex, TileOperand, VectorIndex,
};
use crate::losses::tile::{self, numbers};
use crate::losses::vectors::{self, Lane, Vectors, with_binary, with_unary};

/// Tiles and vectors of a program while its steps run. A step never writes a tile that it reads, so it moves its output
/// tile out of `tiles` while it borrows the others.
pub(super) struct TileBuffers<'b> {
    pub(super) tiles: &'b mut [Vec<Lane>],
    pub(super) vectors: &'b mut Vectors,
    /// Intermediate values of one row of a tile.
    pub(super) scratch: &'b mut [Lane],
    /// Sums of the rows that a step computes together with its tile, before those that the program uses are copied to
    /// vectors.
    pub(super) sums: [&'b mut [f32]; 2],
    /// Number of lanes per row.
    pub(super) lanes: usize,
    /// Number of rows.
    pub(super) rows: usize,
}

impl TileBuffers<'_> {
    /// Returns the number of lanes of the rows.
    fn size(&self) -> usize {
        self.rows * self.lanes
    }

    /// Returns the elements of vector `vector`, one per row.
    #[inline(always)]
    pub(super) fn vector(&mut self, vector: VectorIndex) -> &mut [f32] {
        &mut self.vectors[vector].as_flattened_mut()[..self.rows]
    }

    /// Returns tile `tile`.
    #[inline(always)]
    pub(super) fn tile(&mut self, tile: TileIndex) -> &mut [Lane] {
        let size = self.size();
        &mut self.tiles[tile][..size]
    }

    /// Computes the largest unmasked score of each row.
    #[inline(always)]
    pub(super) fn largest_scores(&mut self, out: VectorIndex) {
        let size = self.size();
        let largest = &mut self.vectors[out].as_flattened_mut()[..self.rows];
        tile::largest_scores(&self.tiles[SCORES][..size], self.lanes, largest);
    }

    /// Executes one step.
    #[inline(always)]
    pub(super) fn step<const FMA: bool>(&mut self, step: &LossStep) {
        let vector_lanes = self.rows.div_ceil(vectors::WIDTH);
        match *step {
            LossStep::VectorUnary { op, out, x } => {
                vectors::unary::<FMA>(self.vectors, vector_lanes, op, out, x);
            }
            LossStep::VectorBinary { op, out, a, b } => {
                vectors::binary(self.vectors, vector_lanes, op, out, [a, b]);
            }
            LossStep::VectorSelect { out, operands } => {
                vectors::select(self.vectors, vector_lanes, out, operands);
            }
            LossStep::Unary { op, out, x, sum } => self.unary::<FMA>(op, out, x, sum),
            LossStep::Binary { op, out, a, b } => self.binary(op, out, [a, b]),
            LossStep::Product { out, a, b, sum } => self.product(out, [a, b], sum),
            LossStep::Select { out, operands } => self.select(out, operands),
            LossStep::Broadcast { out, x } => {
                let size = self.size();
                let x = numbers(self.vectors, x, self.rows);
                tile::broadcast(&mut self.tiles[out][..size], self.lanes, x);
            }
            LossStep::Pair { op, out, x, sums } => self.pair::<FMA>(op, out, x, sums),
            LossStep::ExpShift { out, x, shift, sum } => self.exp_shift::<FMA>(out, x, shift, sum),
            LossStep::Sum { out, x } => self.reduce(out, x, tile::sum),
            LossStep::Max { out, x } => self.reduce(out, x, tile::max),
        }
    }

    #[inline(always)]
    fn unary<const FMA: bool>(
        &mut self,
        op: Unary,
        out: TileIndex,
        x: TileIndex,
        sum: Option<VectorIndex>,
    ) {
        let (size, lanes) = (self.size(), self.lanes);
        let mut taken = std::mem::take(&mut self.tiles[out]);
        let (x, scores) = (&self.tiles[x][..size], &self.tiles[SCORES][..size]);
        let made = &mut taken[..size];
        match sum {
            Some(sum) => {
                let sums = &mut self.vectors[sum].as_flattened_mut()[..self.rows];
                with_unary!(op, FMA, f => tile::map_sum(made, x, scores, lanes, sums, f));
            }
            None => with_unary!(op, FMA, f => tile::map(made, x, f)),
        }
        self.tiles[out] = taken;
    }

    #[inline(always)]
    fn binary(&mut self, op: Binary, out: TileIndex, operands: [TileOperand; 2]) {
        let (size, lanes) = (self.size(), self.lanes);
        let mut taken = std::mem::take(&mut self.tiles[out]);
        let (made, tiles) = (&mut taken[..size], &*self.tiles);
        match operands {
            [TileOperand::Tile(a), TileOperand::Tile(b)] => {
                with_binary!(op, f => tile::zip(made, &tiles[a], &tiles[b], f));
            }
            [TileOperand::Tile(a), TileOperand::Vector(b)] => {
                let b = numbers(self.vectors, b, self.rows);
                with_binary!(op, f => tile::zip_rows(made, &tiles[a], lanes, b, f));
            }
            [TileOperand::Vector(a), TileOperand::Tile(b)] => {
                let a = numbers(self.vectors, a, self.rows);
                with_binary!(op, f => tile::zip_rows(made, &tiles[b], lanes, a, |b, a| f(a, b)));
            }
            // Lowering emits a step on vectors instead.
            [TileOperand::Vector(_), TileOperand::Vector(_)] => {}
        }
        self.tiles[out] = taken;
    }

    #[inline(always)]
    fn product(&mut self, out: TileIndex, [a, b]: [TileIndex; 2], sum: Option<VectorIndex>) {
        let (size, lanes) = (self.size(), self.lanes);
        let mut taken = std::mem::take(&mut self.tiles[out]);
        let tiles = &*self.tiles;
        let (a, b, scores) = (&tiles[a][..size], &tiles[b][..size], &tiles[SCORES][..size]);
        match sum {
            Some(sum) => {
                let sums = &mut self.vectors[sum].as_flattened_mut()[..self.rows];
                tile::product_sum(&mut taken[..size], a, b, scores, lanes, sums);
            }
            None => tile::zip(&mut taken[..size], a, b, |a, b| a * b),
        }
        self.tiles[out] = taken;
    }

    #[inline(always)]
    fn select(&mut self, out: TileIndex, operands: [TileIndex; 3]) {
        let size = self.size();
        let mut taken = std::mem::take(&mut self.tiles[out]);
        let operands = operands.map(|tile| &self.tiles[tile][..size]);
        tile::select(&mut taken[..size], operands);
        self.tiles[out] = taken;
    }

    #[inline(always)]
    fn pair<const FMA: bool>(
        &mut self,
        op: FunctionWithSlope,
        out: [TileIndex; 2],
        x: TileIndex,
        sums: [Option<VectorIndex>; 2],
    ) {
        let (size, lanes, rows) = (self.size(), self.lanes, self.rows);
        let mut taken = out.map(|tile| std::mem::take(&mut self.tiles[tile]));
        let (x, scores) = (&self.tiles[x][..size], &self.tiles[SCORES][..size]);
        let made = taken.each_mut().map(|tile| &mut tile[..size]);
        let found = self.sums.each_mut().map(|sums| &mut sums[..rows]);
        match op {
            FunctionWithSlope::Softplus => tile::map_two(made, x, scores, lanes, found, |x| {
                let (sigmoid, softplus) = maths::sigmoid_and_softplus::<FMA>(x, 1.0);
                [softplus, sigmoid]
            }),
            // Both are so cheap that two loops are faster: the compiler makes pairs of the results of one.
            FunctionWithSlope::Relu => {
                let slope = |x| if x >= 0.0 { 1.0 } else { 0.0 };
                let ([value, derivative], [of_value, of_derivative]) = (made, found);
                tile::map_sum(value, x, scores, lanes, of_value, maths::relu);
                tile::map_sum(derivative, x, scores, lanes, of_derivative, slope);
            }
        }
        for (tile, taken) in out.into_iter().zip(taken) {
            self.tiles[tile] = taken;
        }
        for (wanted, found) in sums.into_iter().zip(&self.sums) {
            if let Some(vector) = wanted {
                self.vectors[vector].as_flattened_mut()[..rows].copy_from_slice(&found[..rows]);
            }
        }
    }

    #[inline(always)]
    fn exp_shift<const FMA: bool>(
        &mut self,
        out: TileIndex,
        x: TileIndex,
        shift: VectorIndex,
        sum: VectorIndex,
    ) {
        let (size, lanes, rows) = (self.size(), self.lanes, self.rows);
        let mut taken = std::mem::take(&mut self.tiles[out]);
        let (x, scores) = (&self.tiles[x][..size], &self.tiles[SCORES][..size]);
        let shifts = numbers(self.vectors, shift, rows);
        let sums = &mut self.sums[0][..rows];
        tile::exp_shift::<FMA>(&mut taken[..size], x, scores, lanes, shifts, sums);
        self.vectors[sum].as_flattened_mut()[..rows].copy_from_slice(sums);
        self.tiles[out] = taken;
    }

    #[inline(always)]
    fn reduce(
        &mut self,
        out: VectorIndex,
        x: TileIndex,
        reduce: impl Fn(&[Lane], &[Lane], usize, &mut [Lane], &mut [f32]),
    ) {
        let size = self.size();
        let reduced = &mut self.vectors[out].as_flattened_mut()[..self.rows];
        let (x, scores) = (&self.tiles[x][..size], &self.tiles[SCORES][..size]);
        reduce(x, scores, self.lanes, self.scratch, reduced);
    }
}
