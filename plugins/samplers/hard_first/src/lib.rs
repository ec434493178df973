//! Relation sampler that chooses the relation whose last batches had the highest mean loss.
//!
//! This is greedy selection by a running mean, as in the bandit literature (Sutton and Barto,
//! "Reinforcement Learning", section 2.5: recency-weighted average). Relations that have not been
//! observed yet count as hardest, the ones with the most edges first. With probability `explore` the
//! next relation is drawn in proportion to the remaining edges instead, so that a single batch with a
//! low loss does not defer a relation to the end of the share.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use pbg_plugin_sdk::{
    Draw, Draws, Left, Metadata, Parameter, Parameters, Result, Rng, Sampler, Share, export_sampler,
};

/// The sampler.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct HardFirst {
    memory: f32,
    explore: f64,
}

/// Draws of one share.
#[derive(Debug)]
pub struct Walk {
    sampler: HardFirst,
    left: Left,
    /// Running mean of each relation's loss, once observed.
    means: Vec<Option<f32>>,
    /// Relations by hardness. Entries with an outdated mean are skipped.
    queue: BinaryHeap<Entry>,
    rng: Rng,
}

/// Relation, with its mean loss and remaining edges at the time of queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entry {
    mean: Option<f32>,
    edges: u64,
    relation: u32,
}

impl Eq for Entry {}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        let unseen = |entry: &Self| entry.mean.is_none();
        let mean = |entry: &Self| entry.mean.unwrap_or(0.0);
        unseen(self)
            .cmp(&unseen(other))
            .then(mean(self).total_cmp(&mean(other)))
            .then(self.edges.cmp(&other.edges))
            .then(other.relation.cmp(&self.relation))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Sampler for HardFirst {
    type Draws = Walk;

    fn metadata() -> Metadata {
        Metadata::new(
            "hard_first",
            env!("CARGO_PKG_VERSION"),
            "The relation whose last batches had the highest mean loss.",
        )
        .parameter(Parameter::number(
            "memory",
            0.7,
            0.0..=0.999,
            "Weight of the previous mean loss of a relation; its newest batch has the remaining weight.",
        ))
        .parameter(Parameter::number(
            "explore",
            0.1,
            0.0..=1.0,
            "Probability of drawing a relation in proportion to its remaining edges instead.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn begin(&self, share: &Share) -> Result<Walk> {
        let left = Left::new(share);
        let entry = |relation| Entry {
            mean: None,
            edges: left.of(relation),
            relation,
        };
        Ok(Walk {
            sampler: *self,
            queue: left.relations().map(entry).collect(),
            means: vec![None; share.counts.len()],
            left,
            rng: share.rng(),
        })
    }
}

impl Walk {
    /// Removes the hardest relation with remaining edges from the queue and returns it.
    fn hardest(&mut self) -> Option<u32> {
        while let Some(entry) = self.queue.pop() {
            let stale = entry.mean != self.means[entry.relation as usize];
            if !stale && self.left.of(entry.relation) > 0 {
                return Some(entry.relation);
            }
        }
        None
    }
}

impl Draws for Walk {
    fn next(&mut self) -> Result<Option<Draw>> {
        let total = self.left.total();
        if total == 0 {
            return Ok(None);
        }
        let exploring = self.rng.unit() < self.sampler.explore;
        let hardest = if exploring { None } else { self.hardest() };
        let relation = match hardest {
            Some(relation) => relation,
            None => {
                let edge = self.rng.below(total);
                self.left.relation_of(edge).ok_or("no edge is left")?
            }
        };
        Ok(Some(self.left.take(relation)))
    }

    fn observe(&mut self, relation: u32, mean_loss: f32) {
        let Some(mean) = self.means.get_mut(relation as usize) else {
            return;
        };
        let memory = self.sampler.memory;
        let known = mean.map_or(mean_loss, |known| {
            memory * known + (1.0 - memory) * mean_loss
        });
        *mean = Some(known);
        self.queue.push(Entry {
            mean: Some(known),
            edges: self.left.of(relation),
            relation,
        });
    }
}

export_sampler!(HardFirst);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    const GREEDY: HardFirst = HardFirst {
        memory: 0.5,
        explore: 0.0,
    };

    #[test]
    fn keeps_the_contract() {
        testing::assert_sampler::<HardFirst>();
    }

    #[test]
    fn all_are_tried_then_the_hardest_comes_first() {
        let share = Share {
            counts: vec![30, 20, 40],
            batch_size: 10,
            seed: 0,
        };
        let losses = [1.0, 3.0, 2.0];
        let mut walk = GREEDY.begin(&share).unwrap();
        let mut drawn = Vec::new();
        while let Some(draw) = walk.next().unwrap() {
            drawn.push(draw.relation);
            walk.observe(draw.relation, losses[draw.relation as usize]);
        }
        assert_eq!(drawn, [2, 0, 1, 1, 2, 2, 2, 0, 0]);
    }

    #[test]
    fn the_mean_forgets() {
        let share = Share {
            counts: vec![50, 50],
            batch_size: 1,
            seed: 0,
        };
        let mut walk = GREEDY.begin(&share).unwrap();
        // Relation 0 starts hard and becomes easy; relation 1 stays in between.
        let mut easy = 8.0;
        let mut drawn = Vec::new();
        for _ in 0..7 {
            let relation = walk.next().unwrap().unwrap().relation;
            drawn.push(relation);
            walk.observe(relation, if relation == 0 { easy } else { 3.0 });
            if relation == 0 {
                easy = 0.0;
            }
        }
        // Means of relation 0: 8, 4, 2.
        assert_eq!(drawn, [0, 1, 0, 0, 1, 1, 1]);
    }

    proptest! {
        #[test]
        fn every_edge_is_drawn(
            counts in proptest::collection::vec(0_u64..300, 0..30), batch_size in 1_u32..200, seed: u64,
        ) {
            testing::assert_draws::<HardFirst>(&Share { counts, batch_size, seed });
        }
    }
}
