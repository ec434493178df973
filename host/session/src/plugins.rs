//! Fills the slots of a run with the plugins that the command line and the configuration name.

mod configured;
mod formulas;
mod log;
mod slots;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_config::{Config, StrategyNames};
use pbg_core::strategy::{BucketOrder, Loss};
use pbg_train::{Fallbacks, GuardedLoss, Strategies};
use pbg_wasm::{FolderGrant, Limits, PluginPath, PluginSlot, Sandbox};

pub use self::formulas::{
    NamedPlugins, given as given_formulas, load as load_formulas, origin as formula_origin,
    require_effect, require_own_names,
};
pub use self::log::PluginLog;
use self::slots::{FallbackPlugins, Occupant, PluginSources, Slots};
use crate::cache;
use crate::failure::Result;
use crate::front::FrontEnd;

/// Strategies of a run, their log, and warnings.
pub struct LoadedStrategies {
    /// Strategies for the training loop.
    pub strategies: Strategies,
    /// Log of the plugins.
    pub log: PluginLog,
    /// Warnings about the configuration of plugins.
    pub warnings: Vec<String>,
}

/// Strategies that replace those of the configuration in the slots of a run.
#[derive(Default)]
pub struct StrategyOverrides<'a> {
    /// Files or names of plugins.
    pub named: &'a [String],
    /// Bucket order of the caller, not a component.
    pub order: Option<Box<dyn BucketOrder>>,
    /// Loss of the caller, not a component.
    pub loss: Option<Box<dyn Loss>>,
}

impl<'a> StrategyOverrides<'a> {
    /// Creates a value with files or names only.
    #[must_use]
    pub fn named(named: &'a [String]) -> Self {
        Self {
            named,
            ..Self::default()
        }
    }
}

/// Environment variable with the folders of the user's own plugins, separated by colons.
const PLUGIN_PATH: &str = "PBG_PLUGIN_PATH";

/// Returns the search path for plugins that are named without a folder.
pub fn search_path() -> PluginPath {
    let folders = std::env::var_os(PLUGIN_PATH).unwrap_or_default();
    PluginPath::new(std::env::split_paths(&folders))
}

/// Returns the names that a configuration may use: the standard plugins, and `files` of the plugin path.
pub fn installed(files: &[PathBuf]) -> StrategyNames {
    let standard = |kinds: &[PluginSlot]| {
        let plugins = pbg_wasm::standard_plugins().iter();
        let plugins = plugins.filter(|plugin| kinds.contains(&plugin.kind));
        let mut names: Vec<_> = plugins.map(|plugin| plugin.name.to_owned()).collect();
        names.sort();
        names
    };
    StrategyNames {
        orders: standard(&[PluginSlot::BucketOrder]),
        samplers: standard(&[PluginSlot::RelationSampler]),
        negatives: standard(&[PluginSlot::NegativeSampler, PluginSlot::NegativeSelector]),
        losses: standard(&[PluginSlot::TracedLoss, PluginSlot::ComputedLoss]),
        operators: standard(&[PluginSlot::TracedOperator]),
        comparators: standard(&[PluginSlot::Comparator]),
        schedules: standard(&[PluginSlot::RateSchedule]),
        files: files.iter().filter_map(|file| plugin_name(file)).collect(),
    }
}

/// Returns the name by which a configuration refers to the component in a file of the plugin path.
pub fn plugin_name(file: &Path) -> Option<String> {
    Some(file.file_stem()?.to_str()?.to_owned())
}

/// Loads the strategies that `config` names, replaced by those of `given` in their slots. Calls that fail write their
/// arguments to the folder `faults`; calls that are running when `stop` is set end soon.
///
/// # Errors
/// When a plugin cannot be loaded, fits no slot, or its slot is taken already.
pub fn fill(
    config: &Config,
    given: StrategyOverrides<'_>,
    faults: Option<PathBuf>,
    stop: Option<&Arc<AtomicBool>>,
    front: &dyn FrontEnd,
) -> Result<LoadedStrategies> {
    let log = PluginLog::default();
    let mut sandbox = sandbox(config, faults, front)?.with_log(log.sink());
    if let Some(stop) = stop {
        sandbox = sandbox.with_interrupt(Arc::clone(stop));
    }
    let source = PluginSources {
        path: search_path(),
        sandbox,
    };
    let used = Slots::new(&source, config, given)?;
    let standbys = FallbackPlugins::new(&source, config, &used)?;
    let installed = installed(&source.path.files()).names();
    let mut names = used.names();
    names.extend(config.formula_plugins());
    let mut warnings = slots::unused(config, &names, &standbys.names(), &installed)?;
    let order = |plugin| configured::order(plugin, config);
    let sampler = |plugin| configured::sampler(plugin, config);
    let negatives = |plugin| configured::negatives(plugin, config);
    let schedule = |plugin| configured::schedule(plugin, config);
    let fallbacks = Fallbacks {
        order: standbys.order.map(order).transpose()?,
        sampler: standbys.sampler.map(sampler).transpose()?,
        negatives: standbys.negatives.map(negatives).transpose()?,
    };
    // Warnings about a loss that may never be used are not shown.
    let standby_loss = standbys.loss;
    let standby_loss = standby_loss.map(|plugin| configured::loss(plugin, config, &mut Vec::new()));
    let loss = match used.loss {
        Occupant::Plugin(plugin) => configured::loss(*plugin, config, &mut warnings)?,
        Occupant::Own(_, loss) => loss,
    };
    warnings.extend(configured::cosine_warning(loss.as_ref(), config));
    Ok(LoadedStrategies {
        strategies: Strategies {
            order: match used.order {
                Occupant::Plugin(plugin) => order(*plugin)?,
                Occupant::Own(_, order) => order,
            },
            sampler: sampler(used.sampler)?,
            negatives: Some(configured::negative_strategy(used.negatives, config)?),
            schedule: used.schedule.map(schedule).transpose()?,
            loss: GuardedLoss::new(loss, standby_loss.transpose()?),
            fallbacks,
        },
        log,
        warnings,
    })
}

/// Creates the sandbox in which the plugins of `config` run.
///
/// # Errors
/// When the machine does not support the sandbox.
pub fn sandbox(config: &Config, faults: Option<PathBuf>, front: &dyn FrontEnd) -> Result<Sandbox> {
    let grants = config.plugins.grants.iter().map(|grant| FolderGrant {
        plugin: grant.plugin.clone(),
        read: grant.read.iter().map(PathBuf::from).collect(),
    });
    let pins = config.plugins.pins.iter();
    let pins = pins.map(|pin| (pin.plugin.clone(), pin.sha256.clone()));
    let sandbox = cached(Limits::from(&config.plugins.limits), front)?
        .with_grants(grants.collect())
        .with_pins(pins.collect());
    Ok(match faults {
        Some(faults) => sandbox.with_faults(faults),
        None => sandbox,
    })
}

/// Creates a sandbox whose plugins are compiled anew each time, in a separate process.
///
/// # Errors
/// When the machine does not support the sandbox.
pub fn uncached(limits: Limits, front: &dyn FrontEnd) -> Result<Sandbox> {
    Ok(Sandbox::new(limits)?.with_compiler(front.compiler()))
}

/// Creates a sandbox as [`uncached`] does, and caches compiled plugins if the user has a folder for them.
///
/// # Errors
/// As for [`uncached`].
pub fn cached(limits: Limits, front: &dyn FrontEnd) -> Result<Sandbox> {
    let sandbox = uncached(limits, front)?;
    Ok(match cache::open(front) {
        Some(cache) => sandbox.with_cache(cache),
        None => sandbox,
    })
}
