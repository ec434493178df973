//! Learning rate schedules in the sandbox.

use pbg_core::strategy::{RateSchedule, SchedulePosition, StrategyError, StrategyId, check_factor};
use serde_json::Value;

use crate::bindings::learning_rate_schedule::{self as wit, GuestIndices};
use crate::compiled_plugin::{CompiledPlugin, PluginInstance};
use crate::error::LoadError;
use crate::parameters::PluginParameter;
use crate::replay::RecordedCall;
use crate::strategy::{SMALL_ANSWER, SlotPlugin};

/// A learning rate schedule that is a component. Every factor is checked before it is returned.
///
/// A fault drops the instance; the next call creates a fresh one.
pub struct LoadedSchedule {
    strategy: SlotPlugin<GuestIndices>,
    /// A configured instance; `None` after a fault.
    instantiated: Option<PluginInstance>,
}

impl LoadedSchedule {
    pub(crate) fn new(
        program: CompiledPlugin,
        id: StrategyId,
        declared: &[PluginParameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let strategy: SlotPlugin<GuestIndices> = SlotPlugin::new(program, id, declared, given)?;
        let instantiated = strategy
            .open()
            .map_err(|fault| strategy.load_error(fault))?;
        Ok(Self {
            strategy,
            instantiated,
        })
    }

    fn factor_checked(&mut self, position: SchedulePosition) -> Result<f64, StrategyError> {
        let SchedulePosition { epoch, start, end } = position;
        let factor = self.strategy.call_ready(
            &mut self.instantiated,
            FACTOR,
            SMALL_ANSWER,
            |exports, store| {
                exports.call_factor(store, wit::SchedulePosition { epoch, start, end })
            },
        )?;
        check_factor(position, factor)
            .map_err(|broken| self.strategy.fault(FACTOR, broken.to_string()))?;
        // Without the sign of a zero.
        Ok(factor + 0.0)
    }
}

/// Name of the function that a schedule exports.
const FACTOR: &str = "factor";

impl RateSchedule for LoadedSchedule {
    fn id(&self) -> &StrategyId {
        &self.strategy.id
    }

    fn factor(&mut self, position: SchedulePosition) -> Result<f64, StrategyError> {
        self.factor_checked(position).map_err(|error| {
            self.strategy
                .record(error, || Some(RecordedCall::Factor { position }))
        })
    }
}
