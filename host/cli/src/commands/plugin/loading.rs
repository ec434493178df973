//! Loading of the plugins that the commands name.

use std::path::PathBuf;

use pbg_contract::TracedLossInfo;
use pbg_core::strategy::Loss;
use pbg_formula::comparator::ComparatorHandle;
use pbg_formula::operator::FormulaHandle;
use pbg_session::FrontEnd as _;
use pbg_wasm::{FolderGrant, Limits, LoadedLoss, LoadedPlugin, Sandbox};
use serde_json::Value;

use crate::failure::Result;
use crate::plugins::{self, search_path};
use crate::terminal::Terminal;

/// Creates a sandbox whose plugins log to the terminal if that is verbose.
pub(super) fn sandbox(limits: Limits, terminal: Terminal) -> Result<Sandbox> {
    Ok(plugins::cached(limits, &terminal)?.with_log(terminal.plugin_detail()))
}

/// Opens the plugin of a file or a name; returns it with a label of its source for messages.
pub(super) fn open(sandbox: &Sandbox, name: &str) -> Result<(LoadedPlugin, String)> {
    let source = search_path().resolve(name)?;
    let label = source.label();
    Ok((sandbox.open(source)?, label))
}

/// Opens the plugin as [`open`] does, and lets it read `folders`.
pub(super) fn open_with_folders(
    sandbox: &Sandbox,
    name: &str,
    folders: &[PathBuf],
) -> Result<(LoadedPlugin, String)> {
    let (plugin, label) = open(sandbox, name)?;
    if folders.is_empty() {
        return Ok((plugin, label));
    }
    // Folders are granted by the name that the plugin gives itself.
    let grant = FolderGrant {
        plugin: plugin.id().name,
        read: folders.to_vec(),
    };
    open(&sandbox.clone().with_grants(vec![grant]), name)
}

/// Instantiates the plugin as a loss; returns it with the properties of its formula.
pub(super) fn loss(
    plugin: &LoadedPlugin,
    parameters: &Value,
) -> Result<(Box<dyn Loss>, TracedLossInfo)> {
    Ok(match plugin.clone().into_loss(parameters)? {
        LoadedLoss::Traced(traced) => {
            let formula = TracedLossInfo::of(&traced.graph);
            (pbg_train::traced(traced), formula)
        }
        LoadedLoss::Computed(code) => (Box::new(code), TracedLossInfo::default()),
    })
}

/// Instantiates the plugin as an operator; returns its formula.
pub(super) fn operator(plugin: &LoadedPlugin, parameters: &Value) -> Result<FormulaHandle> {
    Ok(FormulaHandle::new(
        plugin.clone().into_operator(parameters)?.formula,
    ))
}

/// Instantiates the plugin as a comparator; returns its formula.
pub(super) fn comparator(plugin: &LoadedPlugin, parameters: &Value) -> Result<ComparatorHandle> {
    Ok(ComparatorHandle::new(
        plugin.clone().into_comparator(parameters)?.formula,
    ))
}

/// Loads the loss of this name with default parameters.
///
/// # Errors
/// When there is no such loss, or it cannot be loaded.
pub(crate) fn loss_with_defaults(name: &str, terminal: Terminal) -> Result<Box<dyn Loss>> {
    let (plugin, _) = open(&sandbox(Limits::default(), terminal)?, name)?;
    Ok(loss(&plugin, &Value::Null)?.0)
}

/// Parses `KEY=VALUE` of a parameter; the value is JSON if it parses as such, otherwise a string.
pub(super) fn parameter(argument: &str) -> Result<(String, Value), String> {
    let (key, text) = argument
        .split_once('=')
        .ok_or("must be KEY=VALUE".to_owned())?;
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    Ok((key.trim().to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_the_type_that_they_look_like() {
        let value = |text: &str| parameter(text).map(|(_, value)| value);
        assert_eq!(value("a=true"), Ok(Value::Bool(true)));
        assert_eq!(value("a=1.5"), Ok(Value::from(1.5)));
        assert_eq!(value("a=b=c"), Ok(Value::from("b=c")));
        assert!(parameter("a").is_err());
    }
}
