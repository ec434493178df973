//! Kinds of plugins, and their WIT worlds.

use serde::{Deserialize, Serialize};

/// Kind of a new plugin: the strategy that it implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectKind {
    /// A bucket order.
    Order,
    /// A relation sampler.
    Sampler,
    /// A loss given as a formula.
    Loss,
    /// A loss computed by code.
    ComputedLoss,
    /// An operator given as a formula.
    Operator,
}

impl ProjectKind {
    /// All kinds.
    pub const ALL: [Self; 5] = [
        Self::Order,
        Self::Sampler,
        Self::Loss,
        Self::ComputedLoss,
        Self::Operator,
    ];

    /// Returns the WIT world of a new project of this kind.
    #[must_use]
    pub const fn world(self) -> World {
        match self {
            Self::Order => World::Order,
            Self::Sampler => World::Sampler,
            Self::Loss => World::TracedLoss,
            Self::ComputedLoss => World::ComputedLoss,
            Self::Operator => World::TracedOperator,
        }
    }
}

/// World of the WIT package `pbg:plugin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// A bucket order.
    Order,
    /// A relation sampler.
    Sampler,
    /// A loss given as a formula.
    TracedLoss,
    /// A loss computed by code.
    ComputedLoss,
    /// An operator given as a formula.
    TracedOperator,
}

impl World {
    /// Returns the name of the world in WIT.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Sampler => "sampler",
            Self::TracedLoss => "traced-loss",
            Self::ComputedLoss => "computed-loss",
            Self::TracedOperator => "traced-operator",
        }
    }
}
