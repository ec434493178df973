//! MariusGNN's COMET: BETA over random groups of partitions.

use pbg_plugin_sdk::{Bucket, Pass, Rng, Side, states};

/// Returns the plan of `comet`, with groups of `fine_to_coarse_ratio` partitions; 0 means half the buffer.
#[must_use]
pub fn plan(pass: &Pass, fine_to_coarse_ratio: usize) -> Vec<Bucket> {
    let mut rng = pass.rng();
    let half = (pass.buffer_partitions as usize / 2).max(1);
    let ratio = match fine_to_coarse_ratio {
        0 => half,
        ratio => ratio.min(half),
    };
    let lhs = groups(pass, Side::Lhs, ratio, &mut rng);
    let rhs = groups(pass, Side::Rhs, ratio, &mut rng);
    let mut coarse = Pass::uniform(lhs.len() as u32, rhs.len() as u32, pass.seed);
    coarse.shared = pass.shared;
    coarse.buffer_partitions = pass.buffer_partitions / ratio as u32;
    let groups = if pass.shared {
        lhs
    } else {
        [lhs, rhs].concat()
    };

    let coarse_states = states::elimination(&coarse, &mut rng);
    let fine = |state: &Vec<usize>| state.iter().flat_map(|&g| groups[g].clone()).collect();
    let states: Vec<Vec<usize>> = coarse_states.iter().map(fine).collect();
    states::assign_at_random(pass, &states, &mut rng)
}

/// Divides the partitions of one side into random groups of at most `ratio` partitions, whose sizes
/// differ by at most one.
fn groups(pass: &Pass, side: Side, ratio: usize, rng: &mut Rng) -> Vec<Vec<usize>> {
    let number = match side {
        Side::Lhs => pass.lhs_partitions,
        Side::Rhs => pass.rhs_partitions,
    };
    let mut partitions: Vec<usize> = (0..number).map(|p| pass.partition(side, p)).collect();
    rng.shuffle(&mut partitions);
    let groups = partitions.len().div_ceil(ratio);
    let start = |group: usize| group * partitions.len() / groups;
    (0..groups)
        .map(|group| partitions[start(group)..start(group + 1)].to_vec())
        .collect()
}
