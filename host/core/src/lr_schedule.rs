//! Learning rates over a run: a linear warm-up, then a constant rate, a decay or the schedule of a plugin.
//!
//! Every pass has one rate, which depends on the position of the pass in the run and on nothing else. So an interrupted
//! run, a run of several trainers and a repetition of its history on one machine train each bucket with the same rate.
//! Cosine decay is that of Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (2017), without
//! restarts.

use std::f64::consts::FRAC_PI_2;

use crate::schedule::{PassId, RunExtent};
use crate::strategy::SchedulePosition;

/// Course of the learning rates after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LrDecay {
    /// They stay as configured.
    Constant,
    /// They fall by the same amount in each epoch.
    Linear,
    /// They fall along half of a cosine: slowly at first and at the end.
    Cosine,
    /// A plugin decides.
    Plugin,
}

impl LrDecay {
    /// The courses that the program knows.
    pub const BUILT_IN: [Self; 3] = [Self::Constant, Self::Linear, Self::Cosine];

    /// Returns the built-in course of this name.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        let mut all = Self::BUILT_IN.into_iter();
        all.find(|decay| decay.name() == name)
    }

    /// Returns the name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Linear => "linear",
            Self::Cosine => "cosine",
            Self::Plugin => "plugin",
        }
    }
}

/// Factor of the learning rates in a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PassFactor {
    /// A number.
    Known(f32),
    /// The answer of the plugin at this position.
    Asked(SchedulePosition),
}

/// Factor of the learning rates of a configuration, as a function of the position in the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrSchedule {
    /// Number of epochs in which the factor rises from 0 to 1.
    pub warmup_epochs: f64,
    /// Course after the warm-up.
    pub decay: LrDecay,
    /// Number of epochs, counted from the beginning of the run, after which the decay ends.
    pub decay_epochs: u32,
    /// Factor at the end of the decay and after it.
    pub final_fraction: f64,
}

impl LrSchedule {
    /// Returns the factor of all batches of `pass`: that of the middle of the pass.
    #[must_use]
    pub fn factor(&self, pass: PassId, extent: RunExtent) -> PassFactor {
        let epochs = middle(pass, extent);
        if epochs < self.warmup_epochs {
            return PassFactor::Known((epochs / self.warmup_epochs) as f32);
        }
        match self.decay {
            LrDecay::Plugin => PassFactor::Asked(self.position(epochs)),
            _ => PassFactor::Known(self.after_warmup(epochs) as f32),
        }
    }

    /// Returns the position of a schedule that is asked after `epochs` epochs.
    fn position(&self, epochs: f64) -> SchedulePosition {
        let end = f64::from(self.decay_epochs).max(self.warmup_epochs);
        SchedulePosition {
            epoch: epochs.min(end),
            start: self.warmup_epochs,
            end,
        }
    }

    /// Returns the factor of a built-in course after `epochs` epochs, when the warm-up is over.
    fn after_warmup(&self, epochs: f64) -> f64 {
        let length = f64::from(self.decay_epochs) - self.warmup_epochs;
        let left = match epochs < f64::from(self.decay_epochs) {
            true => 1.0 - (epochs - self.warmup_epochs) / length,
            false => 0.0,
        };
        let share = match self.decay {
            LrDecay::Constant | LrDecay::Plugin => return 1.0,
            LrDecay::Linear => left,
            // (1 + cos(pi (1 - x))) / 2 = sin(pi x / 2)^2, which is exact near 0.
            LrDecay::Cosine => sine(FRAC_PI_2 * left).powi(2),
        };
        self.final_fraction + (1.0 - self.final_fraction) * share
    }
}

/// Returns the number of epochs from the beginning of the run to the middle of `pass`.
fn middle(pass: PassId, extent: RunExtent) -> f64 {
    let chunks = f64::from(extent.edge_chunks.max(1));
    let passes = f64::from(extent.edge_sets.max(1)) * chunks;
    let number = f64::from(pass.edge_set) * chunks + f64::from(pass.edge_chunk);
    f64::from(pass.epoch) + (number + 0.5) / passes
}

/// Returns the sine of an angle from 0 to pi / 2, by its Taylor series. All machines return the same bits, which is not
/// guaranteed for `f64::sin`.
fn sine(x: f64) -> f64 {
    let terms = (1..12).scan(x, |term, n| {
        *term *= -x * x / f64::from(2 * n * (2 * n + 1));
        Some(*term)
    });
    terms.fold(x, |sum, term| sum + term)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE_PASS: RunExtent = RunExtent {
        epochs: 0,
        edge_sets: 1,
        edge_chunks: 1,
    };

    fn epoch(epoch: u32) -> PassId {
        PassId {
            epoch,
            ..PassId::default()
        }
    }

    fn known(schedule: &LrSchedule, pass: PassId, extent: RunExtent) -> f32 {
        match schedule.factor(pass, extent) {
            PassFactor::Known(factor) => factor,
            PassFactor::Asked(position) => panic!("asked at {position}"),
        }
    }

    /// The factors of the first `count` epochs of one pass each, rounded to four digits.
    fn factors(schedule: LrSchedule, count: u32) -> Vec<f32> {
        let factor = |n| known(&schedule, epoch(n), ONE_PASS);
        let rounded = |x: f32| (x * 1e4).round() / 1e4;
        (0..count).map(factor).map(rounded).collect()
    }

    #[test]
    fn schedules_by_hand() {
        let linear = LrSchedule {
            warmup_epochs: 2.0,
            decay: LrDecay::Linear,
            decay_epochs: 6,
            final_fraction: 0.2,
        };
        // In the middle of the epochs: 0.5 / 2, 1.5 / 2, then 1 - 0.8 x with x = 1/8, 3/8, 5/8, 7/8, then the end.
        let expected = [0.25, 0.75, 0.9, 0.7, 0.5, 0.3, 0.2, 0.2];
        assert_eq!(factors(linear, 8), expected);
        let cosine = LrSchedule {
            warmup_epochs: 0.0,
            decay: LrDecay::Cosine,
            decay_epochs: 3,
            final_fraction: 0.0,
        };
        // (1 + cos(pi x)) / 2 with x = 1/6, 3/6, 5/6: the cosines are those of 30, 90 and 150 degrees.
        assert_eq!(factors(cosine, 4), [0.933, 0.5, 0.067, 0.0]);
        let constant = LrSchedule {
            warmup_epochs: 1.5,
            decay: LrDecay::Constant,
            ..cosine
        };
        assert_eq!(factors(constant, 3), [0.3333, 1.0, 1.0]);
    }

    /// Two edge sets of two chunks each are four passes of an epoch, in this order.
    #[test]
    fn passes_of_an_epoch_by_hand() {
        let schedule = LrSchedule {
            warmup_epochs: 1.0,
            decay: LrDecay::Linear,
            decay_epochs: 2,
            final_fraction: 0.0,
        };
        let extent = RunExtent {
            epochs: 2,
            edge_sets: 2,
            edge_chunks: 2,
        };
        let mut found = Vec::new();
        for epoch in 0..2 {
            for (edge_set, edge_chunk) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let pass = PassId {
                    epoch,
                    edge_set,
                    edge_chunk,
                };
                found.push(known(&schedule, pass, extent));
            }
        }
        let expected = [0.125, 0.375, 0.625, 0.875, 0.875, 0.625, 0.375, 0.125];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_plugin_is_asked_between_the_warm_up_and_the_end() {
        let schedule = LrSchedule {
            warmup_epochs: 2.0,
            decay: LrDecay::Plugin,
            decay_epochs: 4,
            final_fraction: 0.0,
        };
        let asked = |epoch| {
            let (start, end) = (2.0, 4.0);
            PassFactor::Asked(SchedulePosition { epoch, start, end })
        };
        let expected = [
            PassFactor::Known(0.25),
            PassFactor::Known(0.75),
            asked(2.5),
            asked(3.5),
            asked(4.0),
            asked(4.0),
        ];
        for (n, expected) in (0..).zip(expected) {
            assert_eq!(schedule.factor(epoch(n), ONE_PASS), expected);
        }
    }

    #[test]
    fn the_series_is_the_sine() {
        for n in 0..=1000 {
            let x = FRAC_PI_2 * f64::from(n) / 1000.0;
            assert!((sine(x) - x.sin()).abs() < 1e-15, "{x}");
        }
    }

    proptest! {
        #[test]
        fn rates_rise_and_then_fall_to_the_final_one(
            warmup_epochs in prop_oneof![Just(0.0), 0.0_f64..20.0],
            decay in prop::sample::select(LrDecay::BUILT_IN.as_slice()),
            decay_epochs in 1_u32..50,
            final_fraction in 0.0_f64..=1.0,
            edge_chunks in 1_u32..5,
        ) {
            let schedule = LrSchedule { warmup_epochs, decay, decay_epochs, final_fraction };
            let extent = RunExtent { edge_chunks, ..ONE_PASS };
            let passes = (0..60).flat_map(|n| {
                (0..edge_chunks).map(move |edge_chunk| PassId { edge_chunk, ..epoch(n) })
            });
            let mut before = 0.0;
            for (number, pass) in passes.enumerate() {
                let factor = known(&schedule, pass, extent);
                let middle = (number as f64 + 0.5) / f64::from(edge_chunks);
                if middle < warmup_epochs {
                    prop_assert!(before < factor && factor <= 1.0);
                } else {
                    let first = number == 0 || middle - 1.0 / f64::from(edge_chunks) < warmup_epochs;
                    let lowest = if decay == LrDecay::Constant { 1.0 } else { final_fraction as f32 };
                    prop_assert!((lowest..=1.0).contains(&factor));
                    prop_assert!(first || factor <= before);
                    if middle >= f64::from(decay_epochs) {
                        prop_assert_eq!(factor, lowest);
                    }
                }
                before = factor;
            }
        }
    }
}
