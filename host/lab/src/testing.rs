//! Grids and plans for tests.

use pbg_core::graph::{Bucket, Side};
use pbg_core::strategy::Pass;
use proptest::prelude::*;

/// Returns a full grid with shared sides and one edge in each bucket.
pub(crate) fn pass(partitions: u32, buffer: u32) -> Pass {
    Pass {
        lhs_partitions: partitions,
        rhs_partitions: partitions,
        shared: true,
        edges: vec![1; (partitions * partitions) as usize],
        lhs_bytes: vec![100; partitions as usize],
        rhs_bytes: vec![100; partitions as usize],
        buffer_partitions: buffer,
        resident: Vec::new(),
        epoch: 0,
        edge_set: 0,
        edge_chunk: 0,
        seed: 0,
    }
}

/// Returns all buckets row by row.
pub(crate) fn lexicographic(n: u32) -> Vec<Bucket> {
    (0..n)
        .flat_map(|l| (0..n).map(move |r| Bucket::new(l, r)))
        .collect()
}

prop_compose! {
    /// Generates a random plan, and a grid of any shape with empty buckets, partitions of different sizes and resident
    /// partitions.
    pub(crate) fn any_pass_and_plan()(
        lhs in 1_u32..9, other in 1_u32..9, shared: bool, buffer in 2_u32..7, seed: u64,
        sizes in proptest::collection::vec(1_u64..50, 16),
        edges in proptest::collection::vec(0_u64..4, 64),
        resident in proptest::collection::vec((any::<bool>(), 0_u32..9), 0..4),
    ) -> (Pass, Vec<Bucket>) {
        let rhs = if shared { lhs } else { other };
        let of = |from: usize, n: u32| sizes[from..from + n as usize].to_vec();
        let lhs_bytes = of(0, lhs);
        let rhs_bytes = if shared { lhs_bytes.clone() } else { of(8, rhs) };
        let mut held = Vec::new();
        for (left, p) in resident {
            let (side, n) = if left || shared { (Side::Lhs, lhs) } else { (Side::Rhs, rhs) };
            if p < n && !held.contains(&(side, p)) && held.len() < buffer as usize {
                held.push((side, p));
            }
        }
        let mut plan: Vec<Bucket> = (0..lhs)
            .flat_map(|l| (0..rhs).map(move |r| Bucket::new(l, r)))
            .collect();
        let mut rng = pbg_core::seed::stream(seed, pbg_core::seed::StreamPurpose::Order, &[]);
        let mut order: Vec<u32> = (0..plan.len() as u32).collect();
        pbg_core::batching::shuffle(&mut order, &mut rng);
        plan = order.into_iter().map(|i| plan[i as usize]).collect();
        let pass = Pass {
            lhs_partitions: lhs,
            rhs_partitions: rhs,
            shared,
            edges: edges[..(lhs * rhs) as usize].to_vec(),
            lhs_bytes,
            rhs_bytes,
            buffer_partitions: buffer,
            resident: held,
            epoch: 0,
            edge_set: 0,
            edge_chunk: 0,
            seed,
        };
        (pass, plan)
    }
}
