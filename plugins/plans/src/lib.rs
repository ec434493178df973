//! Plans of the standard bucket orders, as functions of a pass.
//!
//! The plugins in `plugins/orders` add a name, a version and parameters to these functions; their documentation has the
//! sources. They are in a crate of their own because `optimal` compares its plan with those of all others ([`PLANS`]), and
//! a component cannot contain another component.

pub mod affinity;
pub mod chained_symmetric_pairs;
pub mod comet;
pub mod cover;
pub mod grid;
pub mod legend;
pub mod overlap;
pub mod stratified;

use pbg_plugin_sdk::{Bucket, Pass, states};

/// Function that returns the plan of an order with its default parameters.
pub type PlanFunction = fn(&Pass) -> Vec<Bucket>;

/// The standard orders that do not search, by name, those that usually read the fewest bytes first.
pub const PLANS: [(&str, PlanFunction); 15] = [
    ("legend", legend::plan),
    ("beta", beta),
    ("hilbert_symmetric", grid::hilbert_symmetric),
    ("cover", |pass| cover::plan(pass, cover::Sequence::Chained)),
    ("comet", |pass| comet::plan(pass, 0)),
    ("affinity", affinity::plan),
    ("inside_out", grid::inside_out),
    ("outside_in", grid::outside_in),
    ("chained_symmetric_pairs", chained_symmetric_pairs::plan),
    ("hilbert", grid::hilbert),
    ("random_symmetric", grid::random_symmetric),
    ("snake", grid::snake),
    ("lexicographic", grid::lexicographic),
    ("stratified", |pass| stratified::plan(pass, true)),
    ("random", grid::random),
];

/// The same with parameters that are not the defaults, by name and parameters as `orders compare` takes them.
pub const VARIANTS: [(&str, PlanFunction); 7] = [
    ("beta:assignment=random", beta_at_random),
    ("comet:fine_to_coarse_ratio=1", |pass| comet::plan(pass, 1)),
    ("comet:fine_to_coarse_ratio=2", |pass| comet::plan(pass, 2)),
    ("comet:fine_to_coarse_ratio=3", |pass| comet::plan(pass, 3)),
    ("cover:sequence=rounds", |pass| {
        cover::plan(pass, cover::Sequence::Rounds)
    }),
    ("cover:sequence=shuffled", |pass| {
        cover::plan(pass, cover::Sequence::Shuffled)
    }),
    ("stratified:combine_mirrored=false", |pass| {
        stratified::plan(pass, false)
    }),
];

/// Returns the plan of `beta`: the states of BETA, each bucket in the first possible one.
#[must_use]
pub fn beta(pass: &Pass) -> Vec<Bucket> {
    states::assign_to_first(pass, &states::elimination(pass, &mut pass.rng()))
}

/// Returns the plan of `beta` with each bucket in a random one of the possible states.
#[must_use]
pub fn beta_at_random(pass: &Pass) -> Vec<Bucket> {
    let mut rng = pass.rng();
    let states = states::elimination(pass, &mut rng);
    states::assign_at_random(pass, &states, &mut rng)
}
