//! Plugins that the command line names and the configuration keeps: operators and comparators, whose formulas are loaded
//! into it, and the learning rate schedule.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_config::{Config, FormulaOrigin, is_plugin_path};
use pbg_core::model::Comparator;
use pbg_core::strategy::StrategyId;
use pbg_wasm::{LoadedPlugin, PluginSlot, PluginSource, Sandbox};

use super::configured::parameters;
use super::{sandbox, search_path};
use crate::failure::{Failure, Result};
use crate::front::FrontEnd;
use crate::kind::FailureKind;

/// Loads the formulas of plugins that the relations and the comparator of `config` name and that it does not contain yet.
///
/// # Errors
/// When a plugin cannot be loaded, or is of another kind, or its formula does not suit the configuration.
pub fn load(config: &mut Config, front: &dyn FrontEnd) -> Result<()> {
    let operators = config.operators_to_load();
    let comparator = config.comparator_to_load().map(str::to_owned);
    if operators.is_empty() && comparator.is_none() {
        return Ok(());
    }
    let sandbox = sandbox(config, None, front)?;
    for name in operators {
        let plugin = open(&sandbox, &name, PluginSlot::TracedOperator)?;
        take_operator(config, plugin, &name)?;
    }
    if let Some(name) = comparator {
        let plugin = open(&sandbox, &name, PluginSlot::Comparator)?;
        take_comparator(config, plugin, &name)?;
    }
    // Some rules are about formulas, which were not known when the configuration was read.
    Ok(config.check()?)
}

/// Plugins that the command line names, by what they are.
#[derive(Debug, Default)]
pub struct NamedPlugins {
    /// Operator of all relations.
    pub operator: Option<String>,
    /// Comparator.
    pub comparator: Option<String>,
    /// Learning rate schedule.
    pub schedule: Option<String>,
    /// Plugins that the configuration does not name.
    pub others: Vec<String>,
}

/// Sets the operator of every relation of `config`, its comparator and its learning rate schedule to those among the
/// plugins `named`, if there are any, and then loads the formulas that `config` still lacks: plugins that are replaced
/// need not exist. Calls of the plugins `named` that are running when `stop` is set end soon.
///
/// # Errors
/// When a plugin cannot be loaded, or there are two of one of these kinds, or the configuration does not suit a schedule or
/// a formula, and as for [`require_effect`].
pub fn given(
    config: &mut Config,
    named: &[String],
    stop: Option<&Arc<AtomicBool>>,
    front: &dyn FrontEnd,
) -> Result<NamedPlugins> {
    let found = match named.is_empty() {
        true => NamedPlugins::default(),
        false => replace(config, named, stop, front)?,
    };
    load(config, front)?;
    if found.operator.is_some() || found.comparator.is_some() {
        config.check()?;
    }
    require_effect(config, None, front)?;
    Ok(found)
}

/// Ensures that parameters of plugins have an effect, which those of a formula that is text have not. If it is unknown
/// how a formula was built, this is a warning. `trained` is the configuration of a checkpoint that `config` is for: its
/// parameters have had their effect.
///
/// # Errors
/// When there are parameters for the plugin of a formula that was built with others.
pub fn require_effect(
    config: &Config,
    trained: Option<&Config>,
    front: &dyn FrontEnd,
) -> Result<()> {
    for idle in config.idle_parameters() {
        let of = |config: &Config| config.plugins.params.get(&idle.plugin).cloned();
        if trained.is_some_and(|trained| of(trained) == of(config)) {
            continue;
        }
        if !idle.is_certain() {
            front.warn(&format_args!("{idle}"));
            continue;
        }
        let unset = format!("{}=none", idle.formula_key());
        let unset = match unset.contains('"') {
            true => format!("'{unset}'"),
            false => unset,
        };
        let help = format!(
            "remove the parameters, or the formula, so that the plugin builds it again: `--set {unset}`"
        );
        return Err(Failure::new(FailureKind::Config, idle).help(help));
    }
    Ok(())
}

/// Sets what the plugins `named` replace.
fn replace(
    config: &mut Config,
    named: &[String],
    stop: Option<&Arc<AtomicBool>>,
    front: &dyn FrontEnd,
) -> Result<NamedPlugins> {
    let mut found = NamedPlugins::default();
    let mut sandbox = sandbox(config, None, front)?;
    if let Some(stop) = stop {
        sandbox = sandbox.with_interrupt(Arc::clone(stop));
    }
    for name in named {
        let source = search_path().resolve(name)?;
        let key = key_of(name, &source);
        let plugin = sandbox.open(source)?;
        match plugin.inspection().kind {
            PluginSlot::TracedOperator => {
                if let Some(first) = &found.operator {
                    let text = format!(
                        "--plugin {name}: there can be only one operator of all relations, and {first} is already \
                         given; set operators per relation in the configuration"
                    );
                    return Err(Failure::message(FailureKind::Usage, text));
                }
                for relation in &mut config.relations {
                    relation.operator.clone_from(&key);
                }
                take_operator(config, plugin, &key)?;
                found.operator = Some(name.clone());
            }
            PluginSlot::Comparator => {
                if let Some(first) = &found.comparator {
                    let text = format!(
                        "--plugin {name}: a run has only one comparator, and {first} is already given"
                    );
                    return Err(Failure::message(FailureKind::Usage, text));
                }
                config.comparator.clone_from(&key);
                take_comparator(config, plugin, &key)?;
                found.comparator = Some(name.clone());
            }
            PluginSlot::RateSchedule => {
                if let Some(first) = &found.schedule {
                    let text = format!(
                        "--plugin {name}: a run has only one learning rate schedule, and {first} is already given"
                    );
                    return Err(Failure::message(FailureKind::Usage, text));
                }
                config.lr_schedule.decay = key;
                config.check()?;
                found.schedule = Some(name.clone());
            }
            _ => found.others.push(name.clone()),
        }
    }
    if found.operator.is_some() || found.comparator.is_some() {
        require_own_names(config)?;
        config.remove_unused_formulas();
    }
    Ok(found)
}

/// Returns the name under which a configuration keeps the formula of a plugin: as it was given, or the path of its file
/// if it was given by a bare name, which could be that of an operator or comparator of the program.
fn key_of(name: &str, source: &PluginSource) -> String {
    match source {
        PluginSource::File(path) if !is_plugin_path(name) => match path.to_str() {
            Some(path) if is_plugin_path(path) => path.to_owned(),
            Some(path) => format!("./{path}"),
            None => name.to_owned(),
        },
        _ => name.to_owned(),
    }
}

/// Checks that the comparator has a name of its own, since its formula and those of operators are in one table.
///
/// # Errors
/// When a relation has an operator of the comparator's name.
pub fn require_own_names(config: &Config) -> Result<()> {
    let name = &config.comparator;
    let shared = config.relations.iter().any(|r| &r.operator == name);
    if !shared || Comparator::built_in(name).is_some() {
        return Ok(());
    }
    let text = format!(
        "{name} is the operator of a relation and the comparator, but one formula cannot be both"
    );
    let help = "give one of them another name";
    Err(Failure::message(FailureKind::Usage, text).help(help))
}

fn open(sandbox: &Sandbox, name: &str, slot: PluginSlot) -> Result<LoadedPlugin> {
    Ok(sandbox.open(search_path().resolve_for(name, slot)?)?)
}

fn take_operator(config: &mut Config, plugin: LoadedPlugin, name: &str) -> Result<()> {
    let (parameters, origin) = (parameters(config, &plugin), origin(config, &plugin.id()));
    let operator = plugin.into_operator(&parameters)?;
    let stored = config.set_formula(name, operator.formula.definition(), &origin);
    stored.map_err(|error| Failure::new(FailureKind::Plugin, error))
}

fn take_comparator(config: &mut Config, plugin: LoadedPlugin, name: &str) -> Result<()> {
    let (parameters, origin) = (parameters(config, &plugin), origin(config, &plugin.id()));
    let comparator = plugin.into_comparator(&parameters)?;
    let stored = config.set_formula(name, comparator.formula.definition(), &origin);
    stored.map_err(|error| Failure::new(FailureKind::Plugin, error))
}

/// Returns the origin of a formula that a plugin builds with the parameters of `config`.
pub fn origin(config: &Config, plugin: &StrategyId) -> FormulaOrigin {
    let params = config.plugins.params.get(&plugin.name);
    FormulaOrigin::of_plugin(plugin, params.cloned().unwrap_or_default())
}
