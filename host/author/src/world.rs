//! The kinds of plugins, and the WIT worlds that they are.

use serde::{Deserialize, Serialize};

/// Which slot a plugin fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectKind {
    /// A bucket order.
    Order,
    /// A relation sampler.
    Sampler,
    /// A loss as a formula.
    Loss,
    /// A loss as code.
    ComputedLoss,
    /// An operator as a formula.
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

    /// The world of a new project.
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

/// A world of the package `pbg:plugin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// A bucket order.
    Order,
    /// A relation sampler.
    Sampler,
    /// A loss as a formula.
    TracedLoss,
    /// A loss as code.
    ComputedLoss,
    /// An operator as a formula.
    TracedOperator,
}

impl World {
    /// Its name in WIT.
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
