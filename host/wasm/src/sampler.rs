//! Relation samplers in the sandbox.

use std::sync::Arc;

use pbg_core::draws::UndrawnEdges;
use pbg_core::strategy::{
    RelationDraw, RelationSampler, RunLength, SamplerFactory, StrategyError, StrategyId,
};
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::ResourceAny;

use crate::bindings::relation_sampler::{self as wit, GuestIndices};
use crate::compiled_plugin::{CompiledPlugin, PluginInstance};
use crate::error::LoadError;
use crate::guest::StoreData;
use crate::parameters::PluginParameter;
use crate::replay::RecordedCall;
use crate::strategy::{SMALL_ANSWER, SlotPlugin};

/// A relation sampler that is a component. Every draw is checked before it is returned.
///
/// Each worker gets a fresh instance for each bucket, so that a plugin's state cannot depend on which worker was faster
/// or on where a run was resumed. Creating an instance costs some ten microseconds for a compiled plugin.
pub struct LoadedSampler {
    strategy: Arc<SlotPlugin<GuestIndices>>,
}

impl LoadedSampler {
    pub(crate) fn new(
        program: CompiledPlugin,
        id: StrategyId,
        declared: &[PluginParameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let strategy = SlotPlugin::new(program, id, declared, given)?;
        // A plugin that rejects its configuration fails here, before the run starts.
        strategy
            .open()
            .map_err(|fault| strategy.load_error(fault))?;
        Ok(Self {
            strategy: Arc::new(strategy),
        })
    }
}

impl SamplerFactory for LoadedSampler {
    fn id(&self) -> &StrategyId {
        &self.strategy.id
    }

    fn begin_run(&self, length: RunLength) {
        self.strategy.begin_run(length);
    }

    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        seed: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError> {
        let share = SamplerArguments {
            counts: counts.to_vec(),
            batch_size,
            seed,
        };
        let begun = begin(&self.strategy, &share);
        let (instantiated, sampler) = begun.map_err(|error| {
            let call = || share.call(&[]);
            self.strategy.record(error, || Some(call()))
        })?;
        Ok(Box::new(SamplerInstance {
            strategy: Arc::clone(&self.strategy),
            instantiated,
            sampler,
            ledger: UndrawnEdges::new(counts, batch_size),
            share,
            losses: Vec::new(),
        }))
    }
}

/// Creates a fresh instance, and its sampler for a share.
fn begin(
    strategy: &SlotPlugin<GuestIndices>,
    share: &SamplerArguments,
) -> Result<(Option<PluginInstance>, ResourceAny), StrategyError> {
    let mut instantiated = strategy.open()?;
    let sampler = strategy.call(
        &mut instantiated,
        "create",
        SMALL_ANSWER,
        |exports, store| {
            let exports = exports.sampler();
            exports.call_create(store, &share.counts, share.batch_size, share.seed)
        },
    )?;
    Ok((instantiated, sampler))
}

/// Arguments with which a sampler was created.
struct SamplerArguments {
    counts: Vec<u64>,
    batch_size: u32,
    seed: u64,
}

impl SamplerArguments {
    fn call(&self, losses: &[f32]) -> RecordedCall {
        RecordedCall::Draw {
            counts: self.counts.clone(),
            batch_size: self.batch_size,
            seed: self.seed,
            losses: losses.to_vec(),
        }
    }
}

/// Largest number of batches of a share whose losses are kept for a replay; a longer share gets no replay.
const LOSSES: usize = 1 << 20;

/// One worker's draws from its share of a bucket, with the instance that makes them.
struct SamplerInstance {
    strategy: Arc<SlotPlugin<GuestIndices>>,
    /// `None` after a fault: the sampler's state is lost, so nothing more is drawn from it.
    instantiated: Option<PluginInstance>,
    sampler: ResourceAny,
    ledger: UndrawnEdges,
    share: SamplerArguments,
    /// Mean losses observed so far; empty unless faults are recorded.
    losses: Vec<f32>,
}

impl SamplerInstance {
    fn call<R>(
        &mut self,
        function: &'static str,
        call: impl FnOnce(
            wit::GuestSampler<'_>,
            &mut Store<StoreData>,
            ResourceAny,
        ) -> wasmtime::Result<Result<R, String>>,
    ) -> Result<R, StrategyError> {
        let strategy = &self.strategy;
        if self.instantiated.is_none() {
            let reason = "an earlier call of this sampler failed".to_owned();
            return Err(strategy.fault(function, reason));
        }
        let sampler = self.sampler;
        strategy.call(
            &mut self.instantiated,
            function,
            SMALL_ANSWER,
            |exports, store| call(exports.sampler(), store, sampler),
        )
    }
}

impl SamplerInstance {
    fn draw(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
        let answer = self.call("next", |exports, store, sampler| {
            exports.call_next(store, sampler)
        })?;
        let draw = answer.map(|wit::Draw { relation, edges }| RelationDraw { relation, edges });
        if let Err(broken) = self.ledger.take(draw) {
            self.instantiated = None;
            return Err(self.strategy.fault("next", broken.to_string()));
        }
        Ok(draw)
    }

    fn record(&self, error: StrategyError) -> StrategyError {
        let call = || (self.losses.len() < LOSSES).then(|| self.share.call(&self.losses));
        self.strategy.record(error, call)
    }
}

impl RelationSampler for SamplerInstance {
    fn next(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
        self.draw().map_err(|error| self.record(error))
    }

    fn observe(&mut self, relation: u32, mean_loss: f32) -> Result<(), StrategyError> {
        if self.strategy.program.faults.is_some() && self.losses.len() < LOSSES {
            self.losses.push(mean_loss);
        }
        self.call("observe", |exports, store, sampler| {
            exports.call_observe(store, sampler, relation, mean_loss)?;
            Ok(Ok(()))
        })
        .map_err(|error| self.record(error))
    }
}
