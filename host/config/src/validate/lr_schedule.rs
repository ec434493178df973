//! Rules of `[lr_schedule]`.

use super::{Validator, top};
use crate::Config;

impl Validator<'_> {
    /// Checks that the decay begins before it ends.
    pub(super) fn lr_schedule(&mut self) {
        let keys = &self.config.lr_schedule;
        let is_over = |end: u32| keys.warmup_epochs >= f64::from(end);
        if keys.decays() && keys.decay_epochs.is_some_and(is_over) {
            let message = format!(
                "must be more than `lr_schedule.warmup_epochs`, which is {}: otherwise learning rates would not decay",
                keys.warmup_epochs
            );
            let key = |name: &str| top("lr_schedule").join(name);
            self.report([key("decay_epochs"), key("warmup_epochs")], message);
        }
    }
}

/// Returns warnings about keys of the decay that have no effect.
pub(super) fn warnings(config: &Config) -> Vec<String> {
    let keys = &config.lr_schedule;
    let mut warnings = of_length(config);
    if let (Some(plugin), true) = (keys.plugin(), keys.final_fraction != 0.0) {
        warnings.push(format!(
            "lr_schedule.final_fraction: has no effect on the schedule `{plugin}`, which is a plugin; \
             `pbg-host plugin inspect {plugin}` lists its parameters"
        ));
    }
    warnings
}

/// Returns warnings about the epochs of the warm-up and of the decay, and its end.
fn of_length(config: &Config) -> Vec<String> {
    let keys = &config.lr_schedule;
    if keys.decays() {
        let epochs = config.num_epochs;
        let is_short = epochs > 0 && keys.warmup_epochs >= f64::from(epochs);
        let text = format!(
            "lr_schedule.warmup_epochs: is {}, and num_epochs {epochs}, so that training ends before learning rates decay",
            keys.warmup_epochs
        );
        return is_short.then_some(text).into_iter().collect();
    }
    let given = [
        ("decay_epochs", keys.decay_epochs.is_some()),
        ("final_fraction", keys.final_fraction != 0.0),
    ];
    let given = given.into_iter().filter(|(_, given)| *given);
    let text = |(name, _)| {
        format!(
            "lr_schedule.{name}: has no effect without a decay: set `lr_schedule.decay` to `linear`, `cosine` or a plugin"
        )
    };
    let mut warnings: Vec<String> = given.map(text).collect();
    if config.num_epochs > 0 && keys.warmup_epochs > f64::from(config.num_epochs) {
        warnings.push(format!(
            "lr_schedule.warmup_epochs: is {}, and num_epochs {}, so that training ends before learning rates have risen to \
             the configured ones",
            keys.warmup_epochs, config.num_epochs
        ));
    }
    warnings
}
