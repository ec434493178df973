//! Dist-KGE's stratified order: rounds of buckets that share no partition.

use pbg_plugin_sdk::{Bucket, Pass, Rng};

/// Returns the plan of `stratified`; with `combine_mirrored`, a bucket is followed by its mirror.
#[must_use]
pub fn plan(pass: &Pass, combine_mirrored: bool) -> Vec<Bucket> {
    let mut rng = pass.rng();
    let mut rounds = if pass.shared {
        let mut names: Vec<u32> = (0..pass.lhs_partitions.next_power_of_two()).collect();
        rng.shuffle(&mut names);
        diagonal(&names, combine_mirrored, &mut rng)
    } else {
        let side = pass.lhs_partitions.max(pass.rhs_partitions);
        let names: Vec<u32> = (0..side).collect();
        shifts(&names, &names, &mut rng)
    };
    for round in &mut rounds {
        round.retain(|&bucket| pass.contains(bucket));
    }
    rounds.concat()
}

/// Returns the rounds of the quadrant whose rows and columns are `names`.
fn diagonal(names: &[u32], combine_mirrored: bool, rng: &mut Rng) -> Vec<Vec<Bucket>> {
    if let [name] = *names {
        return vec![vec![Bucket::new(name, name)]];
    }
    let (a, b) = names.split_at(names.len() / 2);
    let mut rounds = shifts(a, b, rng);
    if combine_mirrored {
        for round in &mut rounds {
            *round = round.iter().flat_map(|&b| [b, b.transposed()]).collect();
        }
    } else {
        rounds.extend(shifts(b, a, rng));
    }
    let quadrants = [
        diagonal(a, combine_mirrored, rng),
        diagonal(b, combine_mirrored, rng),
    ];
    let [first, second] = quadrants;
    rounds.extend(first.into_iter().zip(second).map(|(a, b)| [a, b].concat()));
    rounds
}

/// Returns the rounds of the square of `rows` and equally many `columns`: the cyclic shifts of a
/// random permutation.
fn shifts(rows: &[u32], columns: &[u32], rng: &mut Rng) -> Vec<Vec<Bucket>> {
    let mut columns = columns.to_vec();
    rng.shuffle(&mut columns);
    let round = |shift: usize| {
        let shifted = columns.iter().cycle().skip(shift);
        rows.iter()
            .zip(shifted)
            .map(|(&row, &column)| Bucket::new(row, column))
            .collect()
    };
    (0..columns.len()).map(round).collect()
}
