//! Length of a run in epochs, edges and batches. Strategies receive it before the first batch.

use pbg_core::batching;
use pbg_core::schedule::RunExtent;
use pbg_core::strategy::RunLength;
use pbg_dataset::EdgeSet;
use pbg_model::resolved::ResolvedConfig;

/// Rules by which the edges of a bucket are divided into batches.
#[derive(Clone, Copy, Debug)]
struct Batches {
    /// Number of relations; 1 if a batch may have edges of several relations.
    relations: u64,
    /// Largest number of edges in a batch.
    size: u64,
    /// Number of shares of a bucket.
    shares: usize,
}

impl Batches {
    /// Returns an upper bound of the number of batches of a bucket with `edges` edges. With one relation, it is the
    /// exact number.
    fn of(self, edges: u64) -> u64 {
        let of_share = |share: u64| {
            let present = self.relations.min(share);
            // The sum of `count.div_ceil(size)` over the relations is largest if each count is a multiple of `size`
            // plus 1.
            share.saturating_add(present.saturating_mul(self.size - 1)) / self.size
        };
        let shares = batching::shares(edges as usize, self.shares);
        shares.map(|share| of_share(share.len() as u64)).sum()
    }
}

/// Returns the length of the run of `resolved` over `edge_sets`, with `shares` shares of each bucket.
pub(crate) fn run_length(
    resolved: &ResolvedConfig,
    edge_sets: &[EdgeSet],
    extent: RunExtent,
    shares: usize,
) -> RunLength {
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let of = Batches {
        relations: match blueprint.spec.is_dynamic() {
            true => 1,
            false => blueprint.spec.relation_count() as u64,
        },
        size: u64::from(config.batch_size.max(1)),
        shares,
    };
    let (mut edges, mut batches) = (0_u64, 0_u64);
    for (set, bucket) in edge_sets.iter().flat_map(|set| {
        set.filled_buckets()
            .into_iter()
            .map(move |bucket| (set, bucket))
    }) {
        let len = set.bucket_len(bucket);
        let chunks = 0..extent.edge_chunks;
        let chunks = chunks.map(|chunk| batching::chunk_range(len, chunk, extent.edge_chunks));
        for rows in chunks.take_while(|rows| !rows.is_empty()) {
            let rows = rows.end - rows.start;
            let trained = rows - batching::held_out(rows, config.eval_fraction);
            edges += trained;
            batches += of.of(trained);
        }
    }
    RunLength {
        epochs: extent.epochs.max(1),
        edges_per_epoch: edges.max(1),
        batches: batches.saturating_mul(u64::from(extent.epochs)).max(1),
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::batching::{ByRelation, shares, shuffle};
    use pbg_core::seed::{StreamPurpose, stream};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_run_has_more_batches_and_with_one_relation_none_has_fewer(
            relations in 1_u32..6,
            rel in proptest::collection::vec(0_u32..6, 0..200),
            size in 1_u64..30,
            workers in 1_usize..7,
            seed in any::<u64>(),
        ) {
            let rel: Vec<u32> = rel.into_iter().map(|r| r % relations).collect();
            let mut order: Vec<u32> = (0..rel.len() as u32).collect();
            shuffle(&mut order, &mut stream(seed, StreamPurpose::Shuffle, &[]));
            let count = |share: std::ops::Range<usize>| -> u64 {
                let groups = ByRelation::new(&order[share], &rel, relations as usize);
                groups.counts().iter().map(|count| count.div_ceil(size)).sum()
            };
            let trained: u64 = shares(order.len(), workers).map(count).sum();
            let of = Batches { relations: relations.into(), size, shares: workers };
            let told = of.of(order.len() as u64);
            prop_assert!(trained <= told, "{} of {}", trained, told);
            prop_assert!(relations > 1 || trained == told, "{} of {}", trained, told);
        }
    }
}
