//! Removal of unused steps, and assignment of tiles to buffers.

use super::{LossProgram, LossStep, NegativeGradient, SCORES, VectorIndex};

impl LossProgram {
    /// Removes the steps whose results are not used.
    pub(super) fn drop_unused(&mut self) {
        let mut used = Used::new(self);
        for step in self.steps.iter_mut().rev() {
            used.visit(step);
        }
        for step in self.prologue.iter_mut().rev() {
            used.visit(step);
        }
        self.steps.retain(|step| used.needs(step));
        self.prologue.retain(|step| used.needs(step));
        self.largest = self.largest.filter(|&v| used.vectors[v]);
    }

    /// Assigns one buffer to tiles that are needed at different times. The scores keep theirs, and no step writes a
    /// buffer that it reads.
    pub(super) fn assign_buffers(&mut self) {
        let mut last = vec![0; self.tiles];
        for (at, step) in self.steps.iter().enumerate() {
            let (inputs, (outputs, _)) = (step.inputs().0, step.outputs());
            for tile in inputs
                .into_iter()
                .flatten()
                .chain(outputs.into_iter().flatten())
            {
                last[tile] = at;
            }
        }
        last[SCORES] = usize::MAX;
        if let NegativeGradient::Tile(tile) | NegativeGradient::Scaled(tile, _) = self.negative {
            last[tile] = usize::MAX;
        }
        let mut places = vec![SCORES; self.tiles];
        // The last step that needs each buffer's current tile.
        let mut taken = vec![usize::MAX];
        for (at, step) in self.steps.iter().enumerate() {
            for tile in step.outputs().0.into_iter().flatten() {
                let free = taken
                    .iter()
                    .position(|&until| until != usize::MAX && until < at);
                let place = free.unwrap_or(taken.len());
                if place == taken.len() {
                    taken.push(0);
                }
                taken[place] = last[tile];
                places[tile] = place;
            }
        }
        for step in &mut self.steps {
            step.rename(&|tile| places[tile]);
        }
        if let NegativeGradient::Tile(tile) | NegativeGradient::Scaled(tile, _) = &mut self.negative
        {
            *tile = places[*tile];
        }
        self.tiles = taken.len();
    }
}

/// The vectors and tiles that are used.
struct Used {
    vectors: Vec<bool>,
    tiles: Vec<bool>,
}

impl Used {
    fn new(program: &LossProgram) -> Self {
        let mut used = Self {
            vectors: vec![false; program.vectors],
            tiles: vec![false; program.tiles],
        };
        used.vectors[program.loss] = true;
        used.vectors[program.positive] = true;
        match program.negative {
            NegativeGradient::Vector(vector) => used.vectors[vector] = true,
            NegativeGradient::Tile(tile) => used.tiles[tile] = true,
            NegativeGradient::Scaled(tile, factor) => {
                used.tiles[tile] = true;
                used.vectors[factor] = true;
            }
        }
        used
    }

    /// Removes a step's unused sums; marks the inputs of a step that is needed.
    fn visit(&mut self, step: &mut LossStep) {
        let unused = |vector: &Option<VectorIndex>| vector.is_some_and(|v| !self.vectors[v]);
        match step {
            LossStep::Unary { sum, .. } | LossStep::Product { sum, .. } if unused(sum) => {
                *sum = None
            }
            LossStep::Pair { sums, .. } => {
                *sums = sums.map(|sum| sum.filter(|&v| self.vectors[v]));
            }
            _ => {}
        }
        if !self.needs(step) {
            return;
        }
        let (tiles, vectors) = step.inputs();
        tiles
            .into_iter()
            .flatten()
            .for_each(|t| self.tiles[t] = true);
        vectors
            .into_iter()
            .flatten()
            .for_each(|v| self.vectors[v] = true);
    }

    fn needs(&self, step: &LossStep) -> bool {
        let (tiles, vectors) = step.outputs();
        tiles.into_iter().flatten().any(|t| self.tiles[t])
            || vectors.into_iter().flatten().any(|v| self.vectors[v])
    }
}
