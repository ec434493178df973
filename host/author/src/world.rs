//! Kinds of plugins, each with its WIT world.

use serde::{Deserialize, Serialize};

/// Kind of a plugin: the strategy that it implements, and the world of the WIT package `pbg:plugin` that it exports.
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
    /// An operator given as an elementwise formula of one side, as projects from before [`World::Operator`] have it.
    TracedOperator,
    /// An operator given as a formula.
    Operator,
    /// A negative sampler.
    Negatives,
    /// A negative selector.
    NegativeSelector,
    /// A comparator, given as a formula.
    Comparator,
    /// A learning rate schedule.
    Schedule,
}

impl World {
    /// Kinds of new projects.
    pub const ALL: [Self; 9] = [
        Self::Order,
        Self::Sampler,
        Self::TracedLoss,
        Self::ComputedLoss,
        Self::Operator,
        Self::Negatives,
        Self::NegativeSelector,
        Self::Comparator,
        Self::Schedule,
    ];

    /// Returns the name of the world in WIT.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Sampler => "sampler",
            Self::TracedLoss => "traced-loss",
            Self::ComputedLoss => "computed-loss",
            Self::TracedOperator => "traced-operator",
            Self::Operator => "operator",
            Self::Negatives => "negatives",
            Self::NegativeSelector => "negative-selector",
            Self::Comparator => "comparator",
            Self::Schedule => "schedule",
        }
    }
}
