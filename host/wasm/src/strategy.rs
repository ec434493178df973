//! Common parts of all slots: program, identity, parameters, and errors of calls.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use pbg_core::strategy::{FaultCause, RunLength, StrategyError, StrategyId};
use pbg_core::text::one_line;
use serde_json::Value;
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::{
    bucket_order, comparator_formula, learning_rate_schedule, loss_computed, loss_traced,
    negative_distribution, negative_selection, operator_formula, operator_traced, relation_sampler,
    types,
};
use crate::compiled_plugin::{CompiledPlugin, PluginInstance};
use crate::error::{Fault, LoadError};
use crate::fault::chain;
use crate::guest::StoreData;
use crate::parameters::{ParameterValue, PluginParameter, resolve_parameters};
use crate::replay::{CallContext, CallReplay, RecordedCall};

/// Largest size (bytes) of an answer that is a number or a refusal.
pub(crate) const SMALL_ANSWER: usize = 64 << 10;
/// Largest number of bytes of a refusal that a message shows.
const REFUSAL_BYTES: usize = 4096;

/// Exports of a component that fills a slot: located once, loaded from the instance at every call.
pub(crate) trait SlotExports: Sized {
    /// Functions of an instance.
    type Functions;

    fn find(pre: &InstancePre<StoreData>) -> wasmtime::Result<Self>;

    fn of(
        &self,
        store: &mut Store<StoreData>,
        instance: &Instance,
    ) -> wasmtime::Result<Self::Functions>;

    fn configure(
        functions: &Self::Functions,
        store: &mut Store<StoreData>,
        parameters: &[types::ParameterValue<'_>],
    ) -> wasmtime::Result<Result<(), String>>;
}

macro_rules! exports {
    ($($interface:ident),*) => {$(
        impl SlotExports for $interface::GuestIndices {
            type Functions = $interface::Guest;

            fn find(pre: &InstancePre<StoreData>) -> wasmtime::Result<Self> {
                Self::new(pre)
            }

            fn of(
                &self,
                store: &mut Store<StoreData>,
                instance: &Instance,
            ) -> wasmtime::Result<Self::Functions> {
                self.load(store, instance)
            }

            fn configure(
                functions: &Self::Functions,
                store: &mut Store<StoreData>,
                parameters: &[types::ParameterValue<'_>],
            ) -> wasmtime::Result<Result<(), String>> {
                functions.call_configure(store, parameters)
            }
        }
    )*};
}

exports!(
    bucket_order,
    relation_sampler,
    loss_traced,
    loss_computed,
    operator_traced,
    operator_formula,
    comparator_formula,
    negative_distribution,
    negative_selection,
    learning_rate_schedule
);

/// A plugin that fills a slot.
pub(crate) struct SlotPlugin<E> {
    pub(crate) program: CompiledPlugin,
    pub(crate) id: StrategyId,
    exports: E,
    /// Parameters as the configuration gives them.
    given: Value,
    /// Every declared parameter with its value, as passed to `configure`.
    parameters: Vec<(String, ParameterValue)>,
    /// Length of the run; [`RunLength::NONE`] before a run begins.
    run: Mutex<RunLength>,
}

impl<E: SlotExports> SlotPlugin<E> {
    /// Checks that the plugin exports the functions of its slot, and that the parameters given in the configuration
    /// match those that it declares.
    pub(crate) fn new(
        program: CompiledPlugin,
        id: StrategyId,
        declared: &[PluginParameter],
        given: &Value,
    ) -> Result<Self, LoadError> {
        let parameters =
            resolve_parameters(declared, given).map_err(|problems| LoadError::Parameters {
                label: program.label.clone(),
                problems,
            })?;
        let exports = E::find(&program.pre).map_err(|error| LoadError::Interface {
            label: program.label.clone(),
            reason: chain(&error),
        })?;
        Ok(Self {
            program,
            id,
            exports,
            given: given.clone(),
            parameters,
            run: Mutex::new(RunLength::NONE),
        })
    }

    /// Notes that a run of this length begins.
    pub(crate) fn begin_run(&self, length: RunLength) {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = length;
    }

    fn run(&self) -> RunLength {
        *self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the run length that `function` may see. A function that is also called before a run sees none, so that
    /// its answer does not depend on when it was called.
    fn visible_run_length(&self, function: &str) -> RunLength {
        match function {
            "configure" | "build" | "require" => RunLength::NONE,
            _ => self.run(),
        }
    }

    /// Creates an instance and calls its `configure` with the parameters.
    pub(crate) fn open(&self) -> Result<Option<PluginInstance>, StrategyError> {
        let opened = self.program.open();
        let mut instantiated = Some(opened.map_err(|fault| self.failed("instantiation", fault))?);
        self.call(
            &mut instantiated,
            "configure",
            SMALL_ANSWER,
            |functions, store| E::configure(functions, store, &lower(&self.parameters)),
        )?;
        Ok(instantiated)
    }

    /// Calls a function that the plugin may refuse. A fault leaves `instantiated` empty; a refusal does not.
    pub(crate) fn call<R>(
        &self,
        instantiated: &mut Option<PluginInstance>,
        function: &'static str,
        result_bytes: usize,
        call: impl FnOnce(&E::Functions, &mut Store<StoreData>) -> wasmtime::Result<Result<R, String>>,
    ) -> Result<R, StrategyError> {
        let run = self.visible_run_length(function);
        self.program
            .call(instantiated, result_bytes, |store, instance| {
                store.data_mut().run = run;
                call(&self.exports.of(store, instance)?, store)
            })
            .map_err(|fault| self.failed(function, fault))?
            .map_err(|refusal| {
                let refusal = one_line(&refusal, REFUSAL_BYTES);
                self.fault(function, format!("refuses: {refusal}"))
            })
    }

    /// Like [`SlotPlugin::call`], but creates an instance if `instantiated` is empty.
    pub(crate) fn call_ready<R>(
        &self,
        instantiated: &mut Option<PluginInstance>,
        function: &'static str,
        result_bytes: usize,
        call: impl FnOnce(&E::Functions, &mut Store<StoreData>) -> wasmtime::Result<Result<R, String>>,
    ) -> Result<R, StrategyError> {
        if instantiated.is_none() {
            *instantiated = self.open()?;
        }
        self.call(instantiated, function, result_bytes, call)
    }

    /// Writes a replay of `call` if faults are recorded, and returns `error` with a note about it.
    pub(crate) fn record(
        &self,
        error: StrategyError,
        call: impl FnOnce() -> Option<RecordedCall>,
    ) -> StrategyError {
        if self.program.faults.is_none() {
            return error;
        }
        self.recorder().record(error, call)
    }

    /// Returns the state that [`SlotPlugin::record`] needs, for callers that outlive the instance.
    pub(crate) fn recorder(&self) -> ReplayRecorder {
        ReplayRecorder {
            folder: self.program.faults.clone(),
            granted: self.program.folders.paths().map(Path::to_owned).collect(),
            context: CallContext {
                kind: self.program.kind,
                source: self.program.source.clone(),
                limits: self.program.limits.clone(),
                parameters: self.given.clone(),
                run: self.run(),
            },
        }
    }

    /// Returns the error for what the plugin did wrong in `function`.
    pub(crate) fn fault(&self, function: &'static str, reason: String) -> StrategyError {
        self.failed(function, reason.into())
    }

    fn failed(&self, function: &'static str, Fault { reason, cause }: Fault) -> StrategyError {
        StrategyError {
            strategy: self.id.clone(),
            function,
            reason: reason.into(),
            cause,
        }
    }

    /// Converts a fault that occurred during loading into a load error.
    pub(crate) fn load_error(&self, fault: StrategyError) -> LoadError {
        let StrategyError {
            function,
            reason,
            cause,
            ..
        } = fault;
        let reason = reason.into();
        LoadError::fault(&self.program.label, function, Fault { reason, cause })
    }
}

/// Converts parameters into the types of the bindings.
fn lower(parameters: &[(String, ParameterValue)]) -> Vec<types::ParameterValue<'_>> {
    let parameters = parameters.iter();
    let lower = parameters.map(|(name, value)| types::ParameterValue {
        name,
        value: match value {
            ParameterValue::Boolean(value) => types::Value::Boolean(*value),
            ParameterValue::Integer(value) => types::Value::Integer(*value),
            ParameterValue::Number(value) => types::Value::Number(*value),
            ParameterValue::Text(value) => types::Value::Text(value),
        },
    });
    lower.collect()
}

/// Writes replays of failed calls.
pub(crate) struct ReplayRecorder {
    folder: Option<PathBuf>,
    /// Folders that the plugin may read.
    granted: Vec<PathBuf>,
    context: CallContext,
}

impl ReplayRecorder {
    /// Writes a replay of `call` if faults are recorded, and returns `error` with a note about it.
    pub(crate) fn record(
        &self,
        mut error: StrategyError,
        call: impl FnOnce() -> Option<RecordedCall>,
    ) -> StrategyError {
        if error.cause != FaultCause::Strategy {
            return error;
        }
        let Some(folder) = &self.folder else {
            return error;
        };
        let Some(call) = call() else {
            return error;
        };
        let replay = CallReplay::new(&error, self.context.clone(), call);
        let note = match replay.write(folder) {
            Ok(path) => {
                let folders = self.granted.iter();
                let folders = folders.map(|folder| format!(" --read {}", folder.display()));
                format!(
                    "`pbg-host plugin replay {}{}` repeats this call",
                    path.display(),
                    folders.collect::<String>()
                )
            }
            Err(why) => format!("its arguments could not be saved: {why}"),
        };
        error.reason = format!("{}\n  {note}", error.reason).into();
        error
    }
}
