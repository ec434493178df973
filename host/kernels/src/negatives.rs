//! Uniform negatives: entities drawn per chunk and side, shared by the chunk's positives.

use pbg_core::graph::Side;
use rand::{Rng, RngExt};

use crate::spec::{ModelSpec, RelationSpec};

/// Entities drawn for one batch.
///
/// Draws come to the training step from outside, so that a test can inject those of another
/// implementation and the kernels contain nothing random.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NegativeDraws {
    /// Offsets that replace the left side, `[chunks, num_uniform_negs]`; empty where none are wanted. Where
    /// both sides have one entity type, offsets beyond the left partition count on into the right one.
    pub lhs: Vec<u32>,
    /// Offsets that replace the right side; beyond the right partition they count on into the left one.
    pub rhs: Vec<u32>,
}

impl NegativeDraws {
    /// Offsets that replace `side`.
    #[must_use]
    pub fn side(&self, side: Side) -> &[u32] {
        match side {
            Side::Lhs => &self.lhs,
            Side::Rhs => &self.rhs,
        }
    }

    /// Draws anew for a batch of `edges` edges of `relation` among `lhs_entities` entities that may replace
    /// the left side and `rhs_entities` that may replace the right one: uniformly, with replacement, left
    /// side first.
    pub fn draw(
        &mut self,
        spec: &ModelSpec,
        relation: &RelationSpec,
        edges: usize,
        [lhs_entities, rhs_entities]: [usize; 2],
        rng: &mut impl Rng,
    ) {
        let chunks = edges.div_ceil(spec.chunk_size(relation, edges));
        let sides = [
            (&mut self.lhs, Side::Lhs, lhs_entities),
            (&mut self.rhs, Side::Rhs, rhs_entities),
        ];
        for (draws, side, entities) in sides {
            draws.clear();
            let wanted = chunks * spec.uniform_negatives(relation, side);
            if entities > 0 {
                let entities = u32::try_from(entities).unwrap_or(u32::MAX);
                draws.extend((0..wanted).map(|_| rng.random_range(0..entities)));
            }
        }
    }
}
