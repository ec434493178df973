//! The slots that a plugin can fill.

use serde::{Deserialize, Serialize};

/// Slot that a plugin fills: the kind of strategy that its component exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PluginSlot {
    /// Order in which buckets are trained.
    BucketOrder,
    /// Choice of the relation type of each batch.
    RelationSampler,
    /// Loss given as a graph.
    TracedLoss,
    /// Loss computed by code.
    ComputedLoss,
    /// Operator given as a formula.
    TracedOperator,
    /// Comparator of embeddings, given as a formula.
    Comparator,
    /// Choice of the entities from which negatives are drawn.
    NegativeSampler,
    /// Choice of the negatives of each chunk.
    NegativeSelector,
    /// Factors of the learning rates over a run.
    RateSchedule,
}

impl PluginSlot {
    /// All slots.
    pub const ALL: [Self; 9] = [
        Self::BucketOrder,
        Self::RelationSampler,
        Self::TracedLoss,
        Self::ComputedLoss,
        Self::TracedOperator,
        Self::Comparator,
        Self::NegativeSampler,
        Self::NegativeSelector,
        Self::RateSchedule,
    ];

    /// Returns the names of the interfaces of which an export makes a component fill this slot, the newest first.
    pub(crate) fn interfaces(self) -> &'static [&'static str] {
        match self {
            Self::BucketOrder => &["bucket-order"],
            Self::RelationSampler => &["relation-sampler"],
            Self::TracedLoss => &["loss-traced"],
            Self::ComputedLoss => &["loss-computed"],
            Self::TracedOperator => &["operator-formula", "operator-traced"],
            Self::Comparator => &["comparator-formula"],
            Self::NegativeSampler => &["negative-distribution"],
            Self::NegativeSelector => &["negative-selection"],
            Self::RateSchedule => &["learning-rate-schedule"],
        }
    }
}

impl PluginSlot {
    /// Returns what plugins of this slot are for a run: the same for slots whose plugins can replace each other.
    #[must_use]
    pub fn role(self) -> &'static str {
        match self {
            Self::BucketOrder => "bucket order",
            Self::RelationSampler => "relation sampler",
            Self::NegativeSampler | Self::NegativeSelector => "negative sampler or selector",
            Self::TracedLoss | Self::ComputedLoss => "loss",
            Self::TracedOperator => "operator",
            Self::Comparator => "comparator",
            Self::RateSchedule => "learning rate schedule",
        }
    }
}

impl std::fmt::Display for PluginSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::BucketOrder => "bucket order",
            Self::RelationSampler => "relation sampler",
            Self::TracedLoss => "traced loss",
            Self::ComputedLoss => "computed loss",
            Self::TracedOperator => "traced operator",
            Self::Comparator => "comparator",
            Self::NegativeSampler => "negative sampler",
            Self::NegativeSelector => "negative selector",
            Self::RateSchedule => "learning rate schedule",
        })
    }
}
