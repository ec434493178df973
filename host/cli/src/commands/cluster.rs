//! `pbg-host cluster`: a run of several trainers, looked at and steered from outside.

mod history;
mod status;

use std::time::{Duration, Instant};

use clap::Subcommand;
use pbg_cluster::{Connection, Options, connect};
use pbg_config::Config;
use pbg_core::cluster::{Live as _, Register as _, Written};
use pbg_core::ledger::{Order, Record, Token, Trainer};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::ConfigArgs;
use crate::terminal::Terminal;
use crate::{load, together};

/// How long a command waits for a run that may not be there.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a change is tried that others come before.
const ATTEMPTS: u64 = 100;

/// Look at a run of several trainers, and steer it.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Status(status::Args),
    History(history::Args),
    /// End the run: every trainer finishes its bucket and leaves, the last one writes a checkpoint.
    ///
    /// The same command as before goes on with it.
    Stop(RunArgs),
    /// End the part of a trainer: what it has not settled is trained again by others.
    ///
    /// One that lives is told, and takes part anew.
    Evict(EvictArgs),
    /// Drop the ledger. The next trainer makes a new one of the newest checkpoint; what was trained since is trained
    /// again.
    Forget(RunArgs),
}

/// Which run.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Configuration of the run.
    #[command(flatten)]
    config: ConfigArgs,
}

/// Which trainer of which run.
#[derive(Debug, clap::Args)]
pub(crate) struct EvictArgs {
    /// Its rank, its name, or its token.
    #[arg(long, value_name = "RANK|NAME|TOKEN")]
    trainer: String,
    /// Configuration of the run.
    #[command(flatten)]
    config: ConfigArgs,
}

/// Looks or steers.
///
/// # Errors
/// When the run cannot be reached, or it has nothing of the kind.
pub(crate) fn run(command: &Command, terminal: Terminal) -> Result<()> {
    match command {
        Command::Status(args) => status::run(args, terminal),
        Command::History(args) => history::run(args, terminal),
        Command::Stop(args) => stop(&args.config, terminal),
        Command::Evict(args) => evict(args, terminal),
        Command::Forget(args) => forget(&args.config, terminal),
    }
}

/// A connection to the run of a configuration, and its configuration.
fn reach(args: &ConfigArgs, terminal: Terminal) -> Result<(Config, Connection)> {
    let config = load::config(args, terminal)?;
    let Some(method) = &config.distributed_init_method else {
        let what = "this configuration is of one machine";
        return Err(Failure::message(FailureKind::Config, what).help(
            "set distributed_init_method as the trainers of the run have it, with --set or in the file",
        ));
    };
    let found = together::method(method)?;
    // A rank would start a server where there is none.
    let options = Options {
        patience: PATIENCE,
        makes: false,
        ..together::options(&config, found.method, None)?
    };
    let connection = connect(&options, &|text| terminal.detail(text))?;
    Ok((config, connection))
}

fn stop(args: &ConfigArgs, terminal: Terminal) -> Result<()> {
    let (_, connection) = reach(args, terminal)?;
    let order = |record: &Record| match record.trainers().is_empty() {
        true => Err(
            Failure::message(FailureKind::Cluster, "nobody takes part in the run")
                .help("there is nothing to stop"),
        ),
        false => Ok(Order::Stop),
    };
    let trainers = change(&connection, order)?.trainers().len();
    terminal.say(format_args!(
        "{trainers} trainers finish their buckets and leave"
    ));
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
        let found = found.map(|(token, _)| Order::Evict(*token));
        found.ok_or_else(|| {
            let all = record
                .trainers()
                .values()
                .map(|trainer| trainer.name.clone());
            let all: Vec<String> = all.collect();
            let what = format!("there is no trainer {:?} in the run", args.trainer);
            Failure::message(FailureKind::Usage, what).help(match all.is_empty() {
                true => "nobody takes part".to_owned(),
                false => format!("these take part: {}", all.join(", ")),
            })
        })
    })?;
    terminal.say(format_args!("the part of {} has ended", args.trainer));
    Ok(())
}

fn forget(args: &ConfigArgs, terminal: Terminal) -> Result<()> {
    let (_, connection) = reach(args, terminal)?;
    if let Some(record) = together::record(&connection)?
        && !record.trainers().is_empty()
    {
        let what = "trainers take part in the run";
        return Err(Failure::message(FailureKind::Cluster, what)
            .help("`pbg-host cluster stop` has them leave; then forget the ledger"));
    }
    connection
        .forget()
        .map_err(|no| Failure::message(FailureKind::Cluster, no))?;
    terminal.say("the ledger is empty: the next trainer goes on from the newest checkpoint");
    Ok(())
}

/// Writes what `order` makes of the newest record; gives the record after it.
fn change(connection: &Connection, order: impl Fn(&Record) -> Result<Order>) -> Result<Record> {
    let failed = |what: &dyn std::fmt::Display| Failure::message(FailureKind::Cluster, what);
    let started = Instant::now();
    for attempt in 0..ATTEMPTS {
        let entry = connection.read().map_err(|no| failed(&no))?;
        let record = together::record(connection)?;
        let (Some(entry), Some(record)) = (entry, record) else {
            return Err(failed(&"there is no run: its ledger is empty"));
        };
        let order = order(&record)?;
        let next = record.order(order).map_err(|refusal| failed(&refusal))?;
        let value = serde_json::to_vec(&next).map_err(|e| failed(&e))?;
        let id = format!("{}-{}-order-{attempt}", next.incarnation(), next.revision());
        // Only the record that was read may be replaced; both reads were of the same one then.
        match connection.write(Some(entry.revision), &value, &id) {
            Ok(Written::As(_)) => {
                connection.wake();
                return Ok(next);
            }
            Ok(Written::Refused) => {}
            Err(no) if started.elapsed() >= PATIENCE => {
                return Err(failed(&no).help(
                    "the server of the ledger answers, but writes nothing: its disk may be full; Ctrl-C ends each trainer",
                ));
            }
            Err(_) => {}
        }
    }
    Err(failed(&"others change the ledger all the time; try again"))
}
