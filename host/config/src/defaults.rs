//! Default values of keys, equal to those of PBG where PBG has the key.

/// Default value of `loss_fn`.
pub const DEFAULT_LOSS: &str = "ranking";
/// Default value of `bucket_order`.
pub const DEFAULT_ORDER: &str = "inside_out";
/// Default value of `relation_sampler`.
pub const DEFAULT_SAMPLER: &str = "proportional";
/// Default value of `negative_sampler`.
pub const DEFAULT_NEGATIVES: &str = "uniform_negatives";

/// Returns a number that is the default of a key.
pub(super) const fn count<const N: u32>() -> u32 {
    N
}

pub(super) fn edge_sets() -> Vec<String> {
    vec!["train".to_owned()]
}

pub(super) fn init_scale() -> f32 {
    1e-3
}

pub(super) fn comparator() -> String {
    "cos".to_owned()
}

pub(super) fn loss_fn() -> String {
    DEFAULT_LOSS.to_owned()
}

pub(super) fn operator() -> String {
    "none".to_owned()
}

pub(super) const fn max_edges_per_chunk() -> u64 {
    1_000_000_000
}

pub(super) fn bucket_order() -> String {
    DEFAULT_ORDER.to_owned()
}

pub(super) fn relation_sampler() -> String {
    DEFAULT_SAMPLER.to_owned()
}

pub(super) fn negative_sampler() -> String {
    DEFAULT_NEGATIVES.to_owned()
}

pub(super) const fn tree_init() -> bool {
    true
}

pub(super) fn lr() -> f32 {
    0.01
}

pub(super) fn eval_fraction() -> f64 {
    0.05
}

pub(super) fn weight() -> f32 {
    1.0
}
