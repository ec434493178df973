//! Component of learning rate schedules.

use super::{Instance, with};
use crate::{RateSchedule, Result, SchedulePosition};

pub use super::bindings::schedule::exports::pbg::plugin::learning_rate_schedule;

configure! { RateSchedule }

/// Implements `learning-rate-schedule.factor`.
pub fn factor<S: RateSchedule>(
    slot: Instance<S>,
    position: learning_rate_schedule::SchedulePosition,
) -> Result<f64> {
    let learning_rate_schedule::SchedulePosition { epoch, start, end } = position;
    with(slot, |schedule| {
        schedule.factor(SchedulePosition { epoch, start, end })
    })
}

/// Defines the component of a schedule; `export_schedule!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __schedule_component {
    ($schedule:ty) => {
        $crate::__component!($schedule, RateSchedule);

        impl $crate::glue::schedule::learning_rate_schedule::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::schedule::configure(&INSTANCE, parameters)
            }

            fn factor(
                position: $crate::glue::schedule::learning_rate_schedule::SchedulePosition,
            ) -> $crate::Result<f64> {
                $crate::glue::schedule::factor(&INSTANCE, position)
            }
        }

        $crate::glue::bindings::schedule::export!(Component with_types_in $crate::glue::bindings::schedule);
    };
}
