//! Assertion of the contract of learning rate schedules, for the tests of plugins.

use super::defaults;
use crate::{RateSchedule, SchedulePosition};

/// Largest factor that the host accepts.
const MAX_FACTOR: f64 = 1000.0;

/// Asserts the contract of a schedule, configured with its defaults: in runs of different lengths, with and without a
/// warm-up, factors are from 0 to 1000, and the same when another instance is asked.
///
/// # Panics
/// If the contract is violated. The message has the position.
///
/// ```
/// # use pbg_plugin_sdk::{Metadata, RateSchedule, Result, SchedulePosition};
/// #[derive(Default)]
/// struct Linear;
///
/// impl RateSchedule for Linear {
///     fn metadata() -> Metadata { Metadata::new("linear_again", "0.1.0", "Falls to 0.") }
///     fn factor(&self, position: SchedulePosition) -> Result<f64> { Ok(1.0 - position.share()) }
/// }
///
/// pbg_plugin_sdk::testing::assert_schedule::<Linear>();
/// ```
pub fn assert_schedule<S: RateSchedule>() {
    for start in [0.0, 0.5, 3.0] {
        for end in [4.0, 30.0, 1000.0] {
            let middles = (0..1000).map(|n| f64::from(n) + 0.5);
            let middles = middles.skip_while(|epoch| *epoch < start);
            let positions = middles.take_while(|epoch| *epoch < end);
            for epoch in positions.chain([start, end]) {
                assert_factor::<S>(SchedulePosition { epoch, start, end });
            }
        }
    }
}

/// Asserts the contract of [`assert_schedule`] for one position, and returns the factor.
///
/// # Panics
/// If the contract is violated. The message has the position.
///
/// ```
/// # use pbg_plugin_sdk::{Metadata, RateSchedule, Result, SchedulePosition, testing};
/// # #[derive(Default)]
/// # struct Linear;
/// # impl RateSchedule for Linear {
/// #     fn metadata() -> Metadata { Metadata::new("linear_again", "0.1.0", "Falls to 0.") }
/// #     fn factor(&self, position: SchedulePosition) -> Result<f64> { Ok(1.0 - position.share()) }
/// # }
/// let position = SchedulePosition { epoch: 2.5, start: 0.0, end: 10.0 };
/// assert_eq!(testing::assert_factor::<Linear>(position), 0.75);
/// ```
pub fn assert_factor<S: RateSchedule>(position: SchedulePosition) -> f64 {
    let ask = || {
        let mut schedule = S::default();
        let configured = schedule.configure(&defaults(&S::metadata()));
        assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
        let factor = schedule.factor(position);
        factor.unwrap_or_else(|refusal| panic!("the plugin refuses {position:?}: {refusal}"))
    };
    let factor = ask();
    assert!(
        (0.0..=MAX_FACTOR).contains(&factor),
        "a factor of {factor} for {position:?}, not from 0 to {MAX_FACTOR}"
    );
    assert_eq!(
        ask(),
        factor,
        "the factors of two instances differ for {position:?}"
    );
    factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metadata, Result};

    /// Falls below 0 in long runs.
    #[derive(Default)]
    struct Steep;

    impl RateSchedule for Steep {
        fn metadata() -> Metadata {
            Metadata::new("steep", "0.1.0", "Falls by a hundredth per epoch.")
        }

        fn factor(&self, position: SchedulePosition) -> Result<f64> {
            Ok(1.0 - position.elapsed() / 100.0)
        }
    }

    #[test]
    #[should_panic(expected = "not from 0 to 1000")]
    fn negative_factors_are_found() {
        assert_schedule::<Steep>();
    }
}
