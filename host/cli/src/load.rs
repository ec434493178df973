//! Loads the configuration or the trained model that a command line names.

use std::path::Path;

use pbg_config::Config;
use pbg_model::ResolvedConfig;
use pbg_session::load;
pub(crate) use pbg_session::load::DEFAULT_NAME;

use crate::failure::Result;
use crate::options::{ConfigArgs, TrainedArgs, TrainedOptions};
use crate::terminal::Terminal;

/// Reads the configuration and prints its warnings.
///
/// # Errors
/// As for [`load::config`].
pub(crate) fn config(args: &ConfigArgs, terminal: Terminal) -> Result<Config> {
    load::config(args.config.as_deref(), &args.overrides.set, &terminal)
}

/// Reads the configuration as [`config`] does, for a command whose option `--plugin` may replace operators and the
/// comparator before their formulas are loaded.
///
/// # Errors
/// As for [`load::without_formulas`].
pub(crate) fn without_formulas(args: &ConfigArgs, terminal: Terminal) -> Result<Config> {
    load::without_formulas(args.config.as_deref(), &args.overrides.set, &terminal)
}

/// Opens the trained model that a command line names. Everything that a command reads from its checkpoint is of one
/// version.
///
/// # Errors
/// As for [`load::trained`], and when the configuration does not match its dataset.
pub(crate) fn trained(args: &TrainedArgs, terminal: Terminal) -> Result<ResolvedConfig> {
    trained_at(args.config.as_deref(), &args.options, terminal)
}

/// Opens a model as [`trained`] does, by its path and the options.
///
/// # Errors
/// As for [`trained`].
pub(crate) fn trained_at(
    named: Option<&Path>,
    options: &TrainedOptions,
    terminal: Terminal,
) -> Result<ResolvedConfig> {
    let (checkpoint, overrides) = (options.checkpoint.as_deref(), &options.overrides.set);
    load::trained(named, checkpoint, options.best, overrides, &terminal)?.resolve()
}
