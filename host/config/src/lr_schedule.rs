//! `[lr_schedule]`: learning rates over a run.

use pbg_core::lr_schedule::{LrDecay, LrSchedule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;

/// Warm-up and decay of both learning rates. Every pass has one rate: that of the middle of the pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LrScheduleConfig {
    /// Number of epochs in which learning rates rise linearly from 0 to the configured ones. Fractions are possible, but
    /// take effect only where an epoch has several passes: one for each edge set and edge chunk.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub warmup_epochs: f64,
    /// Course of the learning rates after the warm-up: a built-in one, the name of a plugin or the path of a component
    /// (`*.wasm`). Built in are `constant` (they stay as configured), `linear` (they fall by the same amount in each
    /// epoch) and `cosine` (they fall along half of a cosine: slowly at first and at the end).
    #[schemars(length(min = 1))]
    pub decay: String,
    /// Number of epochs, counted from the beginning of the run, after which the decay ends. Later epochs are trained
    /// with the final learning rates.
    #[schemars(range(min = 1, max = 1_000_000_000), extend("x-unset" = "`num_epochs`"))]
    pub decay_epochs: Option<u32>,
    /// Learning rates at the end of the decay, as a fraction of the configured ones.
    #[schemars(range(min = 0, max = 1), extend("x-rule" = "for `linear` and `cosine`; plugins have parameters of their own"))]
    pub final_fraction: f64,
}

impl Default for LrScheduleConfig {
    fn default() -> Self {
        Self {
            warmup_epochs: 0.0,
            decay: LrDecay::Constant.name().to_owned(),
            decay_epochs: None,
            final_fraction: 0.0,
        }
    }
}

impl LrScheduleConfig {
    /// Whether learning rates are the same in all passes.
    pub(super) fn is_constant(&self) -> bool {
        !self.decays() && self.warmup_epochs == 0.0
    }

    /// Whether learning rates fall after the warm-up.
    pub(super) fn decays(&self) -> bool {
        self.course() != LrDecay::Constant
    }

    /// Returns the course after the warm-up.
    pub(super) fn course(&self) -> LrDecay {
        LrDecay::built_in(&self.decay).unwrap_or(LrDecay::Plugin)
    }

    /// Returns the name or path of the plugin that decides the learning rates after the warm-up, if one does.
    #[must_use]
    pub fn plugin(&self) -> Option<&str> {
        (self.course() == LrDecay::Plugin).then_some(&self.decay)
    }
}

impl Config {
    /// Returns the schedule of the learning rates; `None` if they are the same in all passes.
    #[must_use]
    pub fn lr_schedule(&self) -> Option<LrSchedule> {
        let keys = &self.lr_schedule;
        (!keys.is_constant()).then(|| LrSchedule {
            warmup_epochs: keys.warmup_epochs,
            decay: keys.course(),
            decay_epochs: keys.decay_epochs.unwrap_or(self.num_epochs),
            final_fraction: keys.final_fraction,
        })
    }

    /// Writes out the length of the decay, so that it no longer follows `num_epochs`, and resets the keys that have no
    /// effect on the configured course.
    pub fn fix_lr_schedule(&mut self) {
        let keys = &mut self.lr_schedule;
        match keys.course() {
            LrDecay::Constant => keys.decay_epochs = None,
            _ => drop(keys.decay_epochs.get_or_insert(self.num_epochs.max(1))),
        }
        if matches!(keys.course(), LrDecay::Constant | LrDecay::Plugin) {
            keys.final_fraction = 0.0;
        }
    }
}
