//! Plugins that fail while training goes on: the standard ones take their places, and the run says so.

use pbg_core::event::Event;
use pbg_core::strategy::{Cause, StrategyError, StrategyId};

use super::Run;
use crate::error::RunError;

impl Run<'_> {
    /// Puts the standard order in the place of one that failed.
    pub(super) fn replace_order(&mut self, fault: &StrategyError) -> Result<(), RunError> {
        let own = fault.cause == Cause::Strategy;
        let standard = self.strategies.fallbacks.order.take_if(|_| own);
        let Some(standard) = standard else {
            return Err(fault.clone().into());
        };
        let event = replaced(fault, standard.id());
        self.strategies.order = standard;
        self.report(event)
    }

    /// Puts the standard sampler in the place of one that failed in some worker of a bucket.
    pub(super) fn replace_sampler(&mut self, faults: &[StrategyError]) -> Result<(), RunError> {
        let Some(first) = faults.first() else {
            return Ok(());
        };
        let Some(standard) = self.strategies.fallbacks.sampler.take() else {
            return Err(first.clone().into());
        };
        let id = standard.id().clone();
        self.strategies.sampler = standard;
        for fault in faults {
            self.report(replaced(fault, &id))?;
        }
        Ok(())
    }

    /// Says that the loss failed and what went on in its place while the bucket was trained.
    pub(super) fn report_loss_faults(&mut self) -> Result<(), RunError> {
        let faults = self.strategies.loss.take_faults();
        let Some(standard) = self.strategies.loss.standard().cloned() else {
            return Ok(());
        };
        for fault in &faults {
            self.report(replaced(fault, &standard))?;
        }
        Ok(())
    }
}

fn replaced(fault: &StrategyError, standard: &StrategyId) -> Event {
    Event::PluginFault {
        plugin: fault.strategy.to_string(),
        function: fault.function.to_owned(),
        reason: fault.reason.to_string(),
        fallback: standard.to_string(),
    }
}
