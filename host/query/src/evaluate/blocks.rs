//! Division of the edges to rank into blocks, which several processes share.

use pbg_ledger::MAX_BLOCKS;

use super::edges::EDGES;

/// Smallest size of a block in edges, if there are several: each block has to read every table once.
const FEWEST: u64 = 128;

/// Returns the number of blocks for `edges` edges and `trainers` trainers: one for each trainer, but with at least
/// [`FEWEST`] edges, and at most [`EDGES`], the number that one machine sums up together. Only if there were more than
/// [`MAX_BLOCKS`] blocks, they are larger.
#[must_use]
pub fn block_count(edges: u64, trainers: u64) -> u32 {
    let even = edges.div_ceil(trainers.max(1)).clamp(FEWEST, EDGES);
    let most = u64::from(MAX_BLOCKS);
    let size = match edges.div_ceil(even) <= most {
        true => even,
        false => edges.div_ceil(most).next_multiple_of(EDGES),
    };
    edges.div_ceil(size) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trainer_has_a_block_that_is_worth_while() {
        for (edges, trainers, expected) in [
            (1, 4, 1),
            (FEWEST, 4, 1),
            (FEWEST + 1, 4, 2),
            (1000, 1, 1),
            (1000, 4, 4),
            (1001, 4, 4),
            (EDGES, 1, 1),
            (EDGES + 1, 1, 2),
            (10 * EDGES, 4, 10),
            (u64::from(MAX_BLOCKS) * EDGES, 3, MAX_BLOCKS),
            (u64::from(MAX_BLOCKS) * EDGES + 1, 3, 129),
        ] {
            assert_eq!(
                block_count(edges, trainers),
                expected,
                "{edges} for {trainers}"
            );
        }
        for edges in (1..5_000_000_u64).step_by(7919) {
            for trainers in [1, 2, 7, 256] {
                let blocks = u64::from(block_count(edges, trainers));
                assert!(blocks <= u64::from(MAX_BLOCKS));
                // No block is empty.
                assert!((blocks - 1) * edges.div_ceil(blocks) < edges);
            }
        }
    }
}
