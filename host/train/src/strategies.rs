//! The strategies of a run, with their fallbacks.

use std::sync::Mutex;

use pbg_core::strategy::{
    BucketOrder, Loss as _, NegativeSampler, RateSchedule, RequiredData, RunLength, SamplerFactory,
    StrategyId,
};

use crate::draws::Samplers;
use crate::losses::GuardedLoss;

/// The strategies of a run.
pub struct Strategies {
    /// Bucket order.
    pub order: Box<dyn BucketOrder>,
    /// Relation sampler: the order of the relations within a bucket, with static relations.
    pub sampler: Box<dyn SamplerFactory>,
    /// Negative sampler; `None`: negatives are uniform.
    pub negatives: Option<Box<dyn NegativeSampler>>,
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

    /// Returns the ids of the bucket order, the relation sampler, the loss, the negative sampler and the learning rate
    /// schedule.
    pub fn ids(&self) -> Vec<StrategyId> {
        let ids = [self.order.id(), self.sampler.id(), self.loss.id()];
        let negatives = self.negatives.iter().map(|sampler| sampler.id());
        let schedule = self.schedule.iter().map(|schedule| schedule.id());
        let ids = ids.into_iter().chain(negatives).chain(schedule);
        ids.cloned().collect()
    }

    /// Returns what the negative sampler and its fallback require.
    #[must_use]
    pub fn required_data(&self) -> RequiredData {
        let samplers = self.negatives.iter().chain(&self.fallbacks.negatives);
        samplers.fold(RequiredData::default(), |all, sampler| {
            all.union(sampler.required())
        })
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
        let negatives = self.negatives.iter_mut().chain(negatives);
        negatives.for_each(|sampler| sampler.begin_run(length));
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
    /// Fallback of the negative sampler.
    pub negatives: Option<Box<dyn NegativeSampler>>,
}
