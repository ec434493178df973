//! Losses in the sandbox: graphs that the host executes, and code that the host calls.

mod computed;
mod graph;
mod traced;

use pbg_core::loss::TracedLoss;
use pbg_core::strategy::{Loss as _, StrategyId};

pub use computed::ComputedLossPlugin;
pub(crate) use computed::load as load_computed;
pub(crate) use traced::load as load_traced;

/// A loss that is a component.
pub enum LoadedLoss {
    /// Its checked graph; the sandbox is entered again only to update parameters.
    Traced(TracedLoss),
    /// Code that is called for every slice of a batch.
    Computed(ComputedLossPlugin),
}

impl LoadedLoss {
    /// Returns the identity of the loss.
    #[must_use]
    pub fn id(&self) -> &StrategyId {
        match self {
            Self::Traced(loss) => &loss.id,
            Self::Computed(loss) => loss.id(),
        }
    }
}
