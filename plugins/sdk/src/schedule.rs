//! Interface of learning rate schedules.

use crate::{Metadata, Parameters, Result};

/// Learning rate schedule: decides by which factor the learning rates are multiplied in each pass of a run.
///
/// The host asks for the factors of all passes before training begins, and keeps them.
///
/// ```
/// use pbg_plugin_sdk::{Metadata, RateSchedule, Result, SchedulePosition, export_schedule};
///
/// /// Falls as one divided by the square root of the epochs.
/// #[derive(Default)]
/// struct InverseRoot;
///
/// impl RateSchedule for InverseRoot {
///     fn metadata() -> Metadata {
///         Metadata::new("inverse_root", "0.1.0", "One divided by the square root of the epochs.")
///     }
///
///     fn factor(&self, position: SchedulePosition) -> Result<f64> {
///         Ok(1.0 / (1.0 + position.elapsed()).sqrt())
///     }
/// }
///
/// export_schedule!(InverseRoot);
/// # fn main() {
///
/// // The same type runs natively: test and debug it without a sandbox.
/// let position = SchedulePosition { epoch: 3.0, start: 0.0, end: 10.0 };
/// assert_eq!(InverseRoot.factor(position), Ok(0.5));
/// # pbg_plugin_sdk::testing::assert_schedule::<InverseRoot>();
/// # }
/// ```
pub trait RateSchedule: Default + 'static {
    /// Returns name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`RateSchedule::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If the values do not fit together; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Returns the factor of the learning rates, from 0 to 1000; 1 stands for the rates of the configuration. It must be
    /// the same for the same position.
    ///
    /// # Errors
    /// If there is no factor; the text is shown to the user.
    fn factor(&self, position: SchedulePosition) -> Result<f64>;
}

/// Position of a pass in a schedule. Epochs are counted from the beginning of the run.
///
/// ```
/// let position = pbg_plugin_sdk::SchedulePosition { epoch: 4.0, start: 2.0, end: 10.0 };
/// assert_eq!((position.elapsed(), position.length(), position.share()), (2.0, 8.0, 0.25));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchedulePosition {
    /// Number of epochs until the middle of the pass, from `start` to `end`: 0.5, 1.5, ... where an epoch is one pass. For
    /// passes after the end of the schedule it is `end`.
    pub epoch: f64,
    /// Number of epochs after which the schedule begins: those of the warm-up, in which the host does not ask it.
    pub start: f64,
    /// Number of epochs after which the schedule ends: those of the run, unless the configuration says otherwise.
    pub end: f64,
}

impl SchedulePosition {
    /// Returns the number of epochs since the beginning of the schedule.
    ///
    /// ```
    /// let position = pbg_plugin_sdk::SchedulePosition { epoch: 4.5, start: 1.0, end: 10.0 };
    /// assert_eq!(position.elapsed(), 3.5);
    /// ```
    #[must_use]
    pub fn elapsed(&self) -> f64 {
        self.epoch - self.start
    }

    /// Returns the number of epochs from the beginning of the schedule to its end.
    ///
    /// ```
    /// let position = pbg_plugin_sdk::SchedulePosition { epoch: 4.5, start: 1.0, end: 10.0 };
    /// assert_eq!(position.length(), 9.0);
    /// ```
    #[must_use]
    pub fn length(&self) -> f64 {
        self.end - self.start
    }

    /// Returns the share of the schedule that has passed, from 0 to 1.
    ///
    /// ```
    /// let position = pbg_plugin_sdk::SchedulePosition { epoch: 7.0, start: 0.0, end: 10.0 };
    /// assert_eq!(position.share(), 0.7);
    /// ```
    #[must_use]
    pub fn share(&self) -> f64 {
        match self.epoch < self.end {
            true => self.elapsed() / self.length(),
            false => 1.0,
        }
    }
}

/// Exports a [`RateSchedule`] as the component of this crate, like [`export_order!`](crate::export_order).
/// See [`RateSchedule`] for an example.
#[macro_export]
macro_rules! export_schedule {
    ($schedule:ty) => {
        const _: fn() -> $crate::Metadata = <$schedule as $crate::RateSchedule>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__schedule_component!($schedule);
        };
    };
}
