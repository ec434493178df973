//! Relation sampler that takes one batch of each relation in turn, until no edges remain.
//!
//! The first relation is random and differs between workers, so that the workers of a bucket, which
//! share the parameters of a relation, rarely train the same relation at the same time.

use pbg_plugin_sdk::{Draw, Draws, Left, Metadata, Result, Sampler, Share, export_sampler};

/// The sampler; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

/// Draws of one share.
#[derive(Debug)]
pub struct Walk {
    left: Left,
    /// Relations with remaining edges, in the order of their turns.
    relations: std::collections::VecDeque<u32>,
}

impl Sampler for RoundRobin {
    type Draws = Walk;

    fn metadata() -> Metadata {
        Metadata::new(
            "round_robin",
            env!("CARGO_PKG_VERSION"),
            "Relations take turns, one batch each.",
        )
    }

    fn begin(&self, share: &Share) -> Result<Walk> {
        let left = Left::new(share);
        let mut relations: std::collections::VecDeque<u32> = left.relations().collect();
        if !relations.is_empty() {
            let turns = share.rng().below(relations.len() as u64);
            relations.rotate_left(turns as usize);
        }
        Ok(Walk { left, relations })
    }
}

impl Draws for Walk {
    fn next(&mut self) -> Result<Option<Draw>> {
        let Some(relation) = self.relations.pop_front() else {
            return Ok(None);
        };
        let draw = self.left.take(relation);
        if self.left.of(relation) > 0 {
            self.relations.push_back(relation);
        }
        Ok(Some(draw))
    }
}

export_sampler!(RoundRobin);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_contract() {
        testing::assert_sampler::<RoundRobin>();
    }

    #[test]
    fn no_relation_waits_longer_than_a_round() {
        let share = Share {
            counts: vec![4, 0, 8, 6],
            batch_size: 2,
            seed: 3,
        };
        let drawn = testing::assert_draws::<RoundRobin>(&share);
        let turns: Vec<u32> = drawn.iter().map(|draw| draw.relation).collect();
        let start = turns[0];
        let rotated: Vec<u32> = [0, 2, 3, 0, 2, 3]
            .into_iter()
            .skip_while(|&relation| relation != start)
            .take(3)
            .collect();
        assert_eq!(turns[..3], rotated);
        assert_eq!(turns[3..6], rotated);
        assert_eq!(turns.len(), 2 + 4 + 3);
    }

    proptest! {
        #[test]
        fn every_edge_is_drawn(
            counts in proptest::collection::vec(0_u64..300, 0..30), batch_size in 1_u32..200, seed: u64,
        ) {
            testing::assert_draws::<RoundRobin>(&Share { counts, batch_size, seed });
        }
    }
}
