//! The configuration that a command line names.

use std::path::Path;

use pbg_config::Config;
use pbg_session::load;
pub(crate) use pbg_session::load::DEFAULT_NAME;
use pbg_train::Resolved;

use crate::failure::Result;
use crate::options::{ConfigArgs, TrainedOptions};
use crate::terminal::Terminal;

/// Reads the configuration, and prints what is odd about it.
///
/// # Errors
/// As [`load::config`].
pub(crate) fn config(args: &ConfigArgs, terminal: Terminal) -> Result<Config> {
    load::config(args.config.as_deref(), &args.overrides.set, &terminal)
}

/// The trained model that a command line names. All that a command reads of its checkpoint is of one version.
///
/// # Errors
/// As [`load::trained`], and when the configuration does not fit its dataset.
pub(crate) fn trained(
    named: Option<&Path>,
    options: &TrainedOptions,
    terminal: Terminal,
) -> Result<Resolved> {
    let (checkpoint, overrides) = (options.checkpoint.as_deref(), &options.overrides.set);
    load::trained(named, checkpoint, options.best, overrides, &terminal)?.resolve()
}
