//! Relation sampler that draws each relation with remaining edges with equal probability.
//!
//! Rare relations are trained early in the share, and the last batches of frequent relations follow
//! each other at its end. The advantage is that the parameters of rare relations are trained while the
//! embeddings still change.

use pbg_plugin_sdk::{Draw, Draws, Left, Metadata, Result, Rng, Sampler, Share, export_sampler};

/// The sampler; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uniform;

/// Draws of one share.
#[derive(Debug)]
pub struct Walk {
    left: Left,
    /// Relations with remaining edges, in no particular order.
    relations: Vec<u32>,
    rng: Rng,
}

impl Sampler for Uniform {
    type Draws = Walk;

    fn metadata() -> Metadata {
        Metadata::new(
            "uniform",
            env!("CARGO_PKG_VERSION"),
            "Each relation with remaining edges is equally likely.",
        )
    }

    fn begin(&self, share: &Share) -> Result<Walk> {
        let left = Left::new(share);
        Ok(Walk {
            relations: left.relations().collect(),
            left,
            rng: share.rng(),
        })
    }
}

impl Draws for Walk {
    fn next(&mut self) -> Result<Option<Draw>> {
        if self.relations.is_empty() {
            return Ok(None);
        }
        let index = self.rng.below(self.relations.len() as u64) as usize;
        let relation = self.relations[index];
        let draw = self.left.take(relation);
        if self.left.of(relation) == 0 {
            self.relations.swap_remove(index);
        }
        Ok(Some(draw))
    }
}

export_sampler!(Uniform);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_contract() {
        testing::assert_sampler::<Uniform>();
    }

    #[test]
    fn how_many_edges_a_relation_has_does_not_matter() {
        let mut first = [0_u32; 3];
        for seed in 0..3000 {
            let share = Share {
                counts: vec![1, 1000, 10],
                batch_size: 5,
                seed,
            };
            let draw = Uniform.begin(&share).unwrap().next().unwrap().unwrap();
            first[draw.relation as usize] += 1;
        }
        // Mean 1000, deviation 26.
        assert!(first.iter().all(|n| (880..1120).contains(n)), "{first:?}");
    }

    proptest! {
        #[test]
        fn every_edge_is_drawn(
            counts in proptest::collection::vec(0_u64..300, 0..30), batch_size in 1_u32..200, seed: u64,
        ) {
            testing::assert_draws::<Uniform>(&Share { counts, batch_size, seed });
        }
    }
}
