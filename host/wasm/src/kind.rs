//! The slots that a plugin can fill.

use serde::{Deserialize, Serialize};

use crate::bindings::{PACKAGE, VERSION};

/// Which strategy a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Slot {
    /// Decides in which order buckets are trained.
    BucketOrder,
    /// Chooses the relation of each batch.
    RelationSampler,
    /// A loss as data.
    TracedLoss,
    /// A loss as code.
    ComputedLoss,
    /// An operator as data.
    TracedOperator,
}

impl Slot {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::BucketOrder,
        Self::RelationSampler,
        Self::TracedLoss,
        Self::ComputedLoss,
        Self::TracedOperator,
    ];

    /// The interface whose export makes a component one of this kind, with its version.
    pub(crate) fn interface(self) -> String {
        let name = match self {
            Self::BucketOrder => "bucket-order",
            Self::RelationSampler => "relation-sampler",
            Self::TracedLoss => "loss-traced",
            Self::ComputedLoss => "loss-computed",
            Self::TracedOperator => "operator-traced",
        };
        format!("{PACKAGE}/{name}@{VERSION}")
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::BucketOrder => "bucket order",
            Self::RelationSampler => "relation sampler",
            Self::TracedLoss => "traced loss",
            Self::ComputedLoss => "computed loss",
            Self::TracedOperator => "traced operator",
        })
    }
}
