//! `pbg-host cluster`: commands that inspect and control a distributed run.

mod history;
mod keys;
mod status;

use std::time::Duration;

use clap::Subcommand;
use pbg_config::{Config, LedgerPlace};
use pbg_ledger::transport::{LiveTraffic as _, Register as _, WriteReply};
use pbg_ledger::{LedgerRecord, OperatorCommand, Token, Trainer};
use pbg_transport::{Connection, ConnectionOptions, connect};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::ConfigArgs;
use crate::terminal::Terminal;
use crate::{cluster_options, load};

/// Timeout of the connection to a run.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of attempts of a transaction that conflicts with others.
const ATTEMPTS: u64 = 100;

/// Inspect and control a distributed run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Status(status::Args),
    History(history::Args),
    /// Stop the run: every trainer finishes its bucket and leaves, and the last one writes a checkpoint.
    ///
    /// To resume the run, start the trainers with the same command as before.
    Stop(RunArgs),
    /// Remove a trainer from the run: other trainers train the buckets again that it has not settled.
    ///
    /// A trainer that is still alive is notified, and joins again.
    Evict(EvictArgs),
    /// Delete the ledger. The next trainer creates a new one from the newest checkpoint; buckets trained since then are
    /// trained again.
    Forget(RunArgs),
    Keys(keys::Args),
}

/// Arguments that name a run.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Configuration of the run.
    #[command(flatten)]
    config: ConfigArgs,
}

/// Arguments that name a trainer of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct EvictArgs {
    /// Rank, name or token of the trainer.
    #[arg(long, value_name = "RANK|NAME|TOKEN")]
    trainer: String,
    /// Configuration of the run.
    #[command(flatten)]
    config: ConfigArgs,
}

/// Runs the command.
///
/// # Errors
/// When the run cannot be reached, or does not have the requested trainer or history.
pub(crate) fn run(command: &Command, terminal: Terminal) -> Result<()> {
    match command {
        Command::Status(args) => status::run(args, terminal),
        Command::History(args) => history::run(args, terminal),
        Command::Stop(args) => stop(&args.config, terminal),
        Command::Evict(args) => evict(args, terminal),
        Command::Forget(args) => forget(&args.config, terminal),
        Command::Keys(args) => keys::run(args),
    }
}

/// Connects to the run of a configuration; returns the configuration and the connection.
fn reach(args: &ConfigArgs, terminal: Terminal) -> Result<(Config, Connection)> {
    let config = load::config(args, terminal)?;
    let connection = connect_within(&config, PATIENCE, terminal)?;
    Ok((config, connection))
}

/// Connects to the run of a configuration without being one of its trainers.
///
/// # Errors
/// When the configuration is not of a distributed run, or its trainers' server does not answer within
/// `distributed.patience`.
pub(crate) fn connect_without_rank(config: &Config, terminal: Terminal) -> Result<Connection> {
    let patience = Duration::from_secs_f64(config.distributed.patience);
    connect_within(config, patience, terminal)
}

fn connect_within(config: &Config, timeout: Duration, terminal: Terminal) -> Result<Connection> {
    let Some(method) = &config.distributed_init_method else {
        if let Some(LedgerPlace::Store(url)) = config.ledger_place() {
            return Ok(pbg_transport::connect_by_objects(url, false)?);
        }
        let what = "this configuration is not of a distributed run";
        return Err(Failure::message(FailureKind::Config, what).help(
            "set distributed_init_method, or the checkpoint_path in an object store, to the same value as for the \
             trainers, with --set or in the file",
        ));
    };
    let found = cluster_options::method(method)?;
    // With a rank, the connection would start a server if there is none.
    let options = ConnectionOptions {
        timeout,
        creates_register: false,
        ..cluster_options::options(config, found.method, None)?
    };
    Ok(connect(&options, &|text| terminal.detail(text))?)
}

fn stop(args: &ConfigArgs, terminal: Terminal) -> Result<()> {
    let (_, connection) = reach(args, terminal)?;
    let order = |record: &LedgerRecord| match record.trainers().is_empty() {
        true => Err(
            Failure::message(FailureKind::Cluster, "the run has no trainers")
                .help("there is nothing to stop"),
        ),
        false => Ok(OperatorCommand::Stop),
    };
    let trainers = change(&connection, order)?.trainers().len();
    terminal.print_line(match trainers {
        1 => "one trainer will finish its bucket and leave".to_owned(),
        _ => format!("{trainers} trainers will finish their buckets and leave"),
    });
    Ok(())
}

fn evict(args: &EvictArgs, terminal: Terminal) -> Result<()> {
    let (_, connection) = reach(&args.config, terminal)?;
    let is_meant = |token: &Token, trainer: &Trainer| {
        let rank = trainer.rank.map(|rank| rank.to_string());
        args.trainer == trainer.name
            || rank.as_ref() == Some(&args.trainer)
            || args.trainer == token.to_string()
    };
    change(&connection, |record| {
        let mut trainers = record.trainers().iter();
        let found = trainers.find(|(token, trainer)| is_meant(token, trainer));
        let found = found.map(|(token, _)| OperatorCommand::Evict(*token));
        found.ok_or_else(|| {
            let all = record
                .trainers()
                .values()
                .map(|trainer| trainer.name.clone());
            let all: Vec<String> = all.collect();
            let what = format!("there is no trainer {:?} in the run", args.trainer);
            Failure::message(FailureKind::Usage, what).help(match all.is_empty() {
                true => "the run has no trainers".to_owned(),
                false => format!("the trainers are: {}", all.join(", ")),
            })
        })
    })?;
    terminal.print_line(format_args!("removed {} from the run", args.trainer));
    Ok(())
}

fn forget(args: &ConfigArgs, terminal: Terminal) -> Result<()> {
    let (_, connection) = reach(args, terminal)?;
    if let Some(record) = cluster_options::record(&connection)?
        && !record.trainers().is_empty()
    {
        let what = "the run still has trainers";
        return Err(Failure::message(FailureKind::Cluster, what)
            .help("`pbg-host cluster stop` makes them leave; then forget the ledger"));
    }
    connection
        .forget()
        .map_err(|no| Failure::message(FailureKind::Cluster, no))?;
    terminal.print_line("the ledger is empty: the next trainer resumes from the newest checkpoint");
    Ok(())
}

/// Applies the order that `order` returns for the newest record, and returns the record after it.
fn change(
    connection: &Connection,
    order: impl Fn(&LedgerRecord) -> Result<OperatorCommand>,
) -> Result<LedgerRecord> {
    let failed = |what: &dyn std::fmt::Display| Failure::message(FailureKind::Cluster, what);
    let started = pbg_clock::now();
    for attempt in 0..ATTEMPTS {
        let entry = connection.read().map_err(|no| failed(&no))?;
        let record = cluster_options::record(connection)?;
        let (Some(entry), Some(record)) = (entry, record) else {
            return Err(failed(&"there is no run: the ledger is empty"));
        };
        let order = order(&record)?;
        let next = record
            .apply_command(order)
            .map_err(|refusal| failed(&refusal))?;
        let value = serde_json::to_vec(&next).map_err(|e| failed(&e))?;
        let id = format!("{}-{}-order-{attempt}", next.incarnation(), next.revision());
        // The write succeeds only if the record is unchanged since the first read, so both reads returned the same
        // record.
        match connection.write(Some(entry.revision), &value, &id) {
            Ok(WriteReply::Accepted(_)) => {
                connection.wake();
                return Ok(next);
            }
            Ok(WriteReply::Refused) => {}
            Err(no) if started.elapsed() >= PATIENCE => {
                return Err(failed(&no).help(
                    "what has the ledger answers but does not write: its disk may be full, or rights may be missing; Ctrl-C stops \
                     each trainer",
                ));
            }
            Err(_) => {}
        }
    }
    Err(failed(&"the ledger changes too often; try again"))
}
