//! Factors of the learning rates that a schedule sets. A schedule that is a plugin is asked for those of all passes before
//! training begins.

use std::time::Duration;

use pbg_config::Config;
use pbg_core::lr_schedule::{LrSchedule, PassFactor};
use pbg_core::schedule::{PassId, RunExtent};
use pbg_core::strategy::RateSchedule;
use pbg_model::error::{RunError, SettingError};
use pbg_model::resolved::ResolvedConfig;
use serde::Serialize;

use crate::strategies::Strategies;

/// Largest number of passes for which a plugin is asked.
const MAX_PASSES: u64 = 1_000_000;

/// Longest time that a plugin may take for all passes.
const LONGEST: Duration = Duration::from_secs(300);

/// Factors of the learning rates of all passes.
pub struct ScheduledFactors {
    schedule: LrSchedule,
    extent: RunExtent,
    /// Answers of the plugin for the passes of the run, in order. The last one holds for all later passes.
    answers: Vec<f32>,
}

/// Course of the learning rates over a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RateCourse {
    /// The plugin, or the name of the built-in course.
    pub schedule: String,
    /// Number of passes.
    pub passes: u64,
    /// Factor of the first pass.
    pub first: f32,
    /// Factor of the last pass.
    pub last: f32,
    /// Lowest factor.
    pub lowest: f32,
    /// Highest factor.
    pub highest: f32,
}

impl ScheduledFactors {
    /// Creates the factors of `schedule` in a run of `extent`, and asks `plugin` for those that it decides.
    ///
    /// # Errors
    /// When the plugin fails, or would be asked for too many passes.
    pub(crate) fn new(
        schedule: LrSchedule,
        plugin: Option<&mut dyn RateSchedule>,
        extent: RunExtent,
    ) -> Result<Self, RunError> {
        let mut answers = Vec::new();
        if let Some(plugin) = plugin {
            let count = asked_passes(schedule, extent);
            // The last pass is after the end of the schedule.
            if count > MAX_PASSES + 1 {
                return Err(SettingError::SchedulePasses {
                    schedule: plugin.id().to_string(),
                    passes: count,
                    most: MAX_PASSES,
                }
                .into());
            }
            answers.reserve_exact(count as usize);
            let started = pbg_clock::now();
            for number in 0..count {
                if started.elapsed() > LONGEST {
                    return Err(SettingError::ScheduleSlow {
                        schedule: plugin.id().to_string(),
                        asked: number,
                        passes: count,
                        seconds: LONGEST.as_secs(),
                    }
                    .into());
                }
                let factor = match schedule.factor(pass(number, extent), extent) {
                    PassFactor::Known(factor) => factor,
                    PassFactor::Asked(position) => plugin.factor(position)? as f32,
                };
                answers.push(factor);
            }
        }
        Ok(Self {
            schedule,
            extent,
            answers,
        })
    }

    /// Returns the factors of a run with these strategies; `None` if learning rates are the same in all passes.
    ///
    /// # Errors
    /// As for [`ScheduledFactors::new`].
    pub fn of_run(
        config: &Config,
        strategies: &mut Strategies,
        extent: RunExtent,
    ) -> Result<Option<Self>, RunError> {
        let Some(schedule) = config.lr_schedule() else {
            return Ok(None);
        };
        let plugin: Option<&mut dyn RateSchedule> =
            match (config.lr_schedule.plugin(), &mut strategies.schedule) {
                (None, _) => None,
                (Some(_), Some(plugin)) => Some(plugin.as_mut()),
                (Some(name), None) => {
                    let name = name.to_owned();
                    return Err(SettingError::ScheduleMissing { name }.into());
                }
            };
        Self::new(schedule, plugin, extent).map(Some)
    }

    /// Returns the factors of a built-in course in the first and the last of `passes` passes and, in between, in those in
    /// which the warm-up ends. No other factor is lower or higher, since learning rates first rise and then fall.
    fn turns(&self, passes: u64) -> Vec<f32> {
        let Some(last) = passes.checked_sub(1) else {
            return Vec::new();
        };
        let warm = self.schedule.warmup_epochs * passes_of_epoch(self.extent) as f64;
        let warm = warm as u64;
        let turn = warm.saturating_sub(1)..=warm.saturating_add(1);
        let numbers = std::iter::once(0).chain(turn).chain([last]);
        let factors = numbers.map(|number| self.of(pass(number.min(last), self.extent)));
        factors.collect()
    }

    /// Returns the factor of `pass`.
    pub(crate) fn of(&self, pass: PassId) -> f32 {
        match self.schedule.factor(pass, self.extent) {
            PassFactor::Known(factor) => factor,
            PassFactor::Asked(_) => {
                let number = usize::try_from(number(pass, self.extent)).unwrap_or(usize::MAX);
                let last = self.answers.last();
                self.answers.get(number).or(last).copied().unwrap_or(1.0)
            }
        }
    }
}

/// Returns the course of the learning rates of a run, for which it asks the schedule of `strategies` if there is one;
/// `None` if they are the same in all passes.
///
/// # Errors
/// When the plugin fails, or would be asked for too many passes, or when the dataset lacks an edge set.
pub fn rate_course(
    resolved: &ResolvedConfig,
    strategies: &mut Strategies,
) -> Result<Option<RateCourse>, RunError> {
    let extent = resolved.extent(&resolved.edge_sets()?)?;
    let factors = ScheduledFactors::of_run(resolved.config(), strategies, extent)?;
    let Some(factors) = factors else {
        return Ok(None);
    };
    let passes = u64::from(extent.epochs).saturating_mul(passes_of_epoch(extent));
    let (schedule, course) = match resolved.config().lr_schedule.plugin() {
        Some(name) => {
            let plugin = strategies.schedule.as_ref();
            let name = plugin.map_or_else(|| name.to_owned(), |plugin| plugin.id().to_string());
            (name, factors.answers)
        }
        None => (
            factors.schedule.decay.name().to_owned(),
            factors.turns(passes),
        ),
    };
    let ends = course.first().zip(course.last());
    Ok(ends.map(|(first, last)| RateCourse {
        schedule,
        passes,
        first: *first,
        last: *last,
        lowest: course.iter().copied().fold(f32::INFINITY, f32::min),
        highest: course.iter().copied().fold(0.0, f32::max),
    }))
}

/// Returns the bytes of the answers of a plugin in a run of `extent`; 0 without a plugin.
pub(crate) fn table_bytes(config: &Config, extent: RunExtent) -> u64 {
    let schedule = config.lr_schedule();
    let asked = schedule.filter(|_| config.lr_schedule.plugin().is_some());
    asked.map_or(0, |schedule| {
        asked_passes(schedule, extent).saturating_mul(size_of::<f32>() as u64)
    })
}

/// Returns the number of passes in each epoch.
fn passes_of_epoch(extent: RunExtent) -> u64 {
    u64::from(extent.edge_sets.max(1)) * u64::from(extent.edge_chunks.max(1))
}

/// Returns the number of passes for which a plugin is asked: those of the run until the schedule ends, and one after it.
fn asked_passes(schedule: LrSchedule, extent: RunExtent) -> u64 {
    let of_epoch = passes_of_epoch(extent);
    let all = u64::from(extent.epochs).saturating_mul(of_epoch);
    let scheduled = u64::from(schedule.decay_epochs).saturating_mul(of_epoch);
    all.min(scheduled.saturating_add(1))
}

/// Returns the pass with this number, counted from the beginning of the run.
fn pass(number: u64, extent: RunExtent) -> PassId {
    let of_epoch = passes_of_epoch(extent);
    let chunks = u64::from(extent.edge_chunks.max(1));
    let within = number % of_epoch;
    PassId {
        epoch: (number / of_epoch) as u32,
        edge_set: (within / chunks) as u32,
        edge_chunk: (within % chunks) as u32,
    }
}

/// Returns the number of a pass, counted from the beginning of the run.
fn number(pass: PassId, extent: RunExtent) -> u64 {
    let chunks = u64::from(extent.edge_chunks.max(1));
    let within = u64::from(pass.edge_set) * chunks + u64::from(pass.edge_chunk);
    u64::from(pass.epoch) * passes_of_epoch(extent) + within
}

#[cfg(test)]
mod tests {
    use pbg_core::lr_schedule::LrDecay;
    use pbg_core::strategy::{SchedulePosition, StrategyError, StrategyId};

    use super::*;

    /// Falls linearly, and counts how often it is asked.
    struct Falling {
        id: StrategyId,
        asked: usize,
    }

    impl Falling {
        fn new() -> Self {
            let id = StrategyId {
                name: "falling".to_owned(),
                version: "0.1.0".to_owned(),
                sha256: String::new(),
            };
            Self { id, asked: 0 }
        }
    }

    impl RateSchedule for Falling {
        fn id(&self) -> &StrategyId {
            &self.id
        }

        fn factor(&mut self, position: SchedulePosition) -> Result<f64, StrategyError> {
            self.asked += 1;
            let SchedulePosition { epoch, start, end } = position;
            Ok(match epoch < end {
                true => 1.0 - (epoch - start) / (end - start),
                false => 0.0,
            })
        }
    }

    fn schedule(decay: LrDecay, decay_epochs: u32) -> LrSchedule {
        LrSchedule {
            warmup_epochs: 0.75,
            decay,
            decay_epochs,
            final_fraction: 0.0,
        }
    }

    const EXTENT: RunExtent = RunExtent {
        epochs: 5,
        edge_sets: 2,
        edge_chunks: 3,
    };

    #[test]
    fn passes_are_numbered_in_the_order_of_training() {
        let mut before = None;
        for n in 0..30 {
            let pass = pass(n, EXTENT);
            assert_eq!(number(pass, EXTENT), n);
            assert!(pass.edge_set < 2 && pass.edge_chunk < 3);
            assert!(before.replace(pass) < Some(pass));
        }
    }

    /// The factors of a plugin that falls linearly have the bits of the built-in decay, also where the run is longer or
    /// shorter than the schedule.
    #[test]
    fn a_plugin_sets_the_factors_that_it_returns() {
        for (decay_epochs, expected) in [(3, 19 - 4), (5, 30 - 4), (9, 30 - 4)] {
            let mut plugin = Falling::new();
            let asked = schedule(LrDecay::Plugin, decay_epochs);
            let asked = ScheduledFactors::new(asked, Some(&mut plugin), EXTENT).unwrap();
            let built_in = schedule(LrDecay::Linear, decay_epochs);
            let built_in = ScheduledFactors::new(built_in, None, EXTENT).unwrap();
            for n in 0..30 {
                let pass = pass(n, EXTENT);
                assert_eq!(asked.of(pass).to_bits(), built_in.of(pass).to_bits());
            }
            // The warm-up ends in the middle of the fifth pass, which belongs to the schedule.
            assert_eq!(plugin.asked, expected);
        }
    }

    #[test]
    fn the_turns_of_a_course_are_its_bounds() {
        for (decay, warmup_epochs, decay_epochs) in [
            (LrDecay::Linear, 0.0, 5),
            (LrDecay::Linear, 0.75, 3),
            (LrDecay::Cosine, 2.5, 9),
            (LrDecay::Constant, 1.9, 5),
            (LrDecay::Constant, 7.0, 5),
        ] {
            let schedule = LrSchedule {
                warmup_epochs,
                ..schedule(decay, decay_epochs)
            };
            let factors = ScheduledFactors::new(schedule, None, EXTENT).unwrap();
            let all: Vec<f32> = (0..30).map(|n| factors.of(pass(n, EXTENT))).collect();
            let turns = factors.turns(30);
            let bounds = |factors: &[f32]| {
                let least = factors.iter().copied().fold(f32::INFINITY, f32::min);
                [least, factors.iter().copied().fold(0.0, f32::max)]
            };
            assert_eq!(bounds(&turns), bounds(&all), "{schedule:?}");
            assert_eq!([turns[0], turns[turns.len() - 1]], [all[0], all[29]]);
            assert!(factors.turns(0).is_empty());
        }
    }

    #[test]
    fn a_plugin_is_not_asked_for_more_passes_than_a_table_holds() {
        let long = RunExtent {
            epochs: 1_000_000,
            ..EXTENT
        };
        let mut plugin = Falling::new();
        let endless = schedule(LrDecay::Plugin, 1_000_000);
        let refused = ScheduledFactors::new(endless, Some(&mut plugin), long);
        let text = refused.err().unwrap().to_string();
        assert!(text.contains("6000000 passes"), "{text}");
        assert_eq!(plugin.asked, 0);
        let short = schedule(LrDecay::Plugin, 10);
        assert!(ScheduledFactors::new(short, Some(&mut plugin), long).is_ok());
    }
}
