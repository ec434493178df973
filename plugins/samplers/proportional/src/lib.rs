//! PBG's relation sampler: the relation of the next batch is drawn with a probability proportional to
//! its remaining edges.
//!
//! Source: Lerer et al., "PyTorch-BigGraph: A Large-scale Graph Embedding System" (2019), section
//! 4.3 (batches of one relation); the rule is `EdgeList`'s batching in PBG's `util.py`. The relation
//! of a batch is that of a uniformly random remaining edge, so the mix of relations stays constant
//! throughout the share, except for the last batches of each relation.

use pbg_plugin_sdk::{Draw, Draws, Left, Metadata, Result, Rng, Sampler, Share, export_sampler};

/// The sampler; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proportional;

/// Draws of one share.
#[derive(Debug)]
pub struct Walk {
    left: Left,
    rng: Rng,
}

impl Sampler for Proportional {
    type Draws = Walk;

    fn metadata() -> Metadata {
        Metadata::new(
            "proportional",
            env!("CARGO_PKG_VERSION"),
            "Relations with a probability proportional to their remaining edges (PBG).",
        )
    }

    fn begin(&self, share: &Share) -> Result<Walk> {
        Ok(Walk {
            left: Left::new(share),
            rng: share.rng(),
        })
    }
}

impl Draws for Walk {
    fn next(&mut self) -> Result<Option<Draw>> {
        if self.left.total() == 0 {
            return Ok(None);
        }
        let edge = self.rng.below(self.left.total());
        let relation = self.left.relation_of(edge);
        Ok(relation.map(|relation| self.left.take(relation)))
    }
}

export_sampler!(Proportional);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_contract() {
        testing::assert_sampler::<Proportional>();
    }

    /// Chi-square test of the frequencies of the first and second relation drawn, of three relations,
    /// against the exact probabilities.
    #[test]
    fn the_edges_left_decide_how_likely_a_relation_is() {
        let counts = [100_u64, 300, 600];
        let rounds = 20_000_u64;
        let mut seen = [[0_u64; 3]; 3];
        for seed in 0..rounds {
            let share = Share {
                counts: counts.to_vec(),
                batch_size: 50,
                seed,
            };
            let mut walk = Proportional.begin(&share).unwrap();
            let first = walk.next().unwrap().unwrap().relation as usize;
            let second = walk.next().unwrap().unwrap().relation as usize;
            seen[first][second] += 1;
        }
        let mut chi = 0.0;
        for first in 0..3 {
            for second in 0..3 {
                let left = counts[second] - if first == second { 50 } else { 0 };
                let likely = counts[first] as f64 / 1000.0 * (left as f64 / 950.0);
                let expected = likely * rounds as f64;
                chi += (seen[first][second] as f64 - expected).powi(2) / expected;
            }
        }
        // 8 degrees of freedom; 26.1 is the 0.1 % point.
        assert!(chi < 26.1, "{chi}: {seen:?}");
    }

    proptest! {
        #[test]
        fn every_edge_is_drawn(
            counts in proptest::collection::vec(0_u64..300, 0..30), batch_size in 1_u32..200, seed: u64,
        ) {
            testing::assert_draws::<Proportional>(&Share { counts, batch_size, seed });
        }
    }
}
