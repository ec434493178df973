//! The kinds of plugins, and the WIT worlds that they are.

use serde::{Deserialize, Serialize};

/// Which slot a plugin fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bucket order.
    Order,
    /// A relation sampler.
    Sampler,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Order, Self::Sampler];

    /// The world of a new project.
    #[must_use]
    pub const fn world(self) -> World {
        match self {
            Self::Order => World::Order,
            Self::Sampler => World::Sampler,
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
}

impl World {
    /// Its name in WIT.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Sampler => "sampler",
        }
    }
}
