//! `pbg-host orders train`.

mod disk_limit;
mod epoch_bytes;
mod results;
mod run_settings;
mod runs;

use std::path::{Path, PathBuf};

use pbg_config::Config;
use pbg_files::remote;
use pbg_lab::differences::StudyStatistics;
use pbg_lab::study::{OrderRuns, Study};
use pbg_model::{AllowedChanges, ResolvedConfig};
use pbg_report::provenance::Provenance;
use pbg_report::{latex, pages, table};

use super::outputs::{OutputArgs, Results};
use crate::failure::{Failure, Result};
use crate::interrupt::StopUnit;
use crate::kind::FailureKind;
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};
use crate::{interrupt, load, model_summary, processor, provenance};
use pbg_session::orders::{OrderSpec, parse_order, require_distinct};
use runs::{Runs, SeedRunName};

/// Train with several bucket orders and compare the quality of their models and their costs.
///
/// Trains the configuration once per order and seed, with the same data and budget, and ranks an edge set
/// after every epoch. Reports loss and filtered MRR against edges, seconds and bytes of I/O, and whether the
/// swaps of the buffer were those that the plans predicted.
///
/// Runs have one worker unless the configuration sets `workers`: with more, runs of one seed differ. All runs rank the same
/// edges. Differences to the first order are paired by seed.
///
/// Every run has a subfolder of the study folder. If the command was stopped, the same command resumes;
/// finished runs are not repeated. Only the results and metrics of finished runs are kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host orders train pbg.toml --order random --order inside_out
  pbg-host orders train pbg.toml --order random --order my_order.wasm --seeds 3 --html study.html
  pbg-host orders train pbg.toml --order random --set num_epochs=10 --edges valid --limit 2000")]
pub(crate) struct Args {
    /// Arguments that name the configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Order to train with: a standard order or a .wasm file, with parameters after a colon as in
    /// `beta:assignment=random`; can be repeated.
    #[arg(long, value_name = "NAME|FILE", required = true, value_parser = parse_order)]
    order: Vec<OrderSpec>,
    /// Number of runs per order, with the configured seed and the following ones.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Number of runs of every order with the first seed, which shows how much runs of one seed differ [default: 1 with one
    /// worker, 2 with more].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: Option<u32>,
    /// Folder of the study [default: the checkpoint folder with the suffix `-study`].
    #[arg(long, value_name = "FOLDER")]
    study: Option<PathBuf>,
    /// Edge set to rank after every epoch [default: `valid` if it exists, otherwise `test`].
    #[arg(long, value_name = "NAME")]
    edges: Option<String>,
    /// Rank only a random sample of this many edges.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Include and resume runs that were trained or ranked on edges that have changed in the dataset since.
    #[arg(long)]
    allow_data_change: bool,
    /// Read and write partitions at no more than so many megabytes (10^6 bytes) per second, and predict the stalls for a disk
    /// of these speeds; the keys `execution.read_mbps` and `execution.write_mbps` do the same. Checkpoints are then made at the
    /// end of epochs only, unless `checkpoint_interval` is set.
    #[arg(long, value_name = "READ,WRITE", value_parser = disk_limit::parse)]
    io_limit: Option<disk_limit::IoLimit>,
    /// Keep the checkpoints of finished runs.
    #[arg(long)]
    keep_checkpoints: bool,
    /// Files to write.
    #[command(flatten)]
    outputs: OutputArgs,
}

/// Returns the folder of a study: next to the checkpoint, or in the working folder if the checkpoint is in an object store.
fn study_folder(checkpoint: &str) -> PathBuf {
    let name = match remote::as_url(Path::new(checkpoint)) {
        Some(url) => url.rsplit('/').next().unwrap_or(url),
        None => checkpoint,
    };
    PathBuf::from(format!("{name}-study"))
}

/// Runs the command.
///
/// # Errors
/// When a run fails, is interrupted, or its swaps differ from the prediction.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    require_distinct(&args.order)?;
    runs::require_own_folders(&args.order)?;
    let mut config = one_worker_unless_set(load::config(&args.config, terminal)?);
    disk_limit::apply(&mut config, args.io_limit);
    let resolved = ResolvedConfig::new(config)?;
    let config = resolved.config();
    let repeats = repeats(args, &resolved, terminal);
    let ranking = ranking(args, &resolved)?;
    let folder = args
        .study
        .clone()
        .unwrap_or_else(|| study_folder(&config.checkpoint_path));
    let watch = interrupt::watch_training(StopUnit::of(config), terminal.announcer())?;
    let program = provenance::program();
    let runs = Runs {
        resolved: &resolved,
        ranking: &ranking,
        allowed: AllowedChanges {
            data_change: args.allow_data_change,
            ..AllowedChanges::default()
        },
        folder: &folder,
        keep_checkpoints: args.keep_checkpoints,
        program: &program,
        watch: &watch,
        terminal,
    };
    let mut study = Study {
        setting: setting(args, &resolved, &ranking),
        orders: Vec::new(),
    };
    for order_spec in &args.order {
        let mut order = OrderRuns {
            order: order_spec.label.clone(),
            runs: Vec::new(),
        };
        for number in 0..args.seeds {
            let seed = config.seed.wrapping_add(number);
            for repeat in 1..=if number == 0 { repeats } else { 1 } {
                order
                    .runs
                    .push(runs.run(order_spec, SeedRunName { seed, repeat })?);
            }
        }
        study.orders.push(order);
    }
    if args.outputs.any() {
        let provenance = provenance(args, &runs)?;
        args.outputs.write(
            terminal,
            &provenance,
            &Results {
                json: &StudyStatistics::new(&study),
                csv: &|| Ok(table::study_csv(&study, &provenance)?),
                html: &|| pages::study::page(&study, &provenance),
                latex: &|| latex::study(&study, &provenance),
                figures: &|| pages::study::figures(&study),
            },
        )?;
    }
    terminal::print(|out| results::print(out, &study))?;
    check_predictions(&study)
}

/// Returns the options of the ranking after each epoch.
fn ranking(args: &Args, resolved: &ResolvedConfig) -> Result<pbg_query::EvalOptions> {
    let sets = &resolved.dataset().manifest().edge_sets;
    let mut defaults = ["valid", "test"].into_iter();
    let default = defaults.find(|name| sets.contains_key(*name));
    let edges = args.edges.clone().or(default.map(str::to_owned));
    Ok(pbg_query::EvalOptions {
        edges: edges.ok_or_else(|| {
            let text = "the dataset has no edge set `valid` or `test` to rank";
            Failure::message(FailureKind::Usage, text).help("name an edge set with --edges")
        })?,
        filter: sets.keys().cloned().collect(),
        candidates: pbg_query::CandidateSet::All,
        threads: None,
        limit: args.limit.map(|n| n as usize),
        by: None,
        seen: false,
    })
}

/// Returns the provenance of the study.
fn provenance(args: &Args, runs: &Runs<'_>) -> Result<Provenance> {
    let first = runs.resolved.config().seed;
    let seeds = (0..args.seeds).map(|n| first.wrapping_add(n));
    let mut provenance = provenance::of_command(seeds.collect());
    provenance::add_configuration(&mut provenance, runs.resolved);
    provenance::add_dataset_files(&mut provenance, runs.resolved.dataset())?;
    provenance.workers = Some(runs.resolved.settings().workers);
    let mut shared = Vec::new();
    for order in &args.order {
        let (own, others): (Vec<_>, Vec<_>) = runs
            .plugins(order)?
            .into_iter()
            .partition(|(slot, _)| *slot == runs::ORDER);
        let of_order = own.iter().map(|(_, id)| (order.label.as_str(), id));
        let of_order = of_order.map(|(label, id)| provenance::plugin(label, id));
        provenance.plugins.extend(of_order);
        shared = others;
    }
    let shared = shared.iter().map(|(slot, id)| provenance::plugin(slot, id));
    provenance.plugins.extend(shared);
    // A run does not load these plugins: the configuration has their formulas, which decide the results.
    let builders = runs.resolved.config().formula_builders();
    let builders = builders
        .iter()
        .map(|(what, id)| provenance::plugin(what, id));
    provenance.plugins.extend(builders);
    Ok(provenance)
}

/// Sets one worker if the configuration leaves their number to the machine.
fn one_worker_unless_set(mut config: Config) -> Config {
    config.workers = config.workers.or(Some(1));
    config
}

/// Returns the number of runs with the first seed, and warns if runs of one seed differ.
fn repeats(args: &Args, resolved: &ResolvedConfig, terminal: Terminal) -> u32 {
    let workers = resolved.settings().workers;
    // Workers that share batches write to different rows.
    let is_random = workers > 1 && !resolved.blueprint().spec.shares_batches();
    let repeats = args.repeats.unwrap_or(if is_random { 2 } else { 1 });
    if is_random {
        let advice = match repeats {
            0 | 1 => "`--repeats 2` shows by how much",
            _ => "the first seed is repeated to show by how much",
        };
        terminal.warn(format!(
            "runs of one seed differ with {workers} workers; {advice}"
        ));
    }
    repeats
}

fn setting(
    args: &Args,
    resolved: &ResolvedConfig,
    ranking: &pbg_query::EvalOptions,
) -> Vec<(String, String)> {
    let config = resolved.config();
    let ranked = match ranking.limit {
        Some(limit) => format!("{limit} random edges of {}", ranking.edges),
        None => format!("all edges of {}", ranking.edges),
    };
    let mut setting = model_summary::model_summary(config, None);
    let ranked = format!("{ranked}, among all entities, filtered");
    let first = config.seed;
    let seeds: Vec<String> = (0..args.seeds)
        .map(|n| first.wrapping_add(n).to_string())
        .collect();
    setting.push(("seeds".to_owned(), seeds.join(", ")));
    let workers = resolved.settings().workers.to_string();
    setting.push(("workers".to_owned(), workers));
    setting.push(("processor".to_owned(), processor::description()));
    if let Some(limit) = disk_limit::description(&config.execution) {
        setting.push(("disk limited to".to_owned(), limit));
    }
    setting.push(("ranked after each epoch".to_owned(), ranked));
    setting
}

/// Fails if the loads of the buffer differ from the prediction, since that makes all predictions doubtful.
fn check_predictions(study: &Study) -> Result<()> {
    for order in &study.orders {
        if let Some((seed, point)) = order.mispredicted_epochs().next() {
            let text = format!(
                "{}, seed {seed}, epoch {}: {} partitions were loaded, but the plans predicted {}",
                order.order, point.epoch, point.loads, point.predicted_loads
            );
            return Err(Failure::message(FailureKind::Internal, text));
        }
    }
    Ok(())
}
