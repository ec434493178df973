//! `[validation]`: ranking of an edge set between epochs, for early stopping and learning rate decay.

use pbg_core::plateau::PlateauRules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ranking of an edge set between epochs, for early stopping and learning rate decay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Edge set to rank: both sides of each edge, filtered, as `pbg-host eval` ranks them.
    #[schemars(length(min = 1), extend("x-unset" = "no validation"))]
    pub edges: Option<String>,
    /// Edge sets whose edges do not count as negatives.
    #[schemars(extend("x-unset" = "`edge_sets` and `validation.edges`"))]
    pub filter: Option<Vec<String>>,
    /// Number of epochs between two rankings.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub interval: u32,
    /// Maximum number of edges to rank, chosen at random but the same each time.
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "all"))]
    pub limit: Option<u32>,
    /// Number of random entities among which each edge is ranked, the same each time.
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "all entities"))]
    pub candidates: Option<u32>,
    /// Number of rankings in a row without a higher MRR after which training ends. The checkpoint with the highest MRR
    /// is kept in the folder `best` of the checkpoint, which `--best` uses.
    #[schemars(range(min = 1, max = 1_000_000_000), extend("x-unset" = "training ends after `num_epochs`", "x-rule" = "needs `validation.edges`"))]
    pub early_stop: Option<u32>,
    /// Factor of both learning rates after `lr_patience` rankings in a row without a higher MRR.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1, "x-unset" = "constant learning rates", "x-rule" = "needs `validation.edges`"))]
    pub lr_decay: Option<f32>,
    /// Number of rankings in a row without a higher MRR after which `lr_decay` applies.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub lr_patience: u32,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            edges: None,
            filter: None,
            interval: 1,
            limit: None,
            candidates: None,
            early_stop: None,
            lr_decay: None,
            lr_patience: 2,
        }
    }
}

impl ValidationConfig {
    /// Returns the rules of early stopping and learning rate decay.
    #[must_use]
    pub fn rules(&self) -> PlateauRules {
        PlateauRules {
            early_stop: self.early_stop,
            lr_decay: self.lr_decay,
            lr_patience: self.lr_patience,
        }
    }
}
