//! Execution of a program's steps on the tiles of a few rows.

use pbg_core::loss::node::{Binary, Unary};

use crate::losses::maths;
use crate::losses::program::{Operand, Pair, SCORES, Step, Tile, Vector};
use crate::losses::rows::{self, Lane, Vectors, with_binary, with_unary};
use crate::losses::tile::{self, numbers};

/// The tiles and vectors that steps work on. No step writes a tile that it reads, so a step takes its output tile out.
pub(super) struct Tiles<'b> {
    pub(super) tiles: &'b mut [Vec<Lane>],
    pub(super) vectors: &'b mut Vectors,
    /// One row of a tile.
    pub(super) scratch: &'b mut [Lane],
    /// Sums before they are copied to their vectors, or that are not used.
    pub(super) sums: [&'b mut [f32]; 2],
    /// Lanes per row.
    pub(super) lanes: usize,
    pub(super) rows: usize,
}

impl Tiles<'_> {
    fn size(&self) -> usize {
        self.rows * self.lanes
    }

    /// Returns vector `vector`, one number per row.
    #[inline(always)]
    pub(super) fn vector(&mut self, vector: Vector) -> &mut [f32] {
        &mut self.vectors[vector].as_flattened_mut()[..self.rows]
    }

    /// Returns tile `tile`.
    #[inline(always)]
    pub(super) fn tile(&mut self, tile: Tile) -> &mut [Lane] {
        let size = self.size();
        &mut self.tiles[tile][..size]
    }

    /// Computes the largest score of each row.
    #[inline(always)]
    pub(super) fn largest_scores(&mut self, out: Vector) {
        let size = self.size();
        let largest = &mut self.vectors[out].as_flattened_mut()[..self.rows];
        tile::largest_scores(&self.tiles[SCORES][..size], self.lanes, largest);
    }

    /// Executes one step.
    #[inline(always)]
    pub(super) fn step<const FMA: bool>(&mut self, step: &Step) {
        let vector_lanes = self.rows.div_ceil(rows::WIDTH);
        match *step {
            Step::VectorUnary { op, out, x } => {
                rows::unary::<FMA>(self.vectors, vector_lanes, op, out, x);
            }
            Step::VectorBinary { op, out, a, b } => {
                rows::binary(self.vectors, vector_lanes, op, out, [a, b]);
            }
            Step::VectorSelect { out, operands } => {
                rows::select(self.vectors, vector_lanes, out, operands);
            }
            Step::Unary { op, out, x, sum } => self.unary::<FMA>(op, out, x, sum),
            Step::Binary { op, out, a, b } => self.binary(op, out, [a, b]),
            Step::Product { out, a, b, sum } => self.product(out, [a, b], sum),
            Step::Select { out, operands } => self.select(out, operands),
            Step::Broadcast { out, x } => {
                let size = self.size();
                let x = numbers(self.vectors, x, self.rows);
                tile::broadcast(&mut self.tiles[out][..size], self.lanes, x);
            }
            Step::Pair { op, out, x, sums } => self.pair::<FMA>(op, out, x, sums),
            Step::ExpShift { out, x, shift, sum } => self.exp_shift::<FMA>(out, x, shift, sum),
            Step::Sum { out, x } => self.reduce(out, x, tile::sum),
            Step::Max { out, x } => self.reduce(out, x, tile::max),
        }
    }

    #[inline(always)]
    fn unary<const FMA: bool>(&mut self, op: Unary, out: Tile, x: Tile, sum: Option<Vector>) {
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
    fn binary(&mut self, op: Binary, out: Tile, operands: [Operand; 2]) {
        let (size, lanes) = (self.size(), self.lanes);
        let mut taken = std::mem::take(&mut self.tiles[out]);
        let (made, tiles) = (&mut taken[..size], &*self.tiles);
        match operands {
            [Operand::Tile(a), Operand::Tile(b)] => {
                with_binary!(op, f => tile::zip(made, &tiles[a], &tiles[b], f));
            }
            [Operand::Tile(a), Operand::Vector(b)] => {
                let b = numbers(self.vectors, b, self.rows);
                with_binary!(op, f => tile::zip_rows(made, &tiles[a], lanes, b, f));
            }
            [Operand::Vector(a), Operand::Tile(b)] => {
                let a = numbers(self.vectors, a, self.rows);
                with_binary!(op, f => tile::zip_rows(made, &tiles[b], lanes, a, |b, a| f(a, b)));
            }
            // Lowering emits a step on vectors instead.
            [Operand::Vector(_), Operand::Vector(_)] => {}
        }
        self.tiles[out] = taken;
    }

    #[inline(always)]
    fn product(&mut self, out: Tile, [a, b]: [Tile; 2], sum: Option<Vector>) {
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
    fn select(&mut self, out: Tile, operands: [Tile; 3]) {
        let size = self.size();
        let mut taken = std::mem::take(&mut self.tiles[out]);
        let operands = operands.map(|tile| &self.tiles[tile][..size]);
        tile::select(&mut taken[..size], operands);
        self.tiles[out] = taken;
    }

    #[inline(always)]
    fn pair<const FMA: bool>(
        &mut self,
        op: Pair,
        out: [Tile; 2],
        x: Tile,
        sums: [Option<Vector>; 2],
    ) {
        let (size, lanes, rows) = (self.size(), self.lanes, self.rows);
        let mut taken = out.map(|tile| std::mem::take(&mut self.tiles[tile]));
        let (x, scores) = (&self.tiles[x][..size], &self.tiles[SCORES][..size]);
        let made = taken.each_mut().map(|tile| &mut tile[..size]);
        let found = self.sums.each_mut().map(|sums| &mut sums[..rows]);
        match op {
            Pair::Softplus => tile::map_two(made, x, scores, lanes, found, |x| {
                let (sigmoid, softplus) = maths::sigmoid_and_softplus::<FMA>(x, 1.0);
                [softplus, sigmoid]
            }),
            Pair::Relu => tile::map_two(made, x, scores, lanes, found, |x| {
                [maths::relu(x), if x >= 0.0 { 1.0 } else { 0.0 }]
            }),
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
    fn exp_shift<const FMA: bool>(&mut self, out: Tile, x: Tile, shift: Vector, sum: Vector) {
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
        out: Vector,
        x: Tile,
        reduce: impl Fn(&[Lane], &[Lane], usize, &mut [Lane], &mut [f32]),
    ) {
        let size = self.size();
        let reduced = &mut self.vectors[out].as_flattened_mut()[..self.rows];
        let (x, scores) = (&self.tiles[x][..size], &self.tiles[SCORES][..size]);
        reduce(x, scores, self.lanes, self.scratch, reduced);
    }
}
