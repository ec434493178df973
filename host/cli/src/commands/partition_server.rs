//! `pbg-host partition-server`.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pbg_checkpoint::{PartitionServers, ServerConnector, SharedCheckpoint};
use pbg_ledger::transport::Register as _;
use pbg_ledger::{LedgerRecord, Phase};
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_transport::Connection;

use super::cluster;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::{self, ConfigArgs};
use crate::partition_servers::{OwnServer, ServerKeys};
use crate::terminal::Terminal;
use crate::{cluster_options, format, interrupt, load};

/// Advice if there is less memory than the server may use.
const LESS_MEMORY: &str =
    "lower --memory: what fits into no server is written to `checkpoint_path`";

/// Records of the ledger with which it is tried to copy what only this server has.
const ATTEMPTS: u32 = 30;
/// Interval at which the server looks whether its run has ended.
const LOOK: Duration = Duration::from_millis(500);
/// How often it looks whether it must stop.
const TICK: Duration = Duration::from_millis(50);

/// Keep partitions of a distributed run in memory, until the run is finished or Ctrl-C.
///
/// Trainers of a run with `num_partition_servers` send partitions here between checkpoints instead of writing them to
/// `checkpoint_path`. On Ctrl-C, the partitions of the run that are here are copied to `checkpoint_path` first. If the
/// server is killed, its partitions are lost, unless `distributed.partition_replicas` is 2: the run then goes back to the
/// newest checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host partition-server pbg.toml --listen 10.0.0.5:7700 --memory 64G
  pbg-host partition-server pbg.toml --listen 127.0.0.1:0 --memory 4G --set distributed_init_method=nats://localhost")]
pub(crate) struct Args {
    /// Configuration of the run.
    #[command(flatten)]
    config: ConfigArgs,
    /// Address to listen on; port 0 chooses a free one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Address at which trainers reach this machine, if it is not the one to listen on.
    #[arg(long, value_name = "ADDRESS")]
    advertise: Option<IpAddr>,
    /// Largest size of all partitions together, such as 64G. Nothing is taken before it is needed.
    #[arg(long, value_name = "SIZE", value_parser = options::bytes)]
    memory: u64,
}

/// Runs the command.
///
/// # Errors
/// When the run cannot be reached, the address cannot be listened on, or partitions cannot be copied at the end.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let config = load::config(&args.config, terminal)?;
    if config.num_partition_servers == 0 {
        let what = "the run of this configuration uses no partition servers";
        return Err(Failure::message(FailureKind::Config, what)
            .help("set num_partition_servers to the number of servers, for the trainers as well"));
    }
    memory::require_more("a partition server", args.memory, LESS_MEMORY).map_err(RunError::from)?;
    let connection = Arc::new(cluster::connect_without_rank(&config, terminal)?);
    let keys = ServerKeys::new(&connection, &config)?;
    let addresses = (args.listen, args.advertise);
    let name = format!("server at {}", args.listen);
    let own = OwnServer::start(&connection, &keys, &config, addresses, args.memory, &name)?;
    terminal.print_line(format_args!(
        "partition server {} at {} with {} of memory; Ctrl-C ends",
        own.presence.token(),
        own.presence.server().address,
        format::bytes(args.memory),
    ));
    let stop = interrupt::watch(
        "copying partitions that are only here to the checkpoint",
        terminal.announcer(),
    )?;
    own.presence.announce();
    let patience = Duration::from_secs_f64(config.distributed.patience);
    let last = wait(&connection, patience, &stop);
    let held = own.server.held();
    // While most files are copied, trainers can still read them here.
    for is_retired in [false, true] {
        if is_retired {
            own.presence.retire();
        }
        // The trainers end the server of a run only when a checkpoint has everything.
        if connection.is_shut_down() {
            continue;
        }
        match cluster_options::record(&connection) {
            Ok(Some(record)) => {
                let folder = Path::new(&config.checkpoint_path);
                let (mut newest, mut attempts) = (record, 0);
                while let Err(error) = hand_over(folder, &own, &keys, &newest) {
                    // A trainer may have replaced a file after the record was read.
                    let read = cluster_options::record(&connection)?;
                    attempts += 1;
                    match read.filter(|record| *record != newest && attempts < ATTEMPTS) {
                        Some(record) => newest = record,
                        None => return Err(error),
                    }
                }
            }
            Ok(None) => {}
            Err(_) if held == 0 || last.as_ref().is_none_or(LedgerRecord::is_saved) => {}
            Err(error) => return Err(error),
        }
    }
    terminal.print_line(format_args!(
        "partition server ended; it held {}",
        format::bytes(held)
    ));
    Ok(())
}

/// Waits until the run is finished and has no trainers, until the ledger has not answered for `patience`, or until `stop`
/// is set. Returns the last record that was read.
fn wait(connection: &Connection, patience: Duration, stop: &AtomicBool) -> Option<LedgerRecord> {
    let mut last: Option<LedgerRecord> = None;
    let mut had_trainers = false;
    let mut answered = pbg_clock::now();
    loop {
        let looked = pbg_clock::now();
        match cluster_options::record(connection) {
            Ok(record) => {
                answered = pbg_clock::now();
                let trainers = record.as_ref().map(|record| record.trainers().len());
                had_trainers |= trainers.is_some_and(|count| count > 0);
                let is_over = had_trainers && record.as_ref().is_some_and(is_over);
                last = record.or(last);
                if is_over {
                    return last;
                }
            }
            Err(_) if connection.is_shut_down() => return last,
            // The trainers wait as long as that.
            Err(_) if pbg_clock::elapsed(answered) >= patience => return last,
            Err(_) => {}
        }
        while pbg_clock::elapsed(looked) < LOOK {
            if stop.load(Ordering::Relaxed) {
                return last;
            }
            pbg_clock::sleep(TICK);
        }
    }
}

fn is_over(record: &LedgerRecord) -> bool {
    let ends = matches!(record.phase(), Phase::Finished | Phase::Stopping);
    ends && record.trainers().is_empty()
}

/// Copies the partitions that the run has only on this server to the checkpoint folder.
fn hand_over(
    checkpoint: &Path,
    own: &OwnServer,
    keys: &ServerKeys,
    record: &LedgerRecord,
) -> Result<()> {
    let (token, address) = (own.presence.token(), &own.presence.server().address);
    let connector: Arc<dyn ServerConnector> = Arc::new(keys.clone());
    let view = PartitionServers::new(connector, 1, Some((token, address.clone())));
    view.update(record.servers());
    let files = SharedCheckpoint::open(checkpoint, token).map_err(RunError::from)?;
    let files = files.with_servers(Some(Arc::new(view)));
    let stored = files.store_files_of(token, record);
    let removed = files.remove_presence(token);
    Ok(stored.and(removed).map_err(RunError::from)?)
}
