//! `pbg-host cluster status`.

use std::thread;

use crate::failure::Result;
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};
use crate::trainers::{Rules, Status};

/// Show where a run is and what its trainers do.
///
/// Listens for as long as trainers take to tell that they live (`distributed.heartbeat`).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host cluster status pbg.toml
  pbg-host cluster status pbg.toml --watch
  pbg-host cluster status pbg.toml --json")]
pub(crate) struct Args {
    /// Configuration of the run.
    #[command(flatten)]
    config: ConfigArgs,
    /// Show it again and again, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Shows.
///
/// # Errors
/// When the run cannot be reached.
pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let (config, connection) = super::reach(&args.config, terminal)?;
    let rules = Rules::of(&config);
    loop {
        // Until every trainer that lives was heard.
        thread::sleep(rules.heartbeat.mul_f64(1.2));
        let status = Status::of(&connection)?;
        match args.json {
            true => terminal::print_json(&status)?,
            false => terminal::print(|out| {
                writeln!(out, "{}", status.head())?;
                writeln!(out, "{}", status.table(&rules))
            })?,
        }
        if !args.watch {
            return Ok(());
        }
    }
}
