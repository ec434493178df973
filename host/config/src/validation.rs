//! `[validation]`: ranks between epochs, and what follows from them.

use pbg_core::plateau::Rules;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default;

/// Ranks of an edge set between epochs, and what follows from them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidationConfig {
    /// Edge set that is ranked: both sides of each edge, filtered, as `pbg-host eval` ranks them.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-unset" = "no validation"))]
    pub edges: Option<String>,
    /// Edge sets whose edges are no wrong candidates.
    #[serde(default)]
    #[schemars(extend("x-unset" = "`edge_sets` and `validation.edges`"))]
    pub filter: Option<Vec<String>>,
    /// Epochs between two rankings.
    #[serde(default = "default::validation_interval")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub interval: u32,
    /// Ranks at most this many edges, the same random ones each time.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "all"))]
    pub limit: Option<u32>,
    /// Ranks each edge among this many random entities, the same ones each time.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_648_u32), extend("x-unset" = "all entities"))]
    pub candidates: Option<u32>,
    /// Ends training after this many rankings in a row without a higher MRR. The checkpoint with
    /// the highest one is kept in the folder `best` of the checkpoint, which `--best` uses.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000), extend("x-unset" = "training ends after `num_epochs`", "x-rule" = "needs `validation.edges`"))]
    pub early_stop: Option<u32>,
    /// Multiplies both learning rates after `lr_patience` rankings in a row without a higher MRR.
    #[serde(default)]
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1, "x-unset" = "learning rates stay", "x-rule" = "needs `validation.edges`"))]
    pub lr_decay: Option<f32>,
    /// See `lr_decay`.
    #[serde(default = "default::lr_patience")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub lr_patience: u32,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            edges: None,
            filter: None,
            interval: default::validation_interval(),
            limit: None,
            candidates: None,
            early_stop: None,
            lr_decay: None,
            lr_patience: default::lr_patience(),
        }
    }
}

impl ValidationConfig {
    /// What follows from the ranks.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules {
            early_stop: self.early_stop,
            lr_decay: self.lr_decay,
            lr_patience: self.lr_patience,
        }
    }
}
