//! Step decay: learning rates are multiplied by a fraction each time that a number of epochs has passed.

use pbg_plugin_sdk::{
    Metadata, Parameter, Parameters, RateSchedule, Result, SchedulePosition, export_schedule,
};

/// The schedule with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct StepDecay {
    every: f64,
    fraction: f64,
}

impl RateSchedule for StepDecay {
    fn metadata() -> Metadata {
        Metadata::new(
            "step_decay",
            env!("CARGO_PKG_VERSION"),
            "Learning rates fall to a fraction each time that a number of epochs has passed.",
        )
        .parameter(Parameter::number(
            "every",
            10.0,
            0.001..=1e9,
            "Number of epochs from one step to the next, counted from the end of the warm-up.",
        ))
        .parameter(Parameter::number(
            "fraction",
            0.5,
            0.0..=1.0,
            "Learning rates after a step, as a fraction of those before it.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn factor(&self, position: SchedulePosition) -> Result<f64> {
        let steps = (position.elapsed() / self.every).floor();
        Ok(self.fraction.powi(steps.min(1e9) as i32))
    }
}

export_schedule!(StepDecay);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_schedule::<StepDecay>();
    }

    #[test]
    fn steps_by_hand() {
        let schedule = StepDecay {
            every: 2.0,
            fraction: 0.5,
        };
        let factor = |epoch| {
            let (start, end) = (1.0, 100.0);
            schedule.factor(SchedulePosition { epoch, start, end })
        };
        let found = [1.5, 2.5, 3.5, 4.5, 5.5].map(|epoch| factor(epoch).unwrap());
        assert_eq!(found, [1.0, 1.0, 0.5, 0.5, 0.25]);
        let zero = StepDecay {
            every: 1.0,
            fraction: 0.0,
        };
        let (start, end) = (0.0, 3.0);
        let at = |epoch| zero.factor(SchedulePosition { epoch, start, end });
        assert_eq!([0.5, 1.5].map(at), [Ok(1.0), Ok(0.0)]);
    }
}
