//! `pbg-host cluster history`: the trainer of each bucket, in an equivalent sequential order.

use std::path::Path;

use pbg_checkpoint::CheckpointError;
use pbg_core::event::{Event, EventLine};
use pbg_core::graph::Bucket;
use pbg_core::schedule::PassId;
use pbg_core::text::escaped;
use pbg_files::remote;
use pbg_model::RunError;
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};
use crate::{load, metrics, tables};

/// File with the events of a run.
const METRICS: &str = "metrics.jsonl";
/// Maximum length of the name of a trainer in the table.
const NAME: usize = 64;

/// Show which trainer trained which bucket, in an order that gives the same result on one machine.
///
/// Buckets that share a partition are listed in the order in which they were trained. Buckets that are not in a
/// checkpoint yet are not listed. The command needs no connection to the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host cluster history pbg.toml --epoch 2
  pbg-host cluster history pbg.toml --epoch 1 --order > order.json")]
pub(crate) struct Args {
    /// Configuration of the run.
    #[command(flatten)]
    config: ConfigArgs,
    /// Show only this epoch, counted from 1 (`epoch_number` in JSON; `epoch` counts from 0 as in `metrics.jsonl`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    epoch: Option<u32>,
    /// Print the buckets of one pass as JSON, in the format of the order `from_file`: the last complete pass, of the
    /// epoch given by `--epoch` if there is one.
    #[arg(long)]
    order: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "order")]
    json: bool,
}

/// Trained bucket.
#[derive(Debug, Serialize)]
struct TrainedBucket<'a> {
    #[serde(flatten)]
    pass: PassId,
    /// Epoch of `pass`, counted from 1 as in `--epoch` and in messages.
    epoch_number: u32,
    bucket: Bucket,
    #[serde(skip_serializing_if = "Option::is_none")]
    trainer: Option<&'a str>,
    edges: u64,
    seconds: f64,
}

/// Runs the command.
///
/// # Errors
/// When there is no history, or it cannot be read.
pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let config = load::config(&args.config, terminal)?;
    let checkpoint = Path::new(&config.checkpoint_path);
    let copy = match remote::as_url(checkpoint) {
        Some(url) => {
            let copied = remote::copy_object(url, METRICS);
            Some(copied.map_err(|error| RunError::from(CheckpointError::from(error)))?)
        }
        None => None,
    };
    let folder = copy.as_ref().map_or(checkpoint, |copy| &copy.folder);
    let lines = metrics::read(&folder.join(METRICS))?;
    let wanted = |row: &TrainedBucket<'_>| args.epoch.is_none_or(|epoch| row.epoch_number == epoch);
    let trained: Vec<_> = lines.iter().filter_map(trained).filter(wanted).collect();
    if trained.is_empty() {
        let what = format!("{} contains no such bucket", config.checkpoint_path);
        return Err(Failure::message(FailureKind::Checkpoint, what)
            .help("buckets are listed once they are in a checkpoint"));
    }
    if args.order {
        return print_order(&trained);
    }
    terminal::print_result(args.json, &trained, |out| {
        writeln!(out, "{}", table(&trained))
    })
}

fn table(trained: &[TrainedBucket<'_>]) -> String {
    let header = ["epoch", "pass", "bucket", "trainer", "edges", "seconds"];
    let rows = trained.iter().map(|row| {
        [
            row.epoch_number.to_string(),
            format!("{}.{}", row.pass.edge_set + 1, row.pass.edge_chunk + 1),
            row.bucket.to_string(),
            escaped(row.trainer.unwrap_or("-"), NAME),
            row.edges.to_string(),
            format!("{:.2}", row.seconds),
        ]
    });
    tables::plain(header, rows, |column| matches!(column, 0 | 4 | 5))
}

fn trained(line: &EventLine) -> Option<TrainedBucket<'_>> {
    match &line.event {
        Event::BucketFinished {
            pass,
            bucket,
            stats,
            seconds,
            ..
        } => Some(TrainedBucket {
            pass: *pass,
            epoch_number: pass.epoch + 1,
            bucket: *bucket,
            trainer: line.trainer.as_deref(),
            edges: stats.count,
            seconds: *seconds,
        }),
        _ => None,
    }
}

/// Prints the buckets of the last complete pass. A pass is complete if no other pass has more buckets.
fn print_order(trained: &[TrainedBucket<'_>]) -> Result<()> {
    let mut passes: Vec<PassId> = trained.iter().map(|row| row.pass).collect();
    passes.sort_unstable();
    passes.dedup();
    let of = |pass: PassId| trained.iter().filter(move |row| row.pass == pass);
    let most = passes.iter().map(|pass| of(*pass).count()).max();
    let complete = passes
        .iter()
        .rev()
        .find(|pass| Some(of(**pass).count()) == most);
    let order = complete.into_iter().flat_map(|pass| of(*pass));
    let order: Vec<[u32; 2]> = order.map(|row| [row.bucket.lhs, row.bucket.rhs]).collect();
    terminal::print_json(&order)
}
