//! Replacement of plugins that fail during training by their fallbacks. Each function returns the events to report.

use pbg_core::event::Event;
use pbg_core::graph::Bucket;
use pbg_core::schedule::PassId;
use pbg_core::strategy::{FaultCause, StrategyError, StrategyId};
use pbg_model::error::RunError;

use super::BucketTrainer;
use crate::buffer::TableStore;
use crate::selection::ChunkSelectors;
use crate::strategies::NegativeStrategy;

impl<S: TableStore> BucketTrainer<'_, S> {
    /// Replaces the bucket order, which failed, by its fallback.
    ///
    /// # Errors
    /// The failure, if there is no fallback or the order itself is not its cause.
    pub fn replace_order(&mut self, fault: &StrategyError) -> Result<Event, RunError> {
        let own = fault.cause == FaultCause::Strategy;
        let standard = self.strategies.fallbacks.order.take_if(|_| own);
        let Some(standard) = standard else {
            return Err(fault.clone().into());
        };
        let event = replaced(fault, standard.id());
        self.strategies.order = standard;
        Ok(event)
    }

    /// Asks the negative sampler for the distributions of a bucket. If it fails, its fallback replaces it, and an event
    /// reports it.
    ///
    /// # Errors
    /// The failure, if there is no fallback or the sampler itself is not its cause.
    pub(super) fn ask_negatives(&mut self, pass: PassId, bucket: Bucket) -> Result<(), RunError> {
        loop {
            let Some(NegativeStrategy::Distribution(sampler)) = &mut self.strategies.negatives
            else {
                return Ok(());
            };
            let asked = self.negatives.ask(
                sampler.as_mut(),
                self.resolved,
                &self.edge_sets,
                pass,
                bucket,
            );
            let fault = match asked {
                Err(RunError::Strategy(fault)) if fault.cause == FaultCause::Strategy => fault,
                other => return other,
            };
            let Some(standard) = self.strategies.fallbacks.negatives.take() else {
                return Err(fault.into());
            };
            let event = replaced(&fault, standard.id());
            self.strategies.negatives = Some(NegativeStrategy::Distribution(standard));
            self.negatives.forget_answers();
            self.emit(event);
        }
    }

    /// Replaces the relation sampler, which failed in a worker of a bucket, by its fallback.
    ///
    /// # Errors
    /// The first failure, if there is no fallback.
    pub fn replace_sampler(&mut self, faults: &[StrategyError]) -> Result<Vec<Event>, RunError> {
        let Some(first) = faults.first() else {
            return Ok(Vec::new());
        };
        let Some(standard) = self.strategies.fallbacks.sampler.take() else {
            return Err(first.clone().into());
        };
        let id = standard.id().clone();
        self.strategies.sampler = standard;
        Ok(faults.iter().map(|fault| replaced(fault, &id)).collect())
    }

    /// Replaces the negative selector, which failed in a worker of a bucket, by its fallback.
    ///
    /// # Errors
    /// The first failure, if there is no fallback.
    pub fn replace_selector(&mut self) -> Result<Vec<Event>, RunError> {
        let selectors = self.selectors.as_ref();
        let faults = selectors
            .map(ChunkSelectors::take_faults)
            .unwrap_or_default();
        let Some(first) = faults.first() else {
            return Ok(Vec::new());
        };
        let Some(standard) = self.strategies.fallbacks.negatives.take() else {
            return Err(first.clone().into());
        };
        let id = standard.id().clone();
        self.strategies.negatives = Some(NegativeStrategy::Distribution(standard));
        self.selectors = None;
        Ok(faults.iter().map(|fault| replaced(fault, &id)).collect())
    }

    /// Returns events about failures of the loss in the last bucket and about its fallback.
    pub fn loss_faults(&mut self) -> Vec<Event> {
        let faults = self.strategies.loss.take_faults();
        let Some(standard) = self.strategies.loss.standard() else {
            return Vec::new();
        };
        faults
            .iter()
            .map(|fault| replaced(fault, standard))
            .collect()
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
