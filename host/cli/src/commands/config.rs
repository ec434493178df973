//! `pbg-host config`.

use pbg_config as config;

use crate::failure::Result;
use crate::{plugins, terminal};

/// Print a configuration to start from, or its JSON schema.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print a configuration with every key, commented, at its default.
    #[command(after_help = "Example:\n  pbg-host config default > pbg.toml")]
    Default,
    /// Print the JSON schema of the configuration, for editors that complete and check TOML.
    #[command(after_help = "\
Example:
  pbg-host config schema > pbg.schema.json
and as the first line of pbg.toml, for editors with Taplo or Even Better TOML:
  #:schema ./pbg.schema.json")]
    Schema,
}

/// Prints it.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(command: &Command) -> Result<()> {
    let installed = plugins::installed(&[]);
    match command {
        Command::Default => {
            let text = config::default_toml(&installed);
            terminal::print(|out| out.write_all(text.as_bytes()))
        }
        Command::Schema => terminal::print_json(&config::schema(&installed)),
    }
}
