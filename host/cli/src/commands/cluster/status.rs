//! `pbg-host cluster status`.

use pbg_ledger::transport::LiveTraffic as _;

use crate::cluster_status::{ClusterStatus, HeartbeatTimes};
use crate::failure::Result;
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};

/// Show the progress of a run and the state of its trainers.
///
/// Waits for one heartbeat of each trainer (`distributed.heartbeat`).
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
    /// Show the status repeatedly, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the run cannot be reached.
pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let (config, connection) = super::reach(&args.config, terminal)?;
    let rules = HeartbeatTimes::of(&config);
    loop {
        // Waits until every live trainer has sent a heartbeat.
        pbg_clock::sleep((rules.heartbeat + connection.delay()).mul_f64(1.2));
        let status = ClusterStatus::of(&connection)?;
        terminal::print_result(args.json, &status, |out| {
            writeln!(out, "{}", status.head())?;
            writeln!(out, "{}", status.table(&rules))
        })?;
        if !args.watch {
            return Ok(());
        }
    }
}
