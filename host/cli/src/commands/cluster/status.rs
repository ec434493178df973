//! `pbg-host cluster status`.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use pbg_cluster::Connection;
use pbg_config::Config;
use pbg_core::cluster::{Heard, Live as _, State};
use pbg_core::ledger::{BucketState, Phase, Record, Token};
use serde::Serialize;

use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};
use crate::{format, together};

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

/// A run, as it is now.
#[derive(Debug, Serialize)]
struct Status {
    run: Token,
    phase: String,
    epoch: u32,
    epochs: u32,
    buckets_done: usize,
    buckets: usize,
    /// Version of the newest checkpoint that the ledger knows; 0 before the first.
    checkpoint: u64,
    /// Transactions of the ledger so far.
    revision: u64,
    server: String,
    /// How long the ledger took to answer.
    answer_seconds: f64,
    trainers: Vec<TrainerStatus>,
}

/// A trainer, as it is now.
#[derive(Debug, Serialize)]
struct TrainerStatus {
    token: Token,
    name: String,
    rank: Option<u32>,
    state: Option<State>,
    /// Buckets that it has leased.
    buckets: Vec<String>,
    edges_per_second: f64,
    /// Share of its time that training waited.
    waited: f64,
    /// Seconds since it said anything; none if nothing was heard.
    silent_seconds: Option<f64>,
}

/// Shows.
///
/// # Errors
/// When the run cannot be reached.
pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let (config, connection) = super::reach(&args.config, terminal)?;
    loop {
        thread::sleep(listening(&config));
        let status = Status::of(&connection)?;
        match args.json {
            true => terminal::print_json(&status)?,
            false => show(&status)?,
        }
        if !args.watch {
            return Ok(());
        }
    }
}

/// How long until every trainer that lives was heard.
fn listening(config: &Config) -> Duration {
    Duration::from_secs_f64(1.2 * config.distributed.heartbeat)
}

impl Status {
    fn of(connection: &Connection) -> Result<Self> {
        let asked = Instant::now();
        let Some(record) = together::record(connection)? else {
            let what = "there is no run: its ledger is empty";
            return Err(Failure::message(Kind::Cluster, what));
        };
        let answer_seconds = asked.elapsed().as_secs_f64();
        let heard = connection.heard().into_iter();
        let heard: BTreeMap<Token, Heard> = heard.map(|heard| (heard.beat.token, heard)).collect();
        let (work, extent) = (record.work(), record.terms().extent);
        let is_done = |state: &BucketState| matches!(state, BucketState::Done | BucketState::Empty);
        let base = record.checkpoints().base();
        Ok(Self {
            run: record.run(),
            phase: phase(&record),
            epoch: work.pass.epoch + 1,
            epochs: extent.epochs,
            buckets_done: work.buckets.iter().filter(is_done).count(),
            buckets: work.buckets.len(),
            checkpoint: base.map_or(0, |base| base.version),
            revision: record.revision(),
            server: connection.server().to_owned(),
            answer_seconds,
            trainers: trainers(&record, &heard),
        })
    }
}

fn phase(record: &Record) -> String {
    match record.phase() {
        Phase::Gathering(wanted) => {
            let here = record.trainers().len();
            format!("waiting for trainers, {here} of {wanted} are here")
        }
        Phase::Opening => "planning".to_owned(),
        Phase::Training => "training".to_owned(),
        Phase::PassDone => "between two passes".to_owned(),
        Phase::Ranking => {
            let blocks = record.ranking().map_or(&[][..], |ranking| &ranking.blocks);
            let (ranked, all) = (blocks.iter().flatten().count(), blocks.len());
            format!("validating, {ranked} of {all} blocks are ranked")
        }
        Phase::Stopping => "stopping".to_owned(),
        Phase::Finished => "finished".to_owned(),
    }
}

fn trainers(record: &Record, heard: &BTreeMap<Token, Heard>) -> Vec<TrainerStatus> {
    let status = |(token, trainer): (&Token, &pbg_core::ledger::Trainer)| {
        let heard = heard.get(token);
        TrainerStatus {
            token: *token,
            name: trainer.name.clone(),
            rank: trainer.rank,
            state: heard.map(|heard| heard.beat.state),
            buckets: trainer.leases.iter().map(ToString::to_string).collect(),
            edges_per_second: heard.map_or(0.0, |heard| heard.beat.edges_per_second),
            waited: heard.map_or(0.0, |heard| heard.beat.waited),
            silent_seconds: heard.map(|heard| heard.ago.as_secs_f64()),
        }
    };
    record.trainers().iter().map(status).collect()
}

fn show(status: &Status) -> Result<()> {
    let head = format!(
        "run {}  {}  epoch {}/{}  buckets {}/{}  checkpoint {}  ledger {} on {} ({:.1} ms)",
        status.run,
        status.phase,
        status.epoch.min(status.epochs),
        status.epochs,
        status.buckets_done,
        status.buckets,
        status.checkpoint,
        status.revision,
        status.server,
        1e3 * status.answer_seconds,
    );
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["trainer", "state", "buckets", "edges/s", "waited", "heard"]);
    for trainer in &status.trainers {
        let state = match trainer.state {
            None => "silent".to_owned(),
            Some(state) => format!("{state:?}").to_lowercase(),
        };
        let heard = trainer
            .silent_seconds
            .map_or_else(|| "never".to_owned(), format::seconds);
        table.add_row([
            trainer.name.clone(),
            state,
            trainer.buckets.join(" "),
            format::count(trainer.edges_per_second),
            format!("{:.1} %", 100.0 * trainer.waited),
            heard,
        ]);
    }
    for column in 3..6 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    terminal::print(|out| {
        writeln!(out, "{head}")?;
        match status.trainers.is_empty() {
            true => writeln!(out, "nobody takes part"),
            false => writeln!(out, "{table}"),
        }
    })
}
