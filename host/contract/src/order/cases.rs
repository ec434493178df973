//! Passes that differ in everything that a plan may depend on.

use pbg_core::graph::Side;
use pbg_core::strategy::Pass;

/// Shapes of grids: 1 x n, n x 1, square and others.
const GRIDS: [(u32, u32); 9] = [
    (1, 1),
    (1, 7),
    (7, 1),
    (2, 2),
    (3, 5),
    (5, 3),
    (4, 4),
    (8, 8),
    (16, 16),
];

/// Returns the passes of every grid with every seed, one seed after the other.
pub(crate) fn passes(seeds: &[u64]) -> Vec<Pass> {
    seeds.iter().flat_map(|&seed| of_seed(seed)).collect()
}

fn of_seed(seed: u64) -> Vec<Pass> {
    let mut passes = Vec::new();
    for (lhs, rhs) in GRIDS {
        for buffer in [2, 3, 8] {
            passes.push(uniform(lhs, rhs, buffer, seed));
        }
        let mut bipartite = uniform(lhs, rhs, 4, seed);
        bipartite.shared = false;
        bipartite.resident = vec![(Side::Rhs, rhs - 1), (Side::Lhs, 0)];
        passes.push(bipartite);
        passes.push(sparse(lhs, rhs, seed));
    }
    // A pass in which one side always stays in memory, and one without edges.
    let mut still = uniform(6, 1, 2, seed);
    still.rhs_bytes = vec![0];
    let mut empty = uniform(3, 3, 2, seed);
    empty.edges.fill(0);
    passes.extend([still, empty]);
    passes
}

/// Creates a pass with the same number of edges in each bucket, the same size of each partition, and nothing resident.
/// Sides are shared if the grid is square.
pub(crate) fn uniform(lhs: u32, rhs: u32, buffer: u32, seed: u64) -> Pass {
    Pass {
        lhs_partitions: lhs,
        rhs_partitions: rhs,
        shared: lhs == rhs,
        edges: vec![100_000; (lhs * rhs) as usize],
        lhs_bytes: vec![64 << 20; lhs as usize],
        rhs_bytes: vec![64 << 20; rhs as usize],
        buffer_partitions: buffer,
        resident: Vec::new(),
        epoch: 0,
        edge_set: 0,
        edge_chunk: 0,
        seed,
    }
}

/// Creates a pass in the middle of a run, with uneven buckets, a third of them empty, and resident partitions.
fn sparse(lhs: u32, rhs: u32, seed: u64) -> Pass {
    let mut pass = uniform(lhs, rhs, 2, seed);
    for (index, edges) in pass.edges.iter_mut().enumerate() {
        let index = index as u64;
        *edges = if index % 3 == 1 { 0 } else { index * index + 1 };
    }
    pass.resident = vec![(Side::Lhs, lhs - 1)];
    (pass.epoch, pass.edge_set, pass.edge_chunk) = (2, 1, 3);
    pass
}

/// Describes a pass in a few words, for messages.
pub(crate) fn named(pass: &Pass) -> String {
    format!(
        "grid {}x{}{}, buffer {}, seed {}, {} edges, {} resident",
        pass.lhs_partitions,
        pass.rhs_partitions,
        if pass.shared { "" } else { " bipartite" },
        pass.buffer_partitions,
        pass.seed,
        pass.edges.iter().sum::<u64>(),
        pass.resident.len()
    )
}
