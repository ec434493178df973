//! Fills the slots of a run with the plugins that the command line and the configuration name.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use pbg_config::{Config, DEFAULT_LOSS, DEFAULT_ORDER, DEFAULT_SAMPLER, Installed, OnFault};
use pbg_core::event::Event;
use pbg_core::model::Comparator;
use pbg_core::strategy::{Loss, Scores};
use pbg_train::{Fallbacks, GuardedLoss, Strategies};
use pbg_wasm::{
    Compiler, Grant, Kind as Slot, Limits, LoadError, LoadedLoss, LogLevel, LogSink, Plugin,
    PluginPath, Sandbox,
};
use serde_json::{Map, Value};

use crate::cache;
use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};
use crate::terminal::Terminal;

/// Lines of plugins that wait to be shown; more than this between two events are dropped.
const MAX_LINES: usize = 1000;

/// What plugins said, as events, until somebody shows it.
#[derive(Clone, Default)]
pub(crate) struct PluginLog {
    events: Arc<Mutex<Vec<Event>>>,
}

impl PluginLog {
    /// The lines since the last call.
    pub(crate) fn drain(&self) -> Vec<Event> {
        std::mem::take(&mut self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn sink(&self) -> LogSink {
        let events = Arc::clone(&self.events);
        Arc::new(move |level, line| {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            if events.len() < MAX_LINES {
                events.push(event(level, line));
            }
        })
    }
}

fn event(level: LogLevel, line: &str) -> Event {
    let (plugin, message) = line.split_once(": ").unwrap_or(("plugin", line));
    let level = match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    };
    Event::PluginLog {
        plugin: plugin.to_owned(),
        level: level.to_owned(),
        message: message.to_owned(),
    }
}

/// What decides a run, and what it has to say.
pub(crate) struct Filled {
    /// For the training loop.
    pub(crate) strategies: Strategies,
    /// Their log.
    pub(crate) log: PluginLog,
    /// What is odd but no error.
    pub(crate) warnings: Vec<String>,
}

/// Environment variable with the folders of the user's own plugins, separated by colons.
const PLUGIN_PATH: &str = "PBG_PLUGIN_PATH";

/// Where plugins are looked up by their bare names.
pub(crate) fn search_path() -> PluginPath {
    let folders = std::env::var_os(PLUGIN_PATH).unwrap_or_default();
    PluginPath::new(std::env::split_paths(&folders))
}

/// What a configuration may name: what comes with the program, and `files` of the plugin path.
pub(crate) fn installed(files: &[PathBuf]) -> Installed {
    let standard = |kinds: &[Slot]| {
        let plugins = pbg_wasm::standard().iter();
        let plugins = plugins.filter(|plugin| kinds.contains(&plugin.kind));
        let mut names: Vec<_> = plugins.map(|plugin| plugin.name.to_owned()).collect();
        names.sort();
        names
    };
    Installed {
        orders: standard(&[Slot::BucketOrder]),
        samplers: standard(&[Slot::RelationSampler]),
        losses: standard(&[Slot::TracedLoss, Slot::ComputedLoss]),
        files: files.iter().filter_map(|file| bare(file)).collect(),
    }
}

/// What a configuration may call the component in a file of the plugin path.
pub(crate) fn bare(file: &Path) -> Option<String> {
    Some(file.file_stem()?.to_str()?.to_owned())
}

/// Loads the strategies that `config` names, with those of `given` (files or standard names) in
/// their slots instead. Calls that fail leave their arguments in the folder `faults`; calls that
/// are at work when `stop` is set end soon.
///
/// # Errors
/// When a plugin cannot be loaded, fits no slot, or a slot that is taken.
pub(crate) fn fill(
    config: &Config,
    given: &[String],
    faults: Option<PathBuf>,
    stop: Option<&Arc<AtomicBool>>,
    terminal: Terminal,
) -> Result<Filled> {
    let log = PluginLog::default();
    let mut sandbox = sandbox(config, faults, terminal)?.with_log(log.sink());
    if let Some(stop) = stop {
        sandbox = sandbox.with_interrupt(Arc::clone(stop));
    }
    let path = search_path();
    let (mut order, mut sampler, mut loss) = (None, None, None);
    for name in given {
        let plugin = sandbox.open(path.resolve(name)?)?;
        match plugin.inspection().kind {
            Slot::BucketOrder => take(&mut order, plugin, name)?,
            Slot::RelationSampler => take(&mut sampler, plugin, name)?,
            Slot::TracedLoss | Slot::ComputedLoss => take(&mut loss, plugin, name)?,
            other => {
                let text = format!("plugin {name}: is a {other}, for which a run has no slot yet");
                return Err(Failure::message(Kind::Plugin, text));
            }
        }
    }
    let open = |name: &str| -> Result<Plugin> { Ok(sandbox.open(path.resolve(name)?)?) };
    let configured = |given: Option<Plugin>, name: &str| given.map_or_else(|| open(name), Ok);
    let order = configured(order, &config.bucket_order)?;
    let sampler = configured(sampler, &config.relation_sampler)?;
    let loss = configured(loss, &config.loss_fn)?;
    // What goes on where a plugin fails: what it names, or else the default of its key, unless that
    // is the plugin itself.
    let standby = |used: &Plugin, default: &str| match config.plugins.on_fault {
        OnFault::End => Ok(None),
        OnFault::Fallback => {
            let named = used.inspection().metadata.fallback.as_deref();
            let opened = open(named.unwrap_or(default)).map_err(|failure| match named {
                Some(_) => failure.context(format!("the fallback that {} names", used.id())),
                None => failure,
            });
            let standby = opened?;
            let (kind, wanted) = (standby.inspection().kind, used.inspection().kind);
            if !same_slot(kind, wanted) {
                let (names, id) = (used.id(), standby.id());
                let text =
                    format!("the fallback that {names} names: {id} is a {kind}, no {wanted}");
                return Err(Failure::message(Kind::Plugin, text));
            }
            Ok(Some(standby).filter(|standby| standby.id() != used.id()))
        }
    };
    let standby_order = standby(&order, DEFAULT_ORDER)?;
    let standby_sampler = standby(&sampler, DEFAULT_SAMPLER)?;
    let standby_loss = standby(&loss, DEFAULT_LOSS)?;
    let standbys = [&standby_order, &standby_sampler, &standby_loss];
    let mut warnings = unused(
        config,
        &names([&order, &sampler, &loss]),
        &names(standbys.into_iter().flatten()),
    )?;
    let fallbacks = Fallbacks {
        order: standby_order
            .map(|order| configure(order, config, Plugin::into_order))
            .transpose()?
            .map(|order| Box::new(order) as _),
        sampler: standby_sampler
            .map(|sampler| configure(sampler, config, Plugin::into_sampler))
            .transpose()?
            .map(|sampler| Box::new(sampler) as _),
    };
    let standby_loss = standby_loss
        .map(|standby| make_loss(standby, config, &mut Vec::new()))
        .transpose()?;
    let loss = make_loss(loss, config, &mut warnings)?;
    Ok(Filled {
        strategies: Strategies {
            order: Box::new(configure(order, config, Plugin::into_order)?),
            sampler: Box::new(configure(sampler, config, Plugin::into_sampler)?),
            loss: GuardedLoss::new(loss, standby_loss),
            fallbacks,
        },
        log,
        warnings,
    })
}

/// Whether plugins of these kinds can take each other's place.
fn same_slot(a: Slot, b: Slot) -> bool {
    let is_loss = |kind| matches!(kind, Slot::TracedLoss | Slot::ComputedLoss);
    a == b || is_loss(a) && is_loss(b)
}

/// A loss with the parameters that the configuration has for it.
fn make_loss(plugin: Plugin, config: &Config, warnings: &mut Vec<String>) -> Result<Box<dyn Loss>> {
    let parameters = loss_parameters(config, &plugin, warnings);
    Ok(match plugin.into_loss(&parameters)? {
        LoadedLoss::Traced(graph) => {
            let loss = pbg_train::traced(graph);
            if config.comparator == Comparator::Cos && stays_large(loss.as_ref()) {
                warnings.push(format!(
                    "loss_fn: {} with comparator cos: scores stay within -1 to 1, so the loss \
                     cannot get small; use comparator dot",
                    loss.id().name
                ));
            }
            loss
        }
        LoadedLoss::Computed(code) => Box::new(code),
    })
}

/// Whether the best scores within -1 to 1 leave more than a third of the loss of equal ones. A
/// loss that fails here says so when it is trained.
fn stays_large(loss: &dyn Loss) -> bool {
    let mut losses = [0.0; 2];
    let evaluated = loss.worker().evaluate(&mut Scores {
        positive: &[1.0, 0.0],
        negative: &mut [-1.0, 0.0],
        columns: 1,
        positive_gradient: &mut [0.0; 2],
        loss: &mut losses,
    });
    let [best, equal] = losses;
    evaluated.is_ok() && 3.0 * best > equal
}

/// Where the plugins of `config` run.
///
/// # Errors
/// When the machine has no support for the sandbox.
pub(crate) fn sandbox(
    config: &Config,
    faults: Option<PathBuf>,
    terminal: Terminal,
) -> Result<Sandbox> {
    let grants = config.plugins.grants.iter().map(|grant| Grant {
        plugin: grant.plugin.clone(),
        read: grant.read.iter().map(PathBuf::from).collect(),
    });
    let pins = config.plugins.pins.iter();
    let pins = pins.map(|pin| (pin.plugin.clone(), pin.sha256.clone()));
    let sandbox = cached(Limits::from(&config.plugins.limits), terminal)?
        .with_grants(grants.collect())
        .with_pins(pins.collect());
    Ok(match faults {
        Some(faults) => sandbox.with_faults(faults),
        None => sandbox,
    })
}

/// Where plugins run that a process of this program compiles each time.
///
/// # Errors
/// When the machine has no support for the sandbox.
pub(crate) fn uncached(limits: Limits) -> Result<Sandbox> {
    Ok(Sandbox::new(limits)?.with_compiler(Compiler::this_program()))
}

/// As [`uncached`], with what was compiled kept where the user has a place for it.
///
/// # Errors
/// As [`uncached`].
pub(crate) fn cached(limits: Limits, terminal: Terminal) -> Result<Sandbox> {
    let sandbox = uncached(limits)?;
    Ok(match cache::open(terminal) {
        Some(cache) => sandbox.with_cache(cache),
        None => sandbox,
    })
}

/// A plugin with the parameters that the configuration has for it.
fn configure<T>(
    plugin: Plugin,
    config: &Config,
    into: impl FnOnce(Plugin, &Value) -> std::result::Result<T, LoadError>,
) -> Result<T> {
    let parameters = parameters(config, &plugin);
    Ok(into(plugin, &parameters)?)
}

fn take(slot: &mut Option<Plugin>, plugin: Plugin, name: &str) -> Result<()> {
    if let Some(first) = slot {
        let (kind, first) = (plugin.inspection().kind, first.id());
        let text = format!("--plugin {name}: a run has one {kind}, and {first} is it already");
        return Err(Failure::message(Kind::Usage, text));
    }
    *slot = Some(plugin);
    Ok(())
}

/// What the configuration sets for `plugin`.
fn parameters(config: &Config, plugin: &Plugin) -> Value {
    let given = config.plugins.params.get(&plugin.id().name);
    let given = given.into_iter().flatten();
    given
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}

/// What the configuration sets for the loss, PBG's key `margin` included.
fn loss_parameters(config: &Config, plugin: &Plugin, warnings: &mut Vec<String>) -> Value {
    const MARGIN: &str = "margin";
    let mut given = parameters(config, plugin);
    let (Some(margin), Some(object)) = (config.margin, given.as_object_mut()) else {
        return given;
    };
    let mut declared = plugin.inspection().metadata.parameters.iter();
    if declared.any(|parameter| parameter.name == MARGIN) {
        // As it is written: 0.1 and not the f64 next to its f32.
        let written = margin.to_string().parse().unwrap_or(f64::from(margin));
        object.entry(MARGIN).or_insert(written.into());
    } else {
        warnings.push(format!("margin: the loss {} has none", plugin.id()));
    }
    given
}

fn names<'a>(plugins: impl IntoIterator<Item = &'a Plugin>) -> BTreeSet<String> {
    plugins.into_iter().map(|plugin| plugin.id().name).collect()
}

/// What the configuration says of plugins that take no part, likely misspelt names, or that take
/// part only where another one fails.
///
/// # Errors
/// When a pin is among it: what was pinned is not what runs.
fn unused(
    config: &Config,
    used: &BTreeSet<String>,
    standbys: &BTreeSet<String>,
) -> Result<Vec<String>> {
    let plugins = &config.plugins;
    let known = |name: &String| used.contains(name) || standbys.contains(name);
    if let Some(pin) = plugins.pins.iter().find(|pin| !known(&pin.plugin)) {
        let name = &pin.plugin;
        let text =
            format!("plugins.pins: {name} is pinned, and this run uses no plugin of that name");
        let help = format!(
            "it uses {}",
            used.iter().cloned().collect::<Vec<_>>().join(", ")
        );
        return Err(Failure::message(Kind::Config, text).help(help));
    }
    let params = plugins.params.keys().map(|name| ("plugins.params", name));
    let grants = plugins
        .grants
        .iter()
        .map(|grant| ("plugins.grants", &grant.plugin));
    Ok(params
        .chain(grants)
        .filter(|(_, name)| !used.contains(*name))
        .map(|(key, name)| match standbys.contains(name) {
            true => format!("{key}: {name} takes part only if another plugin fails"),
            false => format!("{key}: {name} is no plugin of this run"),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_of_their_plugin() {
        let log = PluginLog::default();
        log.sink()(LogLevel::Warn, "affinity: odd: very");
        let expected = Event::PluginLog {
            plugin: "affinity".to_owned(),
            level: "warn".to_owned(),
            message: "odd: very".to_owned(),
        };
        assert_eq!(log.drain(), [expected]);
        assert_eq!(log.drain(), []);
    }

    #[test]
    fn a_flood_is_bounded() {
        let log = PluginLog::default();
        for _ in 0..2 * MAX_LINES {
            log.sink()(LogLevel::Info, "affinity: la");
        }
        assert_eq!(log.drain().len(), MAX_LINES);
    }
}
