//! Bucket orders in the sandbox.

use pbg_core::graph::{Bucket, Side};
use pbg_core::plan;
use pbg_core::strategy::{BucketOrder, Pass, RunLength, StrategyError, StrategyId};
use serde_json::Value;
use wasmtime::Store;

use crate::bindings::bucket_order::{self as wit, Guest as Exports, GuestIndices};
use crate::bindings::types;
use crate::compiled_plugin::{CompiledPlugin, PluginInstance};
use crate::error::LoadError;
use crate::guest::StoreData;
use crate::parameters::PluginParameter;
use crate::replay::RecordedCall;
use crate::strategy::{SMALL_ANSWER, SlotPlugin};

/// A bucket order that is a component. Every answer is checked before it is returned.
///
/// A fault drops the instance; the next call creates a fresh one.
pub struct LoadedOrder {
    strategy: SlotPlugin<GuestIndices>,
    /// A configured instance; `None` after a fault.
    instantiated: Option<PluginInstance>,
}

impl LoadedOrder {
    pub(crate) fn new(
        program: CompiledPlugin,
        id: StrategyId,
        declared: &[PluginParameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let strategy = SlotPlugin::new(program, id, declared, given)?;
        let opened = strategy.open();
        Ok(Self {
            instantiated: opened.map_err(|fault| strategy.load_error(fault))?,
            strategy,
        })
    }

    /// Calls a configured instance.
    fn call<R>(
        &mut self,
        function: &'static str,
        result_bytes: usize,
        call: impl FnOnce(&Exports, &mut Store<StoreData>) -> wasmtime::Result<Result<R, String>>,
    ) -> Result<R, StrategyError> {
        let instantiated = &mut self.instantiated;
        self.strategy
            .call_ready(instantiated, function, result_bytes, call)
    }

    /// Returns the largest size (bytes) of the answer to `plan`: twice that of a valid one, so that a plan of the wrong
    /// length is reported as such.
    fn plan_bytes(&self, pass: &Pass) -> Result<usize, StrategyError> {
        let right = pass.buckets().saturating_mul(size_of::<types::Bucket>());
        let limit = self.strategy.program.limits.result_bytes;
        if right > limit {
            let buckets = pass.buckets();
            return Err(self.strategy.fault(
                "plan",
                format!(
                    "a plan of {buckets} buckets has {right} bytes, more than the {} MiB that an answer may have; raise \
                     plugins.limits.result_mib, or use fewer partitions",
                    limit >> 20
                ),
            ));
        }
        Ok(right.saturating_mul(2).saturating_add(SMALL_ANSWER))
    }
}

impl BucketOrder for LoadedOrder {
    fn id(&self) -> &StrategyId {
        &self.strategy.id
    }

    fn begin_run(&mut self, length: RunLength) {
        self.strategy.begin_run(length);
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        self.plan_checked(pass).map_err(|error| {
            let call = || RecordedCall::Plan { pass: pass.clone() };
            self.strategy.record(error, || Some(call()))
        })
    }

    fn pick(
        &mut self,
        pass: &Pass,
        held: &[Bucket],
        free: &[Bucket],
    ) -> Result<usize, StrategyError> {
        self.pick_checked(pass, held, free).map_err(|error| {
            let call = || RecordedCall::Pick {
                pass: pass.clone(),
                held: held.to_vec(),
                free: free.to_vec(),
            };
            self.strategy.record(error, || Some(call()))
        })
    }
}

impl LoadedOrder {
    fn plan_checked(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let result_bytes = self.plan_bytes(pass)?;
        let resident = Resident::of(pass);
        let answer = self.call("plan", result_bytes, |exports, store| {
            exports.call_plan(store, lower_pass(pass, &resident))
        })?;
        let buckets: Vec<Bucket> = answer
            .into_iter()
            .map(|b| Bucket::new(b.lhs, b.rhs))
            .collect();
        plan::check(pass, &buckets).map_err(|broken| {
            self.strategy.fault(
                "plan",
                format!("{broken}; a plan names every bucket of the grid exactly once"),
            )
        })?;
        Ok(buckets)
    }

    fn pick_checked(
        &mut self,
        pass: &Pass,
        held: &[Bucket],
        free: &[Bucket],
    ) -> Result<usize, StrategyError> {
        let resident = Resident::of(pass);
        let (held, offered) = (lower(held), lower(free));
        let answer = self.call("pick", SMALL_ANSWER, |exports, store| {
            exports.call_pick(store, lower_pass(pass, &resident), &held, &offered)
        })?;
        let picked = answer as usize;
        if picked >= free.len() {
            let reason = format!(
                "returned {picked}, which is not an index into the {} free buckets",
                free.len()
            );
            return Err(self.strategy.fault("pick", reason));
        }
        Ok(picked)
    }
}

/// Resident partitions of each side.
struct Resident {
    lhs: Vec<u32>,
    rhs: Vec<u32>,
}

impl Resident {
    fn of(pass: &Pass) -> Self {
        let of = |wanted| {
            pass.resident
                .iter()
                .filter(move |&&(side, _)| side == wanted)
                .map(|&(_, p)| p)
        };
        Self {
            lhs: of(Side::Lhs).collect(),
            rhs: of(Side::Rhs).collect(),
        }
    }
}

fn lower(buckets: &[Bucket]) -> Vec<types::Bucket> {
    buckets
        .iter()
        .map(|b| types::Bucket {
            lhs: b.lhs,
            rhs: b.rhs,
        })
        .collect()
}

fn lower_pass<'a>(pass: &'a Pass, resident: &'a Resident) -> wit::Pass<'a> {
    wit::Pass {
        lhs_partitions: pass.lhs_partitions,
        rhs_partitions: pass.rhs_partitions,
        shared: pass.shared,
        edges: &pass.edges,
        lhs_bytes: &pass.lhs_bytes,
        rhs_bytes: &pass.rhs_bytes,
        buffer_partitions: pass.buffer_partitions,
        resident_lhs: &resident.lhs,
        resident_rhs: &resident.rhs,
        position: types::Position {
            epoch: pass.epoch,
            edge_set: pass.edge_set,
            edge_chunk: pass.edge_chunk,
        },
        seed: pass.seed,
    }
}
