//! `pbg-host bench cluster`.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::ProgressBar;
use pbg_bench::{ClusterReport, Pace};
use pbg_cluster::{Connection, Method, Options, RunName, connect};
use pbg_lab::grid::Sizes;
use pbg_lab::stall::Rates;
use pbg_train::{Actor, Scene};

use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::kind::FailureKind;
use crate::scratch::Scratch;
use crate::terminal::{self, Terminal};
use crate::together;
use pbg_session::orders::{Loader, Wanted, wanted};

/// How long the ledger may stay silent before the measurement ends.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measure how busy several trainers are that share a pass.
///
/// Starts a private nats-server on this machine, and trainers that lease and settle on its ledger as those of a run do,
/// by what the bucket order picks. They train nothing: a bucket takes as long as it is told to. So what is measured is
/// what the order and the ledger cost. A run of few long buckets is enough for the order; where buckets are short, the
/// processor is busy with the ledger, and waits of the trainers are its own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench cluster
  pbg-host bench cluster --partitions 32 --machines 8 --order cover:sequence=rounds
  pbg-host bench cluster -p 8 -m 4 --tree-init --json")]
pub(crate) struct Args {
    /// Partitions of either side, which are the same.
    #[arg(long, short, value_name = "P", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=512))]
    partitions: u32,
    /// Trainers.
    #[arg(long, short, value_name = "M", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    machines: u32,
    /// Partitions that fit the buffer of a trainer.
    #[arg(long, short = 'c', value_name = "C", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    buffer: u32,
    /// Order that picks the buckets: a standard one or a .wasm file, with parameters after a colon.
    #[arg(long, value_name = "NAME|FILE", default_value = "cover", value_parser = wanted)]
    order: Wanted,
    /// Seed that the order plans with.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Seconds that a bucket takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25, value_parser = seconds)]
    seconds: f64,
    /// Most that a bucket takes more or less, as a share of that.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    jitter: f64,
    /// Let all partitions grow from one bucket, as the first pass of a run does.
    #[arg(long)]
    tree_init: bool,
    /// Whether a trainer leases its next bucket while it trains one [default: where there are four times as many
    /// partitions as trainers].
    #[arg(long, value_name = "BOOL")]
    ahead: Option<bool>,
    /// The program nats-server [default: it is looked for].
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    /// Folder in which the server keeps its files; a folder in it is made and removed again.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.001..=3600.0).contains(&number) => Ok(number),
        _ => Err("not a number of seconds from 0.001 to 3600".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err("not a number from 0 to 1".to_owned()),
    }
}

/// Measures.
///
/// # Errors
/// When there is no server, or the order cannot be used.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let loader = Loader::new(None, Rates::default(), &terminal)?;
    let orders = (0..args.machines).map(|_| loader.load(&args.order));
    let orders = orders.collect::<Result<Vec<_>>>()?;
    if !args.folder.is_dir() {
        let text = format!("{} is no folder", args.folder.display());
        return Err(
            Failure::message(FailureKind::Usage, text).help("--folder names one that there is")
        );
    }
    let scratch = Scratch::beside(&args.folder.join("cluster"))?;
    let server = Server::start(args, &scratch, terminal)?;
    let mut actors = Vec::new();
    for order in orders {
        let connection = Arc::new(connect(&server.options, &|_| ())?);
        actors.push(Actor {
            register: Arc::clone(&connection) as _,
            live: connection,
            order,
        });
    }
    let announce = Box::new(move |text: &str| terminal.say(text));
    let stop = interrupt::watch("ending the server", announce)?;
    let scene = Scene {
        pass: Sizes::default().pass(args.partitions, None, args.buffer, args.seed),
        trainers: args.machines,
        tree_init: args.tree_init,
        ahead: args.ahead,
        patience: PATIENCE,
        stop: Arc::clone(&stop),
    };
    let pace = Pace {
        seconds: args.seconds,
        jitter: args.jitter,
    };
    let bar = match terminal.interactive {
        true => ProgressBar::new_spinner().with_message("trainers share a pass"),
        false => ProgressBar::hidden(),
    };
    bar.enable_steady_tick(Duration::from_millis(200));
    let report = pbg_bench::cluster(&scene, pace, actors);
    bar.finish_and_clear();
    let report = report?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::message(FailureKind::Interrupted, "interrupted"));
    }
    match args.json {
        true => terminal::print_json(&report),
        false => terminal::print(|out| print(out, &report)),
    }
}

/// A server of this measurement, which ends with it.
struct Server {
    options: Options,
    connection: Connection,
}

impl Server {
    fn start(args: &Args, scratch: &Scratch, terminal: Terminal) -> Result<Self> {
        let folder = std::path::absolute(scratch.path()).unwrap_or(scratch.path().to_owned());
        let method = Method::File(folder.join("rendezvous"));
        let options = Options {
            rank: Some(0),
            nats_server: args.nats_server.clone(),
            search: together::search(),
            listen: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            patience: PATIENCE,
            ..Options::new(method, RunName::new("bench")?)
        };
        let notice = |text: &str| terminal.detail(text);
        let connection = connect(&options, &notice)?;
        Ok(Self {
            options,
            connection,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that does not end says so in its log, which goes with the folder.
        self.connection.stop_server().ok();
    }
}

fn print(out: &mut dyn Write, report: &ClusterReport) -> io::Result<()> {
    let ClusterReport {
        order,
        partitions,
        machines,
        buckets,
        bucket_seconds,
        ..
    } = report;
    let tree = match report.tree_init {
        true => ", all from one bucket",
        false => "",
    };
    writeln!(
        out,
        "{machines} trainers, {partitions} x {partitions} partitions, {buckets} buckets of {bucket_seconds} s, {order}{tree}"
    )?;
    writeln!(
        out,
        "  rounds   {:.1}, {} if nobody ever waited, {} if all buckets of a round began together",
        report.rounds, report.ideal_rounds, report.counted_rounds
    )?;
    let percent = |share: &f64| format!("{:.1}", 100.0 * share);
    let busy: Vec<String> = report.busy.iter().map(percent).collect();
    writeln!(
        out,
        "  busy     {} % of {:.1} s ({})",
        percent(&report.mean_busy),
        report.seconds,
        busy.join(", ")
    )?;
    writeln!(
        out,
        "  stood still {} % for the ledger, {} % for others",
        percent(&report.ledger),
        percent(&report.waited)
    )?;
    writeln!(
        out,
        "  ledger   {} transactions: median {:.1} ms, 99 of 100 within {:.1} ms",
        report.transactions, report.transaction_ms_p50, report.transaction_ms_p99
    )?;
    writeln!(
        out,
        "  {} partitions loaded, {} written",
        report.loads, report.writes
    )
}
