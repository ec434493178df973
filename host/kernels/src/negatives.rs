//! Uniform negatives: entities that are drawn per chunk and side and shared by the chunk's positives.

use std::ops::Range;

use pbg_core::graph::Side;
use rand::{Rng, RngExt};

use pbg_rows::spec::{ModelSpec, RelationSpec};

/// The uniform negatives of one batch.
///
/// They are passed to the training step, so that a test can inject the draws of another implementation and the kernels
/// contain no randomness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NegativeDraws {
    /// Offsets of the entities that replace the left side, `[chunks, num_uniform_negs]`; empty if there are none.
    /// If both sides have one entity type, offsets beyond the left partition continue into the right one.
    pub lhs: Vec<u32>,
    /// Offsets of the entities that replace the right side; those beyond the right partition continue into the left
    /// one.
    pub rhs: Vec<u32>,
    /// Number of the chunk's draws that are negatives of each edge, by side: the first ones; empty if all are.
    pub counts: [Vec<u32>; 2],
}

impl NegativeDraws {
    /// Returns the offsets of the entities that replace `side`.
    #[must_use]
    pub fn side(&self, side: Side) -> &[u32] {
        match side {
            Side::Lhs => &self.lhs,
            Side::Rhs => &self.rhs,
        }
    }

    /// Returns the number of draws that are negatives of each edge on `side`; `None` if all are.
    #[must_use]
    pub fn counts(&self, side: Side) -> Option<&[u32]> {
        let counts = &self.counts[side as usize];
        (!counts.is_empty()).then_some(counts)
    }

    /// Removes all draws.
    pub fn clear(&mut self) {
        let Self { lhs, rhs, counts } = self;
        for numbers in counts.iter_mut().chain([lhs, rhs]) {
            numbers.clear();
        }
    }

    /// Draws the negatives of a batch of `edges` edges of `relation`: uniformly, with replacement, the left side first.
    /// `lhs_entities` entities may replace the left side and `rhs_entities` the right side.
    pub fn draw(
        &mut self,
        spec: &ModelSpec,
        relation: &RelationSpec,
        edges: usize,
        [lhs_entities, rhs_entities]: [usize; 2],
        rng: &mut impl Rng,
    ) {
        self.clear();
        let chunks = edges.div_ceil(spec.chunk_size(relation, edges));
        let sides = [
            (&mut self.lhs, Side::Lhs, lhs_entities),
            (&mut self.rhs, Side::Rhs, rhs_entities),
        ];
        for (draws, side, entities) in sides {
            let wanted = chunks * spec.uniform_negatives(relation, side);
            if entities > 0 {
                let entities = u32::try_from(entities).unwrap_or(u32::MAX);
                draws.extend((0..wanted).map(|_| rng.random_range(0..entities)));
            }
        }
    }

    /// Draws the negatives of a batch of `edges` edges of `relation` chunk by chunk, the left side first. `draw` appends
    /// as many entities as it is asked for, for a side and the positions of the chunk's edges in the batch.
    pub fn draw_chunks(
        &mut self,
        spec: &ModelSpec,
        relation: &RelationSpec,
        edges: usize,
        mut draw: impl FnMut(Side, Range<usize>, usize, &mut Vec<u32>),
    ) {
        self.clear();
        let chunk = spec.chunk_size(relation, edges);
        for (draws, side) in [(&mut self.lhs, Side::Lhs), (&mut self.rhs, Side::Rhs)] {
            let wanted = spec.uniform_negatives(relation, side);
            if wanted == 0 {
                continue;
            }
            for start in (0..edges).step_by(chunk) {
                draw(side, start..edges.min(start + chunk), wanted, draws);
            }
        }
    }

    /// Leaves out some of the draws of each of `edges` edges of `relation`. `count` returns how many of the draws of a side
    /// are negatives of an edge, at most all of them.
    pub fn leave_out(
        &mut self,
        spec: &ModelSpec,
        relation: &RelationSpec,
        edges: usize,
        mut count: impl FnMut(Side, usize, usize) -> usize,
    ) {
        for side in Side::BOTH {
            let drawn = spec.uniform_negatives(relation, side);
            if drawn > 0 {
                let counts = (0..edges).map(|edge| count(side, edge, drawn).min(drawn) as u32);
                self.counts[side as usize].extend(counts);
            }
        }
    }
}
