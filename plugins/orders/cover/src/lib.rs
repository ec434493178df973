//! COVER: states of the buffer from block designs, in rounds that several trainers can share.
//!
//! Source: the order of that name in GE2 (Zheng et al., "GE2: A General and Efficient Knowledge
//! Graph Embedding Learning System", SIGMOD 2024), which defines it for buffers of four and `p = 4^k`
//! or `2 · 4^k` partitions. Its states are the lines of the affine space over the field of four
//! elements. Any two points are on exactly one line, and the lines of one direction are disjoint and
//! contain every point, so they form a round. This works for every field and, with other resolvable
//! designs, for the sizes in between; the [`designs`] module describes the choice. Partitions are
//! numbered at random in each pass, and a bucket is trained in the first state that holds its
//! partitions.
//!
//! With `p = q^k` and a buffer of `q` there are `(p - 1) / (q - 1)` rounds of `p / q` states, and each
//! pair of partitions meets exactly once, the minimum for sequences that replace the whole buffer. For
//! one trainer these are too many loads (60 swaps at `p = 16, c = 4`, where `beta` makes 42); for
//! `p / q` trainers it is optimal.
//!
//! The parameter `sequence` sets the sequence of the states: `chained` continues with the state that
//! shares the most partitions with the previous one, for one trainer; `rounds` keeps rounds together,
//! for several trainers; `shuffled` is random.

use pbg_order_plans::cover::Sequence;
use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order};
use serde::Deserialize;

/// The order.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Cover {
    sequence: Sequence,
}

impl Order for Cover {
    fn metadata() -> Metadata {
        Metadata::new(
            "cover",
            env!("CARGO_PKG_VERSION"),
            "GE2's order of buffer states from block designs, for every buffer size.",
        )
        .parameter(Parameter::choice(
            "sequence",
            &["chained", "rounds", "shuffled"],
            "Sequence of the states: each shares the most partitions with the previous one (for one trainer), \
             rounds of disjoint states (for several trainers), or random.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::cover::plan(pass, self.sequence))
    }
}

export_order!(Cover);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Cover>();
    }

    fn swaps(sequence: Sequence, p: u32, c: u32) -> u64 {
        let mut pass = Pass::uniform(p, p, 1);
        pass.buffer_partitions = c;
        let plan = Cover { sequence }.plan(&pass).expect("it plans");
        pass.traffic(&plan).swaps
    }

    #[test]
    fn chains_reuse_a_partition_at_each_step() {
        // 20 lines of 4 points; a line that is not parallel to the last one shares a point with it.
        assert!(swaps(Sequence::Chained, 16, 4) <= 19 * 3 + 4);
        assert!(swaps(Sequence::Chained, 64, 4) <= swaps(Sequence::Shuffled, 64, 4));
    }

    #[test]
    fn rounds_stay_together() {
        let mut pass = Pass::uniform(16, 16, 1);
        pass.buffer_partitions = 4;
        let mut cover = Cover {
            sequence: Sequence::Rounds,
        };
        let plan = cover.plan(&pass).expect("it plans");
        // The first round trains 4 states of 16 buckets that meet every partition once.
        let mut ends: Vec<u32> = plan[..64].iter().step_by(16).map(|b| b.lhs).collect();
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), 4);
        for state in plan[..64].chunks(16) {
            let mut held: Vec<u32> = state.iter().flat_map(|b| [b.lhs, b.rhs]).collect();
            held.sort_unstable();
            held.dedup();
            assert_eq!(held.len(), 4);
        }
    }
}
