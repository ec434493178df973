//! Loading of plugins: from a source to a strategy that fills a slot.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_core::strategy::StrategyId;
use serde::Serialize;
use serde_json::Value;

use crate::bindings;
use crate::cache::CodeCache;
use crate::comparator::{LoadedComparator, load as load_comparator};
use crate::compiled_plugin::{CompileContext, CompiledPlugin};
use crate::compiler::CompilerProcess;
use crate::engine::SandboxEngine;
use crate::error::LoadError;
use crate::fault::chain;
use crate::grants::{FolderGrant, GrantedFolders};
use crate::interpreter;
use crate::limits::Limits;
use crate::log::LogSink;
use crate::loss::{LoadedLoss, load_computed, load_traced};
use crate::metadata::{self, PluginMetadata};
use crate::negatives::LoadedNegatives;
use crate::operator::{LoadedOperator, load as load_operator};
use crate::order::LoadedOrder;
use crate::sampler::LoadedSampler;
use crate::schedule::LoadedSchedule;
use crate::selector::LoadedSelector;
use crate::slot::PluginSlot;
use crate::source::PluginSource;
use crate::strategy::SlotPlugin;

/// Sandbox in which plugins run: one engine, one clock, one set of limits.
///
/// Cloning is cheap and shares all of these. A plugin that faults does not affect the others.
#[derive(Clone)]
pub struct Sandbox {
    runtime: Arc<SandboxEngine>,
    limits: Limits,
    log: LogSink,
    cache: Option<Arc<CodeCache>>,
    compiler: Option<Arc<CompilerProcess>>,
    grants: Vec<FolderGrant>,
    /// Required SHA-256 by plugin name.
    pins: Vec<(String, String)>,
    faults: Option<PathBuf>,
    stop: Option<Arc<AtomicBool>>,
}

/// Properties of a plugin, as `plugin inspect` shows them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginInfo {
    /// Slot that it fills.
    pub kind: PluginSlot,
    /// Interface package and version that it was built for, such as `pbg:plugin@0.1.0`.
    pub wit: String,
    /// Name, version, summary and parameters.
    #[serde(flatten)]
    pub metadata: PluginMetadata,
    /// Interfaces that it imports.
    pub imports: Vec<String>,
    /// Interfaces that it exports.
    pub exports: Vec<String>,
    /// Whether it imports the interface for reading files; a configuration has to grant it a folder then.
    pub reads_files: bool,
    /// Whether it contains the interpreter of its author's language, which imports every interface, used or not.
    pub has_interpreter: bool,
    /// Size of the component (bytes).
    pub size: u64,
    /// SHA-256 of the component, in hexadecimal.
    pub sha256: String,
}

/// Largest size (bytes) of a description; the strings in it have their own limits.
const DESCRIPTION_BYTES: usize = 256 << 10;

/// A plugin whose interfaces and metadata were checked. It fills no slot yet, since its parameters in the configuration
/// depend on its name. Clones share the compiled code, but no instance.
#[derive(Clone)]
pub struct LoadedPlugin {
    program: CompiledPlugin,
    inspection: PluginInfo,
}

impl Sandbox {
    /// Creates a sandbox whose plugins have `limits` and whose log lines are dropped.
    ///
    /// # Errors
    /// [`LoadError::Sandbox`] if the machine does not support it, [`LoadError::Stack`] if the threads of this process
    /// have no room for the stack of its plugins.
    pub fn new(limits: Limits) -> Result<Self, LoadError> {
        limits.check_stack()?;
        let runtime = SandboxEngine::new(&limits).map_err(|error| LoadError::Sandbox {
            reason: chain(&error),
        })?;
        Ok(Self {
            runtime: Arc::new(runtime),
            limits,
            log: Arc::new(|_, _, _| ()),
            cache: None,
            compiler: None,
            grants: Vec::new(),
            pins: Vec::new(),
            faults: None,
            stop: None,
        })
    }

    /// Returns the same sandbox, with the log lines of plugins loaded from now on sent to `log`.
    #[must_use]
    pub fn with_log(self, log: LogSink) -> Self {
        Self { log, ..self }
    }

    /// Returns the same sandbox, which keeps compiled code in `cache`.
    #[must_use]
    pub fn with_cache(self, cache: CodeCache) -> Self {
        let cache = Some(Arc::new(cache));
        Self { cache, ..self }
    }

    /// Returns the same sandbox, which compiles with `compiler`. Without one, this process compiles, and only the
    /// counts of `bulk` limit it. Standard plugins are always compiled in this process, since they come with the
    /// program.
    #[must_use]
    pub fn with_compiler(self, compiler: CompilerProcess) -> Self {
        let compiler = Some(Arc::new(compiler));
        Self { compiler, ..self }
    }

    /// Returns the same sandbox, in which plugins may read the folders of `grants`.
    #[must_use]
    pub fn with_grants(self, grants: Vec<FolderGrant>) -> Self {
        Self { grants, ..self }
    }

    /// Returns the same sandbox, in which plugins of these names must have these SHA-256 (hexadecimal).
    #[must_use]
    pub fn with_pins(self, pins: Vec<(String, String)>) -> Self {
        Self { pins, ..self }
    }

    /// Returns the same sandbox, which writes a [`CallReplay`](crate::replay::CallReplay) of every failing call of a
    /// plugin in a slot to the folder `faults`.
    #[must_use]
    pub fn with_faults(self, faults: PathBuf) -> Self {
        let faults = Some(faults);
        Self { faults, ..self }
    }

    /// Returns the same sandbox, which can be interrupted with `stop`. Calls that are running when `stop` is set, or
    /// begin later, end within a third of a second: they fail with [`FaultCause::Interruption`]. A compilation in a
    /// child process fails with [`LoadError::Interrupted`].
    ///
    /// [`FaultCause::Interruption`]: pbg_core::strategy::FaultCause::Interruption
    #[must_use]
    pub fn with_interrupt(self, stop: Arc<AtomicBool>) -> Self {
        let stop = Some(stop);
        Self { stop, ..self }
    }

    /// Reads, compiles and checks a plugin, and reads its metadata.
    ///
    /// # Errors
    /// Any [`LoadError`] except [`LoadError::WrongKind`] and [`LoadError::Parameters`].
    pub fn open(&self, source: PluginSource) -> Result<LoadedPlugin, LoadError> {
        let label = source.label();
        let standard = matches!(source, PluginSource::Standard(_));
        let bytes = source.read(self.limits.component_bytes)?;
        let (runtime, limits, log) = (
            Arc::clone(&self.runtime),
            self.limits.clone(),
            Arc::clone(&self.log),
        );
        let workshop = CompileContext {
            cache: self.cache.as_deref(),
            compiler: self.compiler.as_deref().filter(|_| !standard),
            stop: self.stop.as_deref(),
        };
        let mut program = CompiledPlugin::compile(runtime, limits, log, label, &bytes, &workshop)?;
        program.stop.clone_from(&self.stop);
        let metadata = describe(&program)?;
        self.check_pins(&program, &metadata.name)?;
        program.label.clone_from(&metadata.name);
        program.folders = Arc::new(GrantedFolders::open(&self.grants, &metadata.name)?);
        program.faults.clone_from(&self.faults);
        let inspection = PluginInfo {
            kind: program.kind,
            wit: program.wit.clone(),
            metadata,
            reads_files: program
                .imports
                .iter()
                .any(|import| import.contains("/files@")),
            has_interpreter: interpreter::is_in(&bytes),
            imports: program.imports.clone(),
            exports: program.exports.clone(),
            size: program.size,
            sha256: program.sha256.clone(),
        };
        Ok(LoadedPlugin {
            program,
            inspection,
        })
    }

    fn check_pins(&self, program: &CompiledPlugin, name: &str) -> Result<(), LoadError> {
        let mut pins = self.pins.iter().filter(|(pinned, _)| pinned == name);
        match pins.find(|(_, sha256)| !sha256.eq_ignore_ascii_case(&program.sha256)) {
            None => Ok(()),
            Some((_, expected)) => Err(LoadError::Pinned {
                label: program.label.clone(),
                expected: expected.clone(),
                found: program.sha256.clone(),
            }),
        }
    }

    /// Opens a plugin as a bucket order, configured with `parameters` (a JSON object; null for none).
    ///
    /// # Errors
    /// Any [`LoadError`].
    pub fn load_order(
        &self,
        source: PluginSource,
        parameters: &Value,
    ) -> Result<LoadedOrder, LoadError> {
        self.open(source)?.into_order(parameters)
    }
}

impl LoadedPlugin {
    /// Returns the plugin's properties.
    #[must_use]
    pub fn inspection(&self) -> &PluginInfo {
        &self.inspection
    }

    /// Returns the largest amount of memory (bytes) that an instance of this plugin or of its clones has had.
    #[must_use]
    pub fn peak_memory(&self) -> usize {
        self.program.peak_memory()
    }

    /// Returns the plugin's identity.
    #[must_use]
    pub fn id(&self) -> StrategyId {
        StrategyId {
            name: self.inspection.metadata.name.clone(),
            version: self.inspection.metadata.version.clone(),
            sha256: self.inspection.sha256.clone(),
        }
    }

    /// Turns the plugin into a bucket order, configured with `parameters` (a JSON object; null for none).
    ///
    /// # Errors
    /// [`LoadError::WrongKind`], [`LoadError::Parameters`], [`LoadError::Interface`], or [`LoadError::Fault`] if the
    /// plugin rejects its configuration.
    pub fn into_order(self, parameters: &Value) -> Result<LoadedOrder, LoadError> {
        self.expect(PluginSlot::BucketOrder)?;
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        LoadedOrder::new(self.program, id, declared, parameters)
    }

    /// Turns the plugin into a relation sampler; see [`LoadedPlugin::into_order`].
    ///
    /// # Errors
    /// As [`LoadedPlugin::into_order`].
    pub fn into_sampler(self, parameters: &Value) -> Result<LoadedSampler, LoadError> {
        self.expect(PluginSlot::RelationSampler)?;
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        LoadedSampler::new(self.program, id, declared, parameters)
    }

    /// Turns the plugin into a loss, traced or computed; see [`LoadedPlugin::into_order`].
    ///
    /// # Errors
    /// As [`LoadedPlugin::into_order`]; a graph that is not a valid loss is a [`LoadError::Fault`] of `build`.
    pub fn into_loss(self, parameters: &Value) -> Result<LoadedLoss, LoadError> {
        let computed = self.inspection.kind == PluginSlot::ComputedLoss;
        if !computed {
            self.expect(PluginSlot::TracedLoss)?;
        }
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        let program = self.program;
        Ok(match computed {
            true => LoadedLoss::Computed(load_computed(SlotPlugin::new(
                program, id, declared, parameters,
            )?)?),
            false => LoadedLoss::Traced(load_traced(SlotPlugin::new(
                program, id, declared, parameters,
            )?)?),
        })
    }

    /// Turns the plugin into an operator; see [`LoadedPlugin::into_order`].
    ///
    /// # Errors
    /// As [`LoadedPlugin::into_order`]; a formula that is not a valid operator is a [`LoadError::Fault`] of `build`.
    pub fn into_operator(self, parameters: &Value) -> Result<LoadedOperator, LoadError> {
        self.expect(PluginSlot::TracedOperator)?;
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        load_operator(SlotPlugin::new(self.program, id, declared, parameters)?)
    }

    /// Turns the plugin into a comparator; see [`LoadedPlugin::into_order`].
    ///
    /// # Errors
    /// As [`LoadedPlugin::into_order`]; a formula that is not a valid comparator is a [`LoadError::Fault`] of `build`.
    pub fn into_comparator(self, parameters: &Value) -> Result<LoadedComparator, LoadError> {
        self.expect(PluginSlot::Comparator)?;
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        load_comparator(SlotPlugin::new(self.program, id, declared, parameters)?)
    }

    /// Turns the plugin into a negative sampler; see [`LoadedPlugin::into_order`].
    ///
    /// # Errors
    /// As [`LoadedPlugin::into_order`]; a fault of `require` is a [`LoadError::Fault`].
    pub fn into_negatives(self, parameters: &Value) -> Result<LoadedNegatives, LoadError> {
        self.expect(PluginSlot::NegativeSampler)?;
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        LoadedNegatives::new(self.program, id, declared, parameters)
    }

    /// Turns the plugin into a negative selector; see [`LoadedPlugin::into_order`].
    ///
    /// # Errors
    /// As [`LoadedPlugin::into_order`]; a fault of `require` is a [`LoadError::Fault`].
    pub fn into_selector(self, parameters: &Value) -> Result<LoadedSelector, LoadError> {
        self.expect(PluginSlot::NegativeSelector)?;
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        LoadedSelector::new(self.program, id, declared, parameters)
    }

    /// Turns the plugin into a learning rate schedule; see [`LoadedPlugin::into_order`].
    ///
    /// # Errors
    /// As [`LoadedPlugin::into_order`].
    pub fn into_schedule(self, parameters: &Value) -> Result<LoadedSchedule, LoadError> {
        self.expect(PluginSlot::RateSchedule)?;
        let id = self.id();
        let declared = &self.inspection.metadata.parameters;
        LoadedSchedule::new(self.program, id, declared, parameters)
    }

    fn expect(&self, expected: PluginSlot) -> Result<(), LoadError> {
        let found = self.inspection.kind;
        if found == expected {
            return Ok(());
        }
        Err(LoadError::WrongKind {
            label: self.program.label.clone(),
            found,
            expected,
        })
    }
}

fn describe(program: &CompiledPlugin) -> Result<PluginMetadata, LoadError> {
    let label = || program.label.clone();
    let indices = bindings::metadata::GuestIndices::new(&program.pre).map_err(|error| {
        LoadError::Interface {
            label: label(),
            reason: chain(&error),
        }
    })?;
    let fault = |function| move |fault| LoadError::fault(&program.label, function, fault);
    let mut instantiated = Some(program.open().map_err(fault("instantiation"))?);
    let answer = program
        .call(&mut instantiated, DESCRIPTION_BYTES, |store, instance| {
            indices.load(&mut *store, instance)?.call_describe(store)
        })
        .map_err(fault("describe"))?;
    metadata::check(answer).map_err(|reason| LoadError::Metadata {
        label: label(),
        reason,
    })
}
