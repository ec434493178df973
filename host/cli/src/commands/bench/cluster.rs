//! `pbg-host bench cluster`.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::ProgressBar;
use pbg_bench::{BucketDuration, ClusterReport};
use pbg_distributed::{Scenario, SimTrainer};
use pbg_lab::grid::GraphSizes;
use pbg_lab::stall::DeviceRates;
use pbg_transport::{Connection, ConnectionOptions, InitMethod, RunName, connect};

use crate::cluster_options;
use crate::failure::{Failure, Result};
use crate::interrupt;
use crate::kind::FailureKind;
use crate::scratch::BenchFolder;
use crate::terminal::{self, Terminal};
use pbg_session::orders::{OrderLoader, OrderSpec, parse_order};

/// Timeout of the ledger, after which the measurement fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measure how busy several trainers are in a shared pass.
///
/// Starts a private nats-server on this machine, and trainers that lease and settle the buckets that the order picks,
/// as in a distributed run. They do not train: a bucket takes a fixed time. So this measures the costs of the order and
/// of the ledger. For the order, few long buckets are enough; with short buckets the processor is busy with the ledger,
/// and the waiting times are caused by it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench cluster
  pbg-host bench cluster --partitions 32 --machines 8 --order cover:sequence=rounds
  pbg-host bench cluster -p 8 -m 4 --tree-init --json")]
pub(crate) struct Args {
    /// Number of partitions, the same on both sides.
    #[arg(long, short, value_name = "P", default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=512))]
    partitions: u32,
    /// Number of trainers.
    #[arg(long, short, value_name = "M", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    machines: u32,
    /// Number of partitions in the buffer of a trainer.
    #[arg(long, short = 'c', value_name = "C", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..))]
    buffer: u32,
    /// Order that picks the buckets: a standard order or a .wasm file, with parameters after a colon.
    #[arg(long, value_name = "NAME|FILE", default_value = "cover", value_parser = parse_order)]
    order: OrderSpec,
    /// Seed of the order.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Duration of a bucket in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.25, value_parser = seconds)]
    seconds: f64,
    /// Maximum deviation of a bucket's duration, as a fraction of it.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    jitter: f64,
    /// Require that every bucket except the first shares a partition with an earlier one, as in the first pass of a
    /// run.
    #[arg(long)]
    tree_init: bool,
    /// Whether a trainer leases its next bucket while it trains one [default: true with at least four partitions per
    /// trainer].
    #[arg(long, value_name = "BOOL")]
    ahead: Option<bool>,
    /// Path of the program nats-server [default: searched for].
    #[arg(long, value_name = "FILE")]
    nats_server: Option<PathBuf>,
    /// Folder for the temporary files of the server, which are removed afterwards.
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

/// Runs the command.
///
/// # Errors
/// When the server cannot be started, or the order cannot be used.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let loader = OrderLoader::new(None, DeviceRates::default(), &terminal)?;
    let orders = (0..args.machines).map(|_| loader.load(&args.order));
    let orders = orders.collect::<Result<Vec<_>>>()?;
    if !args.folder.is_dir() {
        let text = format!("{} is not a folder", args.folder.display());
        return Err(Failure::message(FailureKind::Usage, text)
            .help("give an existing folder with --folder"));
    }
    let scratch = BenchFolder::create(&args.folder.join("cluster"))?;
    let server = Server::start(args, &scratch, terminal)?;
    let mut actors = Vec::new();
    for order in orders {
        let connection = Arc::new(connect(&server.options, &|_| ())?);
        actors.push(SimTrainer {
            register: Arc::clone(&connection) as _,
            live: connection,
            order,
        });
    }
    let stop = interrupt::watch("stopping the server", terminal.announcer())?;
    let scene = Scenario {
        pass: GraphSizes::default().pass(args.partitions, None, args.buffer, args.seed),
        trainers: args.machines,
        tree_init: args.tree_init,
        ahead: args.ahead,
        patience: PATIENCE,
        stop: Arc::clone(&stop),
    };
    let pace = BucketDuration {
        seconds: args.seconds,
        jitter: args.jitter,
    };
    let bar = ProgressBar::new_spinner().with_message("simulating a pass");
    let bar = terminal.shown(bar);
    bar.enable_steady_tick(Duration::from_millis(200));
    let report = pbg_bench::cluster(&scene, pace, actors);
    bar.finish_and_clear();
    let report = report?;
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::message(FailureKind::Interrupted, "interrupted"));
    }
    terminal::print_result(args.json, &report, |out| print(out, &report))
}

/// Server of this measurement, which stops on drop.
struct Server {
    options: ConnectionOptions,
    connection: Connection,
}

impl Server {
    fn start(args: &Args, scratch: &BenchFolder, terminal: Terminal) -> Result<Self> {
        let folder = std::path::absolute(scratch.path()).unwrap_or(scratch.path().to_owned());
        let method = InitMethod::File(folder.join("rendezvous"));
        let options = ConnectionOptions {
            rank: Some(0),
            nats_server: args.nats_server.clone(),
            search: cluster_options::search(),
            listen: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            timeout: PATIENCE,
            ..ConnectionOptions::new(method, RunName::new("bench")?)
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
        // Errors are ignored: the server's log is removed with the folder anyway.
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
        true => ", grown from one bucket",
        false => "",
    };
    writeln!(
        out,
        "{machines} trainers, {partitions} x {partitions} partitions, {buckets} buckets of {bucket_seconds} s, {order}{tree}"
    )?;
    writeln!(
        out,
        "  rounds   {:.1}, {} without any waiting, {} if all buckets of a round started together",
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
        "  waited {} % for the ledger, {} % for other trainers",
        percent(&report.ledger),
        percent(&report.waited)
    )?;
    writeln!(
        out,
        "  ledger   {} transactions: median {:.1} ms, 99th percentile {:.1} ms",
        report.transactions, report.transaction_ms_p50, report.transaction_ms_p99
    )?;
    writeln!(
        out,
        "  {} partitions loaded, {} written",
        report.loads, report.writes
    )
}
