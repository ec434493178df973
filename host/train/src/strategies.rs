//! The strategies of a run, with their fallbacks.

use std::sync::{Arc, Mutex};

use pbg_core::strategy::{
    BucketOrder, Loss as _, NegativeSampler, NegativeSelector, RateSchedule, RequiredData,
    RunLength, SamplerFactory, SelectionRequirements, StrategyId,
};

use crate::draws::Samplers;
use crate::losses::GuardedLoss;

/// The strategies of a run.
pub struct Strategies {
    /// Bucket order.
    pub order: Box<dyn BucketOrder>,
    /// Relation sampler: the order of the relations within a bucket, with static relations.
    pub sampler: Box<dyn SamplerFactory>,
    /// Choice of the negatives; `None`: they are uniform.
    pub negatives: Option<NegativeStrategy>,
    /// Learning rate schedule, if it is a plugin. It has no fallback, since it is asked before training begins.
    pub schedule: Option<Box<dyn RateSchedule>>,
    /// Loss, including its fallback.
    pub loss: GuardedLoss,
    /// Fallbacks of the bucket order and of the samplers.
    pub fallbacks: Fallbacks,
}

impl Strategies {
    /// Returns the samplers that draw the relations of a bucket's shares.
    pub(crate) fn samplers(&self) -> Samplers<'_> {
        Samplers {
            sampler: self.sampler.as_ref(),
            standard: self.fallbacks.sampler.as_deref(),
            faults: Mutex::default(),
        }
    }

    /// Returns the ids of the bucket order, the relation sampler, the loss, the choice of negatives and the learning
    /// rate schedule.
    pub fn ids(&self) -> Vec<StrategyId> {
        let ids = [self.order.id(), self.sampler.id(), self.loss.id()];
        let negatives = self.negatives.iter().map(NegativeStrategy::id);
        let schedule = self.schedule.iter().map(|schedule| schedule.id());
        let ids = ids.into_iter().chain(negatives).chain(schedule);
        ids.cloned().collect()
    }

    /// Returns what the negative sampler and its fallback require.
    #[must_use]
    pub fn required_data(&self) -> RequiredData {
        let sampler = self.negatives.as_ref().and_then(NegativeStrategy::sampler);
        let fallback = self.fallbacks.negatives.as_deref();
        let samplers = sampler.into_iter().chain(fallback);
        samplers.fold(RequiredData::default(), |all, sampler| {
            all.union(sampler.required())
        })
    }

    /// Returns what the negative selector requires; `None` without one.
    #[must_use]
    pub(crate) fn required_selection(&self) -> Option<SelectionRequirements> {
        match &self.negatives {
            Some(NegativeStrategy::Selection(selector)) => Some(selector.required()),
            Some(NegativeStrategy::Distribution(_)) | None => None,
        }
    }

    /// Announces the length of the run to all strategies, including the fallbacks.
    pub(crate) fn begin_run(&mut self, length: RunLength) {
        let Fallbacks {
            order,
            sampler,
            negatives,
        } = &mut self.fallbacks;
        self.order.begin_run(length);
        self.sampler.begin_run(length);
        self.loss.begin_run(length);
        order.iter_mut().for_each(|order| order.begin_run(length));
        sampler.iter().for_each(|sampler| sampler.begin_run(length));
        match &mut self.negatives {
            Some(NegativeStrategy::Distribution(sampler)) => sampler.begin_run(length),
            Some(NegativeStrategy::Selection(selector)) => selector.begin_run(length),
            None => {}
        }
        let negatives = negatives.iter_mut();
        negatives.for_each(|sampler| sampler.begin_run(length));
    }
}

/// Strategy that chooses negatives: data for all batches of a pass, or code for each chunk.
pub enum NegativeStrategy {
    /// Distributions from which the host draws.
    Distribution(Box<dyn NegativeSampler>),
    /// Choices chunk by chunk.
    Selection(Arc<dyn NegativeSelector>),
}

impl NegativeStrategy {
    /// Returns the identity of the strategy.
    #[must_use]
    pub fn id(&self) -> &StrategyId {
        match self {
            Self::Distribution(sampler) => sampler.id(),
            Self::Selection(selector) => selector.id(),
        }
    }

    /// Returns the kind of plugin.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Distribution(_) => "negative sampler",
            Self::Selection(_) => "negative selector",
        }
    }

    /// Returns whether all entities are drawn alike.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        self.sampler()
            .is_some_and(|sampler| sampler.required().is_nothing())
    }

    fn sampler(&self) -> Option<&dyn NegativeSampler> {
        match self {
            Self::Distribution(sampler) => Some(sampler.as_ref()),
            Self::Selection(_) => None,
        }
    }
}

/// Fallback strategies by slot. Without a fallback, a failure of the strategy ends the run. A resumed run begins again
/// with the configured strategies, not with their fallbacks.
#[derive(Default)]
pub struct Fallbacks {
    /// Fallback of the bucket order.
    pub order: Option<Box<dyn BucketOrder>>,
    /// Fallback of the relation sampler.
    pub sampler: Option<Box<dyn SamplerFactory>>,
    /// Fallback of the choice of negatives, which is a distribution.
    pub negatives: Option<Box<dyn NegativeSampler>>,
}
