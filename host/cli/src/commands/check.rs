//! `pbg-host check`.

use std::io::{self, Write};

use pbg_train::CheckReport;

use crate::arguments::ConfigArgs;
use crate::failure::Result;
use crate::terminal::{self, Terminal};
use crate::{format, load, plugins};

/// Check everything and show the memory and disk that training will need; starts nothing.
///
/// Reads the configuration, the dataset with the checksums of all its files, the checkpoint if there is
/// one, and the plugins; asks the bucket order for the plan of the next pass. Training stays below the
/// memory that is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host check
  pbg-host check pbg.toml --set buffer_partitions=4
  pbg-host check pbg.toml --plugin my_order.wasm --json")]
pub struct Args {
    /// Which configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Component that takes the place of a standard strategy, as for `train`; can be repeated.
    #[arg(long = "plugin", value_name = "FILE|NAME")]
    plugins: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Checks.
///
/// # Errors
/// The first thing that would keep training from starting.
pub fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let config = load::config(&args.config, terminal)?;
    let filled = plugins::fill(&config, &args.plugins)?;
    filled.warnings.iter().for_each(|text| terminal.warn(text));
    let mut strategies = filled.strategies;
    let report = pbg_train::check(&config, strategies.order.as_mut())?;
    if args.json {
        return terminal::print_json(&report);
    }
    terminal::print(|out| print_report(out, &report))
}
