//! Compares pbg-host with PyTorch-BigGraph: the same edges, configuration and workers, in turn.

mod distributed;
mod processes;
pub(crate) mod quality;
pub(crate) mod scale;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use xtask::repo::Repo;
use xtask::{build, setup, step};

/// Maximum CPU-seconds of start-up, as a share of those of the measured epochs.
const START_UP: f64 = 0.05;
/// Maximum number of measured epochs, however short they are.
const MOST_EPOCHS: i64 = 1000;
const SETS: [&str; 3] = ["train", "valid", "test"];
const SCRIPT: &str = include_str!("bench/pbg.py");
/// Module shared by the scripts that run PBG.
const SHARED_SCRIPT: &str = include_str!("bench/pbg_shared.py");

/// PBG's own configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Configuration {
    /// ComplEx, softmax, D=400, 50 + 1000 negatives, dynamic relations.
    Fb15k,
    /// No operator, cosine, ranking loss, D=100, 50 + 50 negatives, static relations.
    Default,
}

impl Configuration {
    /// Returns the path of our equivalent configuration.
    fn path(self) -> &'static str {
        match self {
            Self::Fb15k => "configs/fb15k237_pbg.toml",
            Self::Default => "configs/fb15k237_default.toml",
        }
    }

    /// Returns PBG's keys, with relations of these names.
    fn of_pbg(self, relations: BTreeSet<String>) -> Value {
        let relation = |name: &str, operator: &str| serde_json::json!({"name": name, "lhs": "all", "rhs": "all", "operator": operator});
        match self {
            Self::Fb15k => serde_json::json!({
                "relations": [relation("all_edges", "complex_diagonal")],
                "dynamic_relations": true, "dimension": 400, "comparator": "dot",
                "loss_fn": "softmax", "num_uniform_negs": 1000,
            }),
            Self::Default => serde_json::json!({
                "relations": relations.iter().map(|name| relation(name, "none")).collect::<Vec<_>>(),
                "dimension": 100,
            }),
        }
    }
}

/// Options of the comparison with PBG.
#[derive(Debug, clap::Args)]
pub(crate) struct VsPbgArgs {
    /// PBG configuration to compare.
    #[arg(long, value_enum, default_value = "fb15k")]
    config: Configuration,
    /// Folder with train, valid and test edges (head, relation, tail; .txt or .tsv, plain or .gz)
    /// [default: a synthetic graph of the size of FB15k-237].
    #[arg(long, value_name = "DIR")]
    dataset: Option<PathBuf>,
    /// Measured epochs, after one warm-up epoch
    /// [default: for each program as many as necessary for its start-up to be under 5 % of their CPU-seconds; 1 with
    /// --rank or --machines].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=MOST_EPOCHS))]
    epochs: Option<u32>,
    /// Number of runs, in which both programs train in turn. The run with the median ratio is shown, and the spread.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Hogwild workers of each program, or of each trainer with --machines.
    #[arg(
        long,
        default_value_t = 2,
        default_value_if("machines", clap::builder::ArgPredicate::IsPresent, "1")
    )]
    workers: u32,
    /// Compare this many trainers of each program, which share a graph of 4 partitions.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=16))]
    machines: Option<u32>,
    /// Also rank the test edges among all entities (PBG takes minutes for this).
    #[arg(long)]
    rank: bool,
    /// Further keys for pbg-host, as in `--set execution.precision=bf16`; can be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl VsPbgArgs {
    /// Returns the number of measured epochs; `None` if each program determines its own.
    fn given_epochs(&self) -> Option<u32> {
        let one = self.rank || self.machines.is_some();
        self.epochs.or(one.then_some(1))
    }
}

/// Result of one program.
struct BenchResult {
    /// Number of measured epochs.
    epochs: u32,
    /// CPU-seconds of start-up, as a share of those of the measured epochs.
    start_up: f64,
    per_cpu_second: f64,
    per_second: f64,
    peak_bytes: f64,
    mrr: Option<f64>,
}

/// Installs PBG, prepares the edges, runs both and prints the ratios.
pub(crate) fn vs_pbg(repo: &Repo, args: &VsPbgArgs) -> Result<()> {
    build::run(repo)?;
    let python = setup::pbg(repo)?;
    let folder = repo.root.join("target/bench");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    prepare(repo, args, &folder)?;
    if let Some(machines) = args.machines {
        return distributed::compare(repo, &python, args, machines, &folder);
    }
    let mut runs = Vec::new();
    for run in 1..=args.runs {
        // Both programs would resume from an existing model.
        for model in ["pbg-model", "model"].map(|name| folder.join(name)) {
            if model.exists() {
                fs::remove_dir_all(&model)
                    .with_context(|| format!("cannot remove {}", model.display()))?;
            }
        }
        step::announce(&format!("training with PBG, {run} of {}", args.runs));
        let pbg = run_pbg(&python, args, &folder)?;
        step::announce(&format!("training with pbg-host, {run} of {}", args.runs));
        runs.push((pbg, run_ours(repo, args, &folder)?));
    }
    let ratio = |(pbg, ours): &(BenchResult, BenchResult)| ours.per_cpu_second / pbg.per_cpu_second;
    runs.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    let (pbg, ours) = &runs[runs.len() / 2];
    print(pbg, ours);
    if let [first, .., last] = &runs[..] {
        println!(
            "{} runs in turn: the ratio per CPU-second is {:.1}x to {:.1}x; PBG's speed varies by {:.0} %, \
             pbg-host's by {:.0} %",
            runs.len(),
            ratio(first),
            ratio(last),
            spread(runs.iter().map(|(pbg, _)| pbg.per_cpu_second)),
            spread(runs.iter().map(|(_, ours)| ours.per_cpu_second)),
        );
    }
    Ok(())
}

/// Returns by how many percent the largest speed exceeds the smallest.
fn spread(speeds: impl Iterator<Item = f64> + Clone) -> f64 {
    let least = speeds.clone().fold(f64::INFINITY, f64::min);
    100.0 * (speeds.fold(0.0, f64::max) / least - 1.0)
}

/// Writes train.txt, valid.txt and test.txt to `folder`.
fn prepare(repo: &Repo, args: &VsPbgArgs, folder: &Path) -> Result<()> {
    let Some(dataset) = &args.dataset else {
        step::announce("generating a graph");
        for (seed, (set, edges)) in SETS.iter().zip([272_115, 1000, 1000]).enumerate() {
            let out = folder.join(format!("{set}.txt"));
            let mut command = repo.run_program();
            command.args(["generate", "--entities", "14541", "--relations", "237"]);
            command.args(["--edges", &edges.to_string(), "--seed", &seed.to_string()]);
            step::run(command.arg("--out").arg(out), "see the message above")?;
        }
        return Ok(());
    };
    for set in SETS {
        let names = ["txt", "tsv", "txt.gz", "tsv.gz"].map(|e| dataset.join(format!("{set}.{e}")));
        let found = names.iter().find(|path| path.exists()).ok_or_else(|| {
            anyhow!(
                "{} has no file with {set} edges\nwhat to do: name it {set}.txt or {set}.tsv",
                dataset.display()
            )
        })?;
        let failed = || format!("cannot read {}", found.display());
        let file = BufReader::new(File::open(found).with_context(failed)?);
        let mut from: Box<dyn Read> = match found.extension().is_some_and(|e| e == "gz") {
            true => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
            false => Box::new(file),
        };
        let out = folder.join(format!("{set}.txt"));
        let mut to =
            File::create(&out).with_context(|| format!("cannot write {}", out.display()))?;
        io::copy(&mut from, &mut to).with_context(failed)?;
    }
    Ok(())
}

/// Returns the names in the second column of the training edges.
fn relations(folder: &Path) -> Result<BTreeSet<String>> {
    let path = folder.join("train.txt");
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let names = text.lines().filter_map(|line| line.split('\t').nth(1));
    Ok(names.map(str::to_owned).collect())
}

/// Writes a script that runs PBG, and the module that it imports.
fn write_scripts(path: &Path, script: &str) -> Result<()> {
    let shared = path.with_file_name("pbg_shared.py");
    [(path, script), (&shared, SHARED_SCRIPT)]
        .into_iter()
        .try_for_each(|(path, text)| fs::write(path, text))
        .context("cannot write the scripts that run PBG")
}

/// Trains with PBG's own configuration. Version 1.0.0 has no regulariser, so ours is switched off as well.
fn run_pbg(python: &Path, args: &VsPbgArgs, folder: &Path) -> Result<BenchResult> {
    let mut config = serde_json::json!({
        "entities": {"all": {"num_partitions": 1}},
        "global_emb": false, "lr": 0.1, "eval_fraction": 0,
        "num_epochs": args.given_epochs().map_or(MOST_EPOCHS, i64::from) + 1,
    });
    if let (Value::Object(config), Value::Object(rest)) =
        (&mut config, args.config.of_pbg(relations(folder)?))
    {
        config.extend(rest);
    }
    let (config_path, script) = (folder.join("pbg.json"), folder.join("pbg.py"));
    fs::write(&config_path, config.to_string()).context("cannot write PBG's configuration")?;
    write_scripts(&script, SCRIPT)?;
    let mut command = Command::new(python);
    command.arg(&script).arg(folder);
    command.arg(args.workers.to_string()).arg(&config_path);
    let share = args.given_epochs().map_or(START_UP, |_| 0.0);
    command.arg(share.to_string());
    command.arg(if args.rank { "1" } else { "0" });
    let text = step::output(
        &mut command,
        "run the command by hand to see PBG's messages",
    )?;
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "));
    let result: Value = serde_json::from_str(line.context("PBG printed no result")?)?;
    let number = |key: &str| {
        result[key]
            .as_f64()
            .with_context(|| format!("PBG's result has no {key}"))
    };
    Ok(BenchResult {
        epochs: number("epochs")? as u32,
        start_up: number("start_up_cpu_seconds")? / number("cpu_seconds")?,
        per_cpu_second: number("edges")? / number("cpu_seconds")?,
        per_second: number("edges")? / number("wall_seconds")?,
        peak_bytes: number("peak_bytes")?,
        mrr: result["mrr"].as_f64(),
    })
}

fn run_ours(repo: &Repo, args: &VsPbgArgs, folder: &Path) -> Result<BenchResult> {
    let config = repo.root.join(args.config.path());
    let keys = |epochs: u32| {
        let mut keys = vec![
            format!("dataset={}", folder.join("dataset").display()),
            format!("checkpoint_path={}", folder.join("model").display()),
            "regularization_coef=0".to_owned(),
            "eval_fraction=0".to_owned(),
            format!("workers={}", args.workers),
            format!("num_epochs={epochs}"),
        ];
        keys.extend(args.set.iter().cloned());
        keys.into_iter().flat_map(|key| ["--set".to_owned(), key])
    };
    let command = |name: &str| {
        let mut command = repo.run_program();
        command.arg(name);
        command
    };
    let edges = SETS.map(|set| format!("{set}={}", folder.join(format!("{set}.txt")).display()));
    let mut import = command("import");
    import.arg(&config).args(keys(1));
    import.args(edges.iter().flat_map(|edges| ["--edges", edges]));
    step::run(import.stdout(Stdio::null()), "see the message above")?;
    let bench = |epochs: u32| {
        let mut bench = command("bench");
        bench.arg("train").arg(&config).args(keys(1));
        bench.args(["--epochs", &epochs.to_string(), "--json"]);
        let text = step::output(&mut bench, "see the message above")?;
        serde_json::from_str::<Value>(&text).context("pbg-host bench printed no valid JSON")
    };
    let number = |report: &Value, key: &str| {
        report[key]
            .as_f64()
            .with_context(|| format!("the report of pbg-host bench has no {key}"))
    };
    let mut epochs = args.given_epochs().unwrap_or(1);
    let mut report = bench(epochs)?;
    if args.given_epochs().is_none() {
        let wanted = number(&report, "start_up_cpu_seconds")? / START_UP;
        let enough = (wanted / number(&report, "cpu_seconds")?).ceil();
        if enough > 1.0 {
            epochs = (enough as u32).min(MOST_EPOCHS as u32);
            report = bench(epochs)?;
        }
    }
    let mut mrr = None;
    if args.rank {
        let mut train = command("train");
        train.arg(&config).args(keys(epochs + 1));
        step::run(train.args(["--progress", "none"]), "see the message above")?;
        let mut eval = command("eval");
        eval.arg(&config).args(keys(epochs + 1));
        eval.args(["--edges", "test", "--filter", "train,valid,test", "--json"]);
        let ranks: Value =
            serde_json::from_str(&step::output(&mut eval, "see the message above")?)?;
        mrr = ranks["filtered"]["mrr"].as_f64();
    }
    Ok(BenchResult {
        epochs,
        start_up: number(&report, "start_up_cpu_seconds")? / number(&report, "cpu_seconds")?,
        per_cpu_second: number(&report, "edges_per_cpu_second")?,
        per_second: number(&report, "edges_per_second")?,
        peak_bytes: number(&report, "peak_bytes")?,
        mrr,
    })
}

fn print(pbg: &BenchResult, ours: &BenchResult) {
    println!(
        "\n{:<28} {:>12} {:>12} {:>8}",
        "", "PBG 1.0.0", "pbg-host", "ratio"
    );
    let row = |what: &str, pbg: f64, ours: f64, better: f64| {
        println!("{what:<28} {pbg:>12.1} {ours:>12.1} {better:>7.1}x");
    };
    println!("{:<28} {:>12} {:>12}", "epochs", pbg.epochs, ours.epochs);
    println!(
        "{:<28} {:>10.1} % {:>10.1} %",
        "start-up, not included",
        100.0 * pbg.start_up,
        100.0 * ours.start_up
    );
    row(
        "edges per CPU-second",
        pbg.per_cpu_second,
        ours.per_cpu_second,
        ours.per_cpu_second / pbg.per_cpu_second,
    );
    row(
        "edges per second",
        pbg.per_second,
        ours.per_second,
        ours.per_second / pbg.per_second,
    );
    const MIB: f64 = 1024.0 * 1024.0;
    row(
        "peak memory, MiB",
        pbg.peak_bytes / MIB,
        ours.peak_bytes / MIB,
        pbg.peak_bytes / ours.peak_bytes,
    );
    if let (Some(theirs), Some(ours)) = (pbg.mrr, ours.mrr) {
        println!(
            "{:<28} {theirs:>12.4} {ours:>12.4}",
            "filtered MRR of the test set"
        );
    }
}
