//! Default values of keys, equal to those of PBG where PBG has the key.

/// Default value of `loss_fn`.
pub const DEFAULT_LOSS: &str = "ranking";
/// Default value of `bucket_order`.
pub const DEFAULT_ORDER: &str = "inside_out";
/// Default value of `relation_sampler`.
pub const DEFAULT_SAMPLER: &str = "proportional";

pub(super) fn edge_sets() -> Vec<String> {
    vec!["train".to_owned()]
}

pub(super) fn init_scale() -> f32 {
    1e-3
}

pub(super) fn loss_fn() -> String {
    DEFAULT_LOSS.to_owned()
}

pub(super) fn operator() -> String {
    "none".to_owned()
}

pub(super) fn num_epochs() -> u32 {
    1
}

pub(super) fn max_edges_per_chunk() -> u64 {
    1_000_000_000
}

pub(super) fn bucket_order() -> String {
    DEFAULT_ORDER.to_owned()
}

pub(super) const fn num_machines() -> u32 {
    1
}

pub(super) const fn tree_init() -> bool {
    true
}

pub(super) const fn lease() -> f64 {
    30.0
}

pub(super) const fn heartbeat() -> f64 {
    2.0
}

pub(super) const fn patience() -> f64 {
    600.0
}

pub(super) const fn sync_rounds() -> f64 {
    100.0
}

pub(super) const fn sync_bytes() -> f64 {
    1e9
}

pub(super) const fn replicas() -> u32 {
    1
}

pub(super) fn device() -> String {
    "cpu".to_owned()
}

pub(super) fn prefetch() -> bool {
    true
}

pub(super) fn relation_sampler() -> String {
    DEFAULT_SAMPLER.to_owned()
}

pub(super) fn buffer_partitions() -> u32 {
    2
}

pub(super) fn batch_size() -> u32 {
    1000
}

pub(super) fn num_batch_negs() -> u32 {
    50
}

pub(super) fn num_uniform_negs() -> u32 {
    50
}

pub(super) fn lr() -> f32 {
    0.01
}

pub(super) fn eval_fraction() -> f64 {
    0.05
}

pub(super) fn eval_negs() -> u32 {
    1000
}

pub(super) fn validation_interval() -> u32 {
    1
}

pub(super) fn lr_patience() -> u32 {
    2
}

pub(super) fn weight() -> f32 {
    1.0
}
