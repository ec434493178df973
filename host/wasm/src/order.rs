//! Bucket orders in the sandbox.

use pbg_core::graph::{Bucket, Side};
use pbg_core::plan;
use pbg_core::strategy::{BucketOrder, Pass, StrategyError, StrategyId};
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::Instance;

use crate::bindings::bucket_order::{self as wit, Guest as Exports, GuestIndices};
use crate::bindings::types;
use crate::error::LoadError;
use crate::guest::Guest;
use crate::parameters::{Parameter, complete};
use crate::program::{Program, Seat, chain};
use crate::text::neutral;

/// Bytes for an answer that is a number or a refusal.
const SMALL_ANSWER: usize = 64 << 10;
/// Bytes of a refusal that a message shows.
const REFUSAL_BYTES: usize = 4096;

/// A bucket order that is a component. Every answer is checked before it is returned.
///
/// A fault drops the instance; the next call starts from a fresh one.
pub struct LoadedOrder {
    program: Program,
    exports: GuestIndices,
    id: StrategyId,
    /// What `configure` gets: every declared parameter, as the text of a JSON object.
    parameters: String,
    /// Configured, and never one that faulted.
    seat: Option<Seat>,
}

impl LoadedOrder {
    pub(crate) fn new(
        program: Program,
        id: StrategyId,
        declared: &[Parameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let label = program.label.clone();
        let parameters = complete(declared, given).map_err(|problems| LoadError::Parameters {
            label: label.clone(),
            problems,
        })?;
        let exports = GuestIndices::new(&program.pre).map_err(|error| LoadError::Interface {
            label: label.clone(),
            reason: chain(&error),
        })?;
        let parameters = Value::Object(parameters).to_string();
        let mut order = Self {
            program,
            exports,
            id,
            parameters,
            seat: None,
        };
        order.ready().map_err(|fault| LoadError::Fault {
            label,
            function: fault.function,
            reason: fault.reason,
        })?;
        Ok(order)
    }

    /// Makes sure that there is a configured instance.
    fn ready(&mut self) -> Result<(), StrategyError> {
        if self.seat.is_some() {
            return Ok(());
        }
        let mut seat = Some(
            self.program
                .open()
                .map_err(|reason| self.fault("instantiation", reason))?,
        );
        let answer = self
            .program
            .call(&mut seat, SMALL_ANSWER, |store, instance| {
                self.exports
                    .load(&mut *store, instance)?
                    .call_configure(store, &self.parameters)
            })
            .map_err(|reason| self.fault("configure", reason))?;
        answer.map_err(|refusal| self.refused("configure", &refusal))?;
        self.seat = seat;
        Ok(())
    }

    /// One call of a configured instance.
    fn call<R>(
        &mut self,
        function: &'static str,
        result_bytes: usize,
        call: impl FnOnce(&Exports, &mut Store<Guest>) -> wasmtime::Result<Result<R, String>>,
    ) -> Result<R, StrategyError> {
        self.ready()?;
        let Self {
            program,
            exports,
            seat,
            ..
        } = self;
        let answer = program.call(
            seat,
            result_bytes,
            |store: &mut Store<Guest>, instance: &Instance| {
                let exports = exports.load(&mut *store, instance)?;
                call(&exports, store)
            },
        );
        answer
            .map_err(|reason| self.fault(function, reason))?
            .map_err(|refusal| self.refused(function, &refusal))
    }

    fn fault(&self, function: &'static str, reason: String) -> StrategyError {
        StrategyError {
            strategy: self.id.clone(),
            function,
            reason,
        }
    }

    fn refused(&self, function: &'static str, refusal: &str) -> StrategyError {
        self.fault(
            function,
            format!("refuses: {}", neutral(refusal, REFUSAL_BYTES)),
        )
    }

    /// How many bytes the answer to `plan` may have: twice a right one, so that a plan of the
    /// wrong length gets the message about its length.
    fn plan_bytes(&self, pass: &Pass) -> Result<usize, StrategyError> {
        let right = pass.buckets().saturating_mul(size_of::<types::Bucket>());
        let limit = self.program.limits.result_bytes;
        if right > limit {
            let buckets = pass.buckets();
            return Err(self.fault(
                "plan",
                format!("a plan of {buckets} buckets exceeds the {limit} bytes of an answer; use fewer partitions"),
            ));
        }
        Ok(right.saturating_mul(2).saturating_add(SMALL_ANSWER))
    }
}

impl BucketOrder for LoadedOrder {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
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
            self.fault(
                "plan",
                format!("{broken}; a plan names every bucket of the grid exactly once"),
            )
        })?;
        Ok(buckets)
    }

    fn pick(
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
                "answered {picked}, no index into the {} free buckets",
                free.len()
            );
            return Err(self.fault("pick", reason));
        }
        Ok(picked)
    }
}

/// The resident partitions in columns.
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
