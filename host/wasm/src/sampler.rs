//! Relation samplers in the sandbox.

use std::sync::Arc;

use pbg_core::draws::Ledger;
use pbg_core::strategy::{Draw, RelationSampler, SamplerFactory, StrategyError, StrategyId};
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::ResourceAny;

use crate::bindings::relation_sampler::{self as wit, Guest as Exports, GuestIndices};
use crate::error::LoadError;
use crate::guest::Guest;
use crate::parameters::Parameter;
use crate::program::{Instantiated, Program, chain};
use crate::replay::Call;
use crate::strategy::{SMALL_ANSWER, Strategy};

/// A relation sampler that is a component. Every draw is checked before it is returned.
///
/// Each worker gets an instance of its own for each bucket, so that what a plugin remembers can
/// depend neither on which worker was faster nor on where a run was resumed. An instance costs
/// some ten microseconds for a compiled plugin.
pub struct LoadedSampler {
    inner: Arc<Inner>,
}

struct Inner {
    strategy: Strategy,
    exports: GuestIndices,
}

impl LoadedSampler {
    pub(crate) fn new(
        program: Program,
        id: StrategyId,
        declared: &[Parameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let exports = GuestIndices::new(&program.pre).map_err(|error| LoadError::Interface {
            label: program.label.clone(),
            reason: chain(&error),
        })?;
        let strategy = Strategy::new(program, id, declared, given)?;
        let inner = Inner { strategy, exports };
        // A configuration that the plugin refuses ends a run before it starts.
        inner
            .open()
            .map_err(|fault| inner.strategy.load_error(fault))?;
        Ok(Self {
            inner: Arc::new(inner),
        })
    }
}

impl Inner {
    fn open(&self) -> Result<Option<Instantiated>, StrategyError> {
        self.strategy.open(|store, instance, parameters| {
            self.exports
                .load(&mut *store, instance)?
                .call_configure(store, parameters)
        })
    }
}

impl SamplerFactory for LoadedSampler {
    fn id(&self) -> &StrategyId {
        &self.inner.strategy.id
    }

    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        seed: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError> {
        let share = Share {
            counts: counts.to_vec(),
            batch_size,
            seed,
        };
        let begun = self.inner.begin(&share);
        let (instantiated, exports, sampler) = begun.map_err(|error| {
            let call = || share.call(&[]);
            self.inner.strategy.record(error, || Some(call()))
        })?;
        Ok(Box::new(LoadedDraws {
            inner: Arc::clone(&self.inner),
            instantiated,
            exports,
            sampler,
            ledger: Ledger::new(counts, batch_size),
            share,
            losses: Vec::new(),
        }))
    }
}

impl Inner {
    fn begin(
        &self,
        share: &Share,
    ) -> Result<(Option<Instantiated>, Exports, ResourceAny), StrategyError> {
        let mut instantiated = self.open()?;
        let (exports, sampler) = self.strategy.call(
            &mut instantiated,
            "create",
            SMALL_ANSWER,
            |store, instance| {
                let exports = self.exports.load(&mut *store, instance)?;
                let answer = exports.sampler().call_create(
                    store,
                    &share.counts,
                    share.batch_size,
                    share.seed,
                )?;
                Ok(answer.map(|sampler| (exports, sampler)))
            },
        )?;
        Ok((instantiated, exports, sampler))
    }
}

/// What a walk began with.
struct Share {
    counts: Vec<u64>,
    batch_size: u32,
    seed: u64,
}

impl Share {
    fn call(&self, losses: &[f32]) -> Call {
        Call::Draw {
            counts: self.counts.clone(),
            batch_size: self.batch_size,
            seed: self.seed,
            losses: losses.to_vec(),
        }
    }
}

/// Batches of a share whose losses are kept for a replay; longer walks have none.
const LOSSES: usize = 1 << 20;

/// One worker's walk over its share of a bucket. Its instance goes with it.
struct LoadedDraws {
    inner: Arc<Inner>,
    /// Empty after a fault: what the sampler knew is gone, so nothing more is drawn from it.
    instantiated: Option<Instantiated>,
    exports: Exports,
    sampler: ResourceAny,
    ledger: Ledger,
    share: Share,
    /// What was observed, where faults are kept.
    losses: Vec<f32>,
}

impl LoadedDraws {
    fn call<R>(
        &mut self,
        function: &'static str,
        call: impl FnOnce(
            wit::GuestSampler<'_>,
            &mut Store<Guest>,
            ResourceAny,
        ) -> wasmtime::Result<Result<R, String>>,
    ) -> Result<R, StrategyError> {
        let strategy = &self.inner.strategy;
        if self.instantiated.is_none() {
            let reason = "an earlier call of this sampler failed".to_owned();
            return Err(strategy.fault(function, reason));
        }
        let (exports, sampler) = (&self.exports, self.sampler);
        strategy.call(
            &mut self.instantiated,
            function,
            SMALL_ANSWER,
            |store, _| call(exports.sampler(), store, sampler),
        )
    }
}

impl LoadedDraws {
    fn draw(&mut self) -> Result<Option<Draw>, StrategyError> {
        let answer = self.call("next", |exports, store, sampler| {
            exports.call_next(store, sampler)
        })?;
        let draw = answer.map(|wit::Draw { relation, edges }| Draw { relation, edges });
        if let Err(broken) = self.ledger.take(draw) {
            self.instantiated = None;
            return Err(self.inner.strategy.fault("next", broken.to_string()));
        }
        Ok(draw)
    }

    fn record(&self, error: StrategyError) -> StrategyError {
        let call = || (self.losses.len() < LOSSES).then(|| self.share.call(&self.losses));
        self.inner.strategy.record(error, call)
    }
}

impl RelationSampler for LoadedDraws {
    fn next(&mut self) -> Result<Option<Draw>, StrategyError> {
        self.draw().map_err(|error| self.record(error))
    }

    fn observe(&mut self, relation: u32, mean_loss: f32) -> Result<(), StrategyError> {
        if self.inner.strategy.program.faults.is_some() && self.losses.len() < LOSSES {
            self.losses.push(mean_loss);
        }
        self.call("observe", |exports, store, sampler| {
            exports.call_observe(store, sampler, relation, mean_loss)?;
            Ok(Ok(()))
        })
        .map_err(|error| self.record(error))
    }
}
