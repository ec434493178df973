//! Cosine decay with warm restarts: learning rates fall along half of a cosine, return to the beginning at once, and fall
//! again.
//!
//! Source: Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (2017), with `period` for T_0 and
//! `growth` for T_mult.

use std::f64::consts::PI;

use pbg_plugin_sdk::{
    Metadata, Parameter, Parameters, RateSchedule, Result, SchedulePosition, export_schedule,
};

/// The schedule with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct WarmRestarts {
    period: f64,
    growth: u32,
    lowest: f64,
}

impl WarmRestarts {
    /// Returns the share of its cycle that has passed after `elapsed` epochs. The epoch in which a cycle ends and the next
    /// one begins belongs to the end.
    fn share(&self, elapsed: f64) -> f64 {
        let (mut since, mut length) = (elapsed, self.period);
        if self.growth > 1 {
            while since > length {
                since -= length;
                length *= f64::from(self.growth);
            }
        }
        let share = (since / length).fract();
        if share == 0.0 && elapsed > 0.0 {
            1.0
        } else {
            share
        }
    }
}

impl RateSchedule for WarmRestarts {
    fn metadata() -> Metadata {
        Metadata::new(
            "warm_restarts",
            env!("CARGO_PKG_VERSION"),
            "Learning rates fall along half of a cosine, again and again (SGDR).",
        )
        .parameter(Parameter::number(
            "period",
            10.0,
            0.001..=1e9,
            "Number of epochs until the first restart, counted from the end of the warm-up.",
        ))
        .parameter(Parameter::integer(
            "growth",
            1,
            1..=100,
            "Length of a cycle, as a multiple of the one before.",
        ))
        .parameter(Parameter::number(
            "lowest",
            0.0,
            0.0..=1.0,
            "Learning rates at the end of a cycle, as a fraction of those at its beginning.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn factor(&self, position: SchedulePosition) -> Result<f64> {
        let high = 0.5 + 0.5 * (PI * self.share(position.elapsed())).cos();
        Ok(self.lowest + (1.0 - self.lowest) * high)
    }
}

export_schedule!(WarmRestarts);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    fn factors<const N: usize>(schedule: WarmRestarts, epochs: [f64; N]) -> [f64; N] {
        let (start, end) = (0.0, 100.0);
        epochs.map(|epoch| {
            let factor = schedule.factor(SchedulePosition { epoch, start, end });
            (factor.unwrap() * 1e4).round() / 1e4
        })
    }

    #[test]
    fn keeps_the_contract() {
        testing::assert_schedule::<WarmRestarts>();
    }

    #[test]
    fn cycles_by_hand() {
        let schedule = WarmRestarts {
            period: 2.0,
            growth: 1,
            lowest: 0.0,
        };
        // (1 + cos(pi x)) / 2 with x = 1/4, 3/4, 1/4, ...
        let expected = [0.8536, 0.1464, 0.8536, 0.1464];
        assert_eq!(factors(schedule, [0.5, 1.5, 2.5, 3.5]), expected);
        assert_eq!(factors(schedule, [0.0, 2.0, 4.0]), [1.0, 0.0, 0.0]);
        let growing = WarmRestarts {
            growth: 2,
            lowest: 0.2,
            ..schedule
        };
        // The cycles last 2, 4 and 8 epochs. In the middle of each, the cosine is 0.
        assert_eq!(factors(growing, [1.0, 4.0, 10.0]), [0.6, 0.6, 0.6]);
        assert_eq!(factors(growing, [2.0, 6.0, 14.0]), [0.2, 0.2, 0.2]);
    }
}
