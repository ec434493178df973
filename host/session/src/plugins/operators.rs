//! Operator plugins: their formulas are loaded into the configuration.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_config::Config;
use pbg_wasm::{LoadedPlugin, PluginSlot, Sandbox};

use super::configured::parameters;
use super::{sandbox, search_path};
use crate::failure::{Failure, Result};
use crate::front::FrontEnd;
use crate::kind::FailureKind;

/// Loads the formulas of operator plugins that the relations of `config` name and that it does not contain yet.
///
/// # Errors
/// When a plugin cannot be loaded, or is not an operator.
pub fn load(config: &mut Config, front: &dyn FrontEnd) -> Result<()> {
    let names = config.operators_to_load();
    if names.is_empty() {
        return Ok(());
    }
    let sandbox = sandbox(config, None, front)?;
    for name in names {
        let plugin = open(&sandbox, &name)?;
        take(config, plugin, &name)?;
    }
    Ok(())
}

/// Sets the operator of every relation of `config` to the operator among the plugins `named`, if there is one, and
/// returns the other plugins. Calls that are running when `stop` is set end soon.
///
/// # Errors
/// When a plugin cannot be loaded, or there are two operators.
pub fn given(
    config: &mut Config,
    named: &[String],
    stop: Option<&Arc<AtomicBool>>,
    front: &dyn FrontEnd,
) -> Result<Vec<String>> {
    let mut others = Vec::new();
    let mut first: Option<String> = None;
    if named.is_empty() {
        return Ok(others);
    }
    let mut sandbox = sandbox(config, None, front)?;
    if let Some(stop) = stop {
        sandbox = sandbox.with_interrupt(Arc::clone(stop));
    }
    for name in named {
        let plugin = open(&sandbox, name)?;
        if plugin.inspection().kind != PluginSlot::TracedOperator {
            others.push(name.clone());
            continue;
        }
        if let Some(first) = &first {
            let text = format!(
                "--plugin {name}: there can be only one operator of all relations, and {first} is already given; \
                 set operators per relation in the configuration"
            );
            return Err(Failure::message(FailureKind::Usage, text));
        }
        first = Some(plugin.id().to_string());
        for relation in &mut config.relations {
            relation.operator.clone_from(name);
        }
        config.keep_formula_of_comparator();
        take(config, plugin, name)?;
    }
    Ok(others)
}

fn open(sandbox: &Sandbox, name: &str) -> Result<LoadedPlugin> {
    Ok(sandbox.open(search_path().resolve(name)?)?)
}

fn take(config: &mut Config, plugin: LoadedPlugin, name: &str) -> Result<()> {
    let parameters = parameters(config, &plugin);
    let operator = plugin.into_operator(&parameters)?;
    let formula = operator.formula.definition();
    config
        .set_formula(name, formula)
        .map_err(|error| Failure::new(FailureKind::Plugin, error))
}
