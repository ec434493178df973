//! Orders that walk over the grid without regard to the buffer.

use pbg_plugin_sdk::{Bucket, Pass};

/// Returns the plan of `lexicographic`: the grid row by row.
#[must_use]
pub fn lexicographic(pass: &Pass) -> Vec<Bucket> {
    pass.grid()
}

/// Returns the plan of `snake`: the grid row by row, every second row backwards.
#[must_use]
pub fn snake(pass: &Pass) -> Vec<Bucket> {
    let mut plan = pass.grid();
    let backwards = plan
        .chunks_mut(pass.rhs_partitions as usize)
        .skip(1)
        .step_by(2);
    backwards.for_each(<[Bucket]>::reverse);
    plan
}

/// Returns the plan of `random`: a uniform shuffle of the grid.
#[must_use]
pub fn random(pass: &Pass) -> Vec<Bucket> {
    let mut plan = pass.grid();
    pass.rng().shuffle(&mut plan);
    plan
}

/// Returns the plan of `random_symmetric`: `random`, each bucket followed by its mirror and both diagonal buckets.
#[must_use]
pub fn random_symmetric(pass: &Pass) -> Vec<Bucket> {
    pass.symmetric(&random(pass))
}

/// Returns the plan of `hilbert`: the grid along the Hilbert curve, with partitions renumbered at random.
#[must_use]
pub fn hilbert(pass: &Pass) -> Vec<Bucket> {
    pass.relabelled(&pass.hilbert_curve(), &mut pass.rng())
}

/// Returns the plan of `hilbert_symmetric`: `hilbert`, with mirrored buckets together.
#[must_use]
pub fn hilbert_symmetric(pass: &Pass) -> Vec<Bucket> {
    pass.symmetric(&hilbert(pass))
}

/// Returns the plan of `inside_out`: layers of the grid, from the last corner outwards.
#[must_use]
pub fn inside_out(pass: &Pass) -> Vec<Bucket> {
    let layers = pass.shuffled_layers(&mut pass.rng());
    layers.into_iter().rev().flatten().collect()
}

/// Returns the plan of `outside_in`: layers of the grid, from the first row and column inwards.
#[must_use]
pub fn outside_in(pass: &Pass) -> Vec<Bucket> {
    pass.shuffled_layers(&mut pass.rng()).concat()
}
