//! A compiled component whose imports and exports were checked, and the instances that answer calls.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pbg_core::event::LogLevel;
use pbg_core::text::escaped;
use sha2::{Digest as _, Sha256};
use wasmtime::Store;
use wasmtime::component::{Component, HasSelf, Instance, InstancePre, Linker};

use crate::bindings::{PACKAGE, VERSION, files as wit_files, log as wit_log, run as wit_run};
use crate::cache::CodeCache;
use crate::compiler::{CompileRefusal, CompilerProcess};
use crate::engine::SandboxEngine;
use crate::error::{Fault, LoadError};
use crate::fault::{self, CallLimits, chain};
use crate::function_cache;
use crate::grants::GrantedFolders;
use crate::guest::StoreData;
use crate::interface_name::{self, InterfaceName};
use crate::limits::Limits;
use crate::log::{InstanceLog, LogSink, RunLogBudget};
use crate::native_code::{self, NativeCode};
use crate::size_limits;
use crate::slot::PluginSlot;

/// Interfaces that a component may import; `types` has no functions.
const OFFERED: [&str; 4] = ["files", "log", "run", "types"];

/// Compiled code with everything that its instances need. Clones share the code.
#[derive(Clone)]
pub(crate) struct CompiledPlugin {
    runtime: Arc<SandboxEngine>,
    pub(crate) limits: Limits,
    sink: LogSink,
    /// Folders that it may read.
    pub(crate) folders: Arc<GrantedFolders>,
    /// Folder for replays of failing calls.
    pub(crate) faults: Option<PathBuf>,
    /// Name in messages and log lines.
    pub(crate) label: String,
    /// File or standard name that it was loaded from.
    pub(crate) source: String,
    pub(crate) kind: PluginSlot,
    pub(crate) imports: Vec<String>,
    pub(crate) exports: Vec<String>,
    /// Interface package and version that it was built for.
    pub(crate) wit: String,
    pub(crate) sha256: String,
    pub(crate) size: u64,
    pub(crate) pre: InstancePre<StoreData>,
    /// Largest amount of memory (bytes) of any instance.
    peak: Arc<AtomicUsize>,
    /// Counter of the lines that all instances have logged.
    lines: Arc<RunLogBudget>,
    /// Set when the user interrupts the run.
    pub(crate) stop: Option<Arc<AtomicBool>>,
}

/// Key of the kept functions in the cache, in place of a component's SHA-256.
const FUNCTIONS: &str = "functions";

/// Context for obtaining a component's code.
pub(crate) struct CompileContext<'a> {
    /// Cache of code compiled earlier.
    pub(crate) cache: Option<&'a CodeCache>,
    /// Child process that compiles; without one, this process compiles.
    pub(crate) compiler: Option<&'a CompilerProcess>,
    /// Ends the child process when it is set.
    pub(crate) stop: Option<&'a AtomicBool>,
}

/// An instance with its store. After any error it must not be used again: wasmtime would enter it again after some
/// errors, with the guest's memory in whatever state the fault left it.
pub(crate) struct PluginInstance {
    store: Store<StoreData>,
    instance: Instance,
}

impl CompiledPlugin {
    /// Compiles a component and checks what it imports and exports.
    pub(crate) fn compile(
        runtime: Arc<SandboxEngine>,
        limits: Limits,
        sink: LogSink,
        label: String,
        bytes: &[u8],
        context: &CompileContext<'_>,
    ) -> Result<Self, LoadError> {
        let unfit = |reason| LoadError::NotAComponent {
            label: label.clone(),
            reason,
        };
        check_header(bytes).map_err(unfit)?;
        let size = bytes.len() as u64;
        if size > limits.component_bytes {
            return Err(unfit(format!(
                "has {size} bytes, more than the {} that a plugin may have",
                limits.component_bytes
            )));
        }
        let sha256: String = Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let component = context
            .component(&runtime, &limits, bytes, &sha256, &sink)
            .map_err(|refusal| refused(refusal, &label))?;
        let CheckedInterfaces {
            imports,
            exports,
            kind,
            wit,
        } = check_interfaces(&runtime, &component, &label)?;
        let pre = link(&runtime, &component).map_err(|error| LoadError::Interface {
            label: label.clone(),
            reason: does_not_fit(&wit, &chain(&error)),
        })?;
        let lines = Arc::new(RunLogBudget::new(limits.run_log_lines));
        Ok(Self {
            runtime,
            limits,
            sink,
            folders: Arc::default(),
            faults: None,
            source: label.clone(),
            label,
            kind,
            imports,
            exports,
            wit,
            sha256,
            size,
            pre,
            peak: Arc::default(),
            lines,
            stop: None,
        })
    }

    /// Returns the largest amount of memory (bytes) of any instance of this program and its clones.
    pub(crate) fn peak_memory(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Creates an instance.
    ///
    /// # Errors
    /// What went wrong while the component was instantiated.
    pub(crate) fn open(&self) -> Result<PluginInstance, Fault> {
        let (sink, lines) = (Arc::clone(&self.sink), Arc::clone(&self.lines));
        let log = InstanceLog::new(sink, self.label.clone(), lines);
        let mut store = StoreData::store(
            &self.runtime,
            &self.limits,
            log,
            Arc::clone(&self.folders),
            Arc::clone(&self.peak),
            self.stop.clone(),
        );
        store.data_mut().log.begin(self.limits.log_lines);
        match self.pre.instantiate(&mut store) {
            Ok(instance) => Ok(PluginInstance { store, instance }),
            Err(error) => {
                let limits = self.call_limits(usize::MAX);
                Err(fault::describe(&error, limits, &store.data().log))
            }
        }
    }

    /// Makes one call, with its own deadline and at most `result_bytes` passed to the host. A fault leaves
    /// `instantiated` empty.
    ///
    /// # Errors
    /// What the plugin did wrong.
    pub(crate) fn call<R>(
        &self,
        instantiated: &mut Option<PluginInstance>,
        result_bytes: usize,
        call: impl FnOnce(&mut Store<StoreData>, &Instance) -> wasmtime::Result<R>,
    ) -> Result<R, Fault> {
        let mut used = match instantiated.take() {
            Some(instantiated) => instantiated,
            None => self.open()?,
        };
        used.store.data_mut().clock.begin();
        used.store.set_epoch_deadline(1);
        let limits = self.call_limits(result_bytes);
        used.store.set_hostcall_fuel(limits.result_bytes);
        used.store.data_mut().log.begin(self.limits.log_lines);
        let answer = call(&mut used.store, &used.instance);
        used.store.data_mut().log.end();
        match answer {
            Ok(answer) => {
                *instantiated = Some(used);
                Ok(answer)
            }
            Err(error) => Err(fault::describe(&error, limits, &used.store.data().log)),
        }
    }

    /// Returns the limits of a call whose valid answers have at most `result_bytes`.
    fn call_limits(&self, result_bytes: usize) -> CallLimits<'_> {
        CallLimits {
            plugin: &self.limits,
            result_bytes: result_bytes.min(self.limits.result_bytes),
        }
    }
}

impl CompileContext<'_> {
    /// Returns the component's code: from the cache, or compiled and then stored there.
    fn component(
        &self,
        runtime: &SandboxEngine,
        limits: &Limits,
        bytes: &[u8],
        sha256: &str,
        sink: &LogSink,
    ) -> Result<Component, CompileRefusal> {
        let engine = &runtime.engine;
        if let Some(cache) = self.cache
            && let Some(code) = cache.load(engine, sha256)
        {
            match native_code::load_component(engine, &NativeCode::Kept(code)) {
                Ok(component) => return Ok(component),
                Err(_) => cache.forget(engine, sha256),
            }
        }
        size_limits::check(bytes).map_err(CompileRefusal::Unfit)?;
        let unfit =
            |error: wasmtime::Error| CompileRefusal::Unfit(fault::invalid_component(chain(&error)));
        let keep = |name: &str, code: &[u8]| {
            if let Some(cache) = self.cache
                && let Err(error) = cache.store(engine, name, code)
            {
                // The component loads without the cache; it is only compiled again the next time.
                sink(LogLevel::Debug, "plugins", &error.to_string());
            }
        };
        match self.compiler {
            Some(compiler) => {
                let cache = self.cache.filter(|_| bytes.len() >= function_cache::LARGE);
                let earlier = cache.map(|cache| cache.load(engine, FUNCTIONS));
                let earlier = earlier.as_ref().map(|kept| match kept {
                    Some(functions) => functions.bytes(),
                    None => &[],
                });
                let settings = &runtime.settings;
                let code = compiler.compile(settings, limits, bytes, earlier, self.stop)?;
                if !code.functions().is_empty() {
                    keep(FUNCTIONS, code.functions());
                }
                keep(sha256, code.bytes());
                native_code::load_component(engine, &NativeCode::Fresh(code)).map_err(unfit)
            }
            None => {
                let component = Component::new(engine, bytes).map_err(unfit)?;
                if self.cache.is_some() {
                    keep(sha256, &component.serialize().map_err(unfit)?);
                }
                Ok(component)
            }
        }
    }
}

/// Converts the reason why there is no code into a load error.
fn refused(refusal: CompileRefusal, label: &str) -> LoadError {
    let label = label.to_owned();
    match refusal {
        CompileRefusal::Unfit(reason) => LoadError::NotAComponent { label, reason },
        CompileRefusal::Limit(reason) => LoadError::Compilation { label, reason },
        CompileRefusal::Machine(reason) => LoadError::Machine { label, reason },
        CompileRefusal::Interrupted => LoadError::Interrupted { label },
    }
}

fn link(
    runtime: &SandboxEngine,
    component: &Component,
) -> wasmtime::Result<InstancePre<StoreData>> {
    let mut linker = Linker::new(&runtime.engine);
    wit_log::add_to_linker::<_, HasSelf<StoreData>>(&mut linker, |guest| guest)?;
    wit_files::add_to_linker::<_, HasSelf<StoreData>>(&mut linker, |guest| guest)?;
    wit_run::add_to_linker::<_, HasSelf<StoreData>>(&mut linker, |guest| guest)?;
    linker.instantiate_pre(component)
}

/// Detects the usual mistakes before the compiler reports bytes and sections.
fn check_header(bytes: &[u8]) -> Result<(), String> {
    const MAGIC: &[u8] = b"\0asm";
    const CORE: &[u8] = &[1, 0, 0, 0];
    const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];
    let Some(version) = bytes.strip_prefix(MAGIC) else {
        return Err(match bytes.trim_ascii_start().first() {
            None => "is empty".to_owned(),
            Some(b'(') => "is WebAssembly text; a plugin is a binary component".to_owned(),
            Some(_) => {
                "is not a WebAssembly file; `pbg-host plugin build` makes one from a plugin's source"
                    .to_owned()
            }
        });
    };
    if version.starts_with(COMPONENT) {
        Ok(())
    } else if version.starts_with(CORE) {
        Err(
            "is a core module, not a component; encode it as one (`wasm-tools component new`, \
             or the build command of the plugin's language)"
                .to_owned(),
        )
    } else {
        Err("is WebAssembly of an unknown version, or truncated".to_owned())
    }
}

/// Says that a component's types are not those of this program.
fn does_not_fit(wit: &str, difference: &str) -> String {
    let own = format!("{PACKAGE}@{VERSION}");
    let newer = match *wit == own {
        true => String::new(),
        false => format!(
            " (it was built for {wit}, which may have more; build it with the SDK of this version, or update pbg-host)"
        ),
    };
    format!("does not fit {own}: {difference}{newer}")
}

/// What the names of a component's imports and exports say.
struct CheckedInterfaces {
    imports: Vec<String>,
    exports: Vec<String>,
    /// Slot that the exports determine.
    kind: PluginSlot,
    /// Package and version that it was built for.
    wit: String,
}

fn check_interfaces(
    runtime: &SandboxEngine,
    component: &Component,
    label: &str,
) -> Result<CheckedInterfaces, LoadError> {
    let ty = component.component_type();
    let imports: Vec<String> = ty
        .imports(&runtime.engine)
        .map(|(name, _)| name.to_owned())
        .collect();
    let exports: Vec<String> = ty
        .exports(&runtime.engine)
        .map(|(name, _)| name.to_owned())
        .collect();
    for name in imports.iter().chain(&exports) {
        check_version(name, label)?;
    }
    for import in &imports {
        let ours = InterfaceName::parse(import);
        if !ours.is_some_and(|interface| OFFERED.contains(&interface.name)) {
            return Err(LoadError::Import {
                label: label.to_owned(),
                import: escaped(import, 200),
                advice: advice(import).to_owned(),
            });
        }
    }
    let exported: Vec<&str> = exports
        .iter()
        .filter_map(|name| Some(InterfaceName::parse(name)?.name))
        .collect();
    let mut kinds = PluginSlot::ALL.into_iter().filter(|kind| {
        let mut interfaces = kind.interfaces().iter();
        interfaces.any(|name| exported.contains(name))
    });
    let reason = match (kinds.next(), kinds.next()) {
        (Some(kind), None) => {
            let wit = interface_name::newest(imports.iter().chain(&exports));
            return Ok(CheckedInterfaces {
                imports,
                exports,
                kind,
                wit,
            });
        }
        (Some(one), Some(other)) => {
            format!("is both a {one} and a {other}; make a component of each")
        }
        (None, _) => no_strategy(&exports),
    };
    Err(LoadError::Interface {
        label: label.to_owned(),
        reason,
    })
}

/// Refuses an interface of `pbg:plugin` of a version that is not compatible with the supported one.
fn check_version(name: &str, label: &str) -> Result<(), LoadError> {
    if InterfaceName::parse(name).is_none_or(|interface| interface.is_compatible()) {
        return Ok(());
    }
    Err(LoadError::Version {
        label: label.to_owned(),
        found: escaped(name, 200),
        expected: format!("{PACKAGE}@{VERSION}"),
    })
}

fn advice(import: &str) -> &'static str {
    if import.starts_with("wasi:") {
        "WASI is not available, so there is no clock, file system, network or randomness; build Rust for \
         wasm32-unknown-unknown, Python with `componentize-py componentize --stub-wasi`, \
         JavaScript with `componentize-qjs --stub-wasi --sync`"
    } else if InterfaceName::parse(import).is_some_and(|interface| interface.is_newer()) {
        "it was built for a newer version of the interfaces, which offers more; build it with the SDK of this version, \
         or update pbg-host"
    } else {
        "only pbg:plugin/log, pbg:plugin/files and pbg:plugin/run are offered; build it for one of the worlds of \
         pbg:plugin"
    }
}

fn no_strategy(exports: &[String]) -> String {
    let wanted: Vec<String> = PluginSlot::ALL
        .into_iter()
        .flat_map(PluginSlot::interfaces)
        .map(|name| format!("{PACKAGE}/{name}@{VERSION}"))
        .collect();
    let found = match exports {
        [] => "nothing".to_owned(),
        some => escaped(&some.join(", "), 300),
    };
    format!(
        "is not a plugin of pbg-host: it exports {found}, and none of {}",
        wanted.join(", ")
    )
}
