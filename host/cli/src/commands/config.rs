//! `pbg-host config`.

use clap::ValueEnum;
use pbg_config::{self as config, Preset};

use crate::failure::Result;
use crate::{plugins, terminal};

/// Print a configuration to start with, or the JSON schema of configurations.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print the configuration of a well-known model, with values that work well on real graphs.
    #[command(after_help = "\
Examples:
  pbg-host config new --preset complex > pbg.toml
  pbg-host config new --preset transe > pbg.toml")]
    New {
        /// Name of the model.
        #[arg(long, value_name = "NAME")]
        preset: PresetArg,
    },
    /// Print a commented configuration with the default values of all keys.
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

/// Model with a preset configuration.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PresetArg {
    /// ComplEx with reciprocal relations and N3: the first model to try on a knowledge graph.
    Complex,
    /// DistMult: relations scale coordinates.
    Distmult,
    /// TransE: relations translate points, which are compared by distance.
    Transe,
    /// RotatE: relations rotate complex numbers.
    Rotate,
    /// ComplEx for small graphs, of at most some thousand entities: all of them are negatives.
    Small,
    /// PyTorch-BigGraph's own configuration of FB15k.
    Pbg,
}

impl From<PresetArg> for Preset {
    fn from(named: PresetArg) -> Self {
        match named {
            PresetArg::Complex => Self::Complex,
            PresetArg::Distmult => Self::Distmult,
            PresetArg::Transe => Self::Transe,
            PresetArg::Rotate => Self::Rotate,
            PresetArg::Small => Self::Small,
            PresetArg::Pbg => Self::Pbg,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(command: &Command) -> Result<()> {
    let installed = plugins::installed(&[]);
    match command {
        Command::New { preset } => {
            let text = Preset::from(*preset).text();
            terminal::print(|out| out.write_all(text.as_bytes()))
        }
        Command::Default => {
            let text = config::default_toml(&installed);
            terminal::print(|out| out.write_all(text.as_bytes()))
        }
        Command::Schema => terminal::print_json(&config::schema(&installed)),
    }
}
