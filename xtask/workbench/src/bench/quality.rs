//! Quality of the shipped configurations on two graphs on which none of them was tuned, with the last figures for comparison.
//!
//! There are two exceptions: the learning rate and the batch size of the presets `complex` and `distmult` were chosen on
//! WordNet, and examples/wordnet/pbg.toml is made for it. For these, only the planted graph is meaningful.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::processes::cpu_seconds_of_ended_children;
use xtask::repo::Repo;
use xtask::{build, step};

/// File with the last figures.
const FIGURES: &str = "benches/quality.csv";
const HEADER: &str = "graph,configuration,epochs,mrr,hits10,cpu_seconds";
/// Maximum number of ranked test edges of a graph.
const RANKED: &str = "3000";
/// Of each group of this many edges, the last one is for validation and the one before it for the test.
const SPLIT: usize = 20;
/// Number of epochs for long configurations (half an hour), by the end of their names: enough to detect a regression.
const SHORTENED: [(&str, u32); 4] = [
    ("_relations.toml", 16),
    ("_concatenated.toml", 16),
    ("_sampled.toml", 16),
    ("_n3.toml", 2),
];
/// Presets of `pbg-host config new`.
const PRESETS: [&str; 5] = ["complex", "distmult", "transe", "rotate", "pbg"];

/// Options of the measurement of quality.
#[derive(Debug, clap::Args)]
pub(crate) struct QualityArgs {
    /// Measure only rows whose graph or configuration contains this name, as in `--only wordnet`; can be repeated.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Also measure configurations with all entities as negatives, which takes half an hour.
    #[arg(long)]
    all: bool,
    /// Number of epochs [default: that of each configuration; fewer for long ones].
    #[arg(long, value_name = "N")]
    epochs: Option<u32>,
    /// Save the figures to benches/quality.csv, row by row.
    #[arg(long)]
    save: bool,
}

/// Result of a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figures {
    epochs: u64,
    mrr: f64,
    hits10: f64,
    cpu_seconds: f64,
}

/// Row of the table: a configuration trained on a graph, both by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TrainedRow {
    graph: String,
    configuration: String,
}

/// Trains and ranks, and prints every figure together with the last one.
pub(crate) fn run(repo: &Repo, args: &QualityArgs) -> Result<()> {
    build::run(repo)?;
    let folder = repo.root.join("target/quality");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let figures = repo.root.join(FIGURES);
    let mut last = match figures.exists() {
        true => parse(&fs::read_to_string(&figures).context("cannot read the last figures")?)?,
        false => BTreeMap::new(),
    };
    let graphs = [generate_planted_graph(repo, &folder)?, wordnet(repo)];
    let configurations = configurations(repo, &folder, args.all)?;
    println!(
        "{:<12} {:<28} {:>7} {:>16} {:>16} {:>16}",
        "graph", "configuration", "epochs", "MRR (last)", "Hits@10 (last)", "CPU-s (last)"
    );
    for graph in &graphs {
        for (name, path) in &configurations {
            let row = TrainedRow {
                graph: graph.name.to_owned(),
                configuration: name.clone(),
            };
            let wanted = |part: &String| row.graph.contains(part) || name.contains(part);
            if !args.only.is_empty() && !args.only.iter().any(wanted) {
                continue;
            }
            let epochs = args.epochs.or_else(|| shortened(name));
            let found = measure(repo, graph, path, epochs, &folder)?;
            print(&row, found, last.get(&row));
            last.insert(row, found);
            if args.save {
                let text = format(&last);
                fs::write(&figures, text)
                    .with_context(|| format!("cannot write {}", figures.display()))?;
            }
        }
    }
    Ok(())
}

/// Returns the reduced number of epochs of a long configuration.
fn shortened(configuration: &str) -> Option<u32> {
    let mut all = SHORTENED.iter();
    let found = all.find(|(ending, _)| configuration.ends_with(ending));
    found.map(|&(_, epochs)| epochs)
}

/// A graph as edge lists.
struct EdgeFiles {
    name: &'static str,
    /// `name=path` of each edge set.
    sets: [String; 3],
}

/// Generates a graph with a structure to learn: relations lead from group to group.
fn generate_planted_graph(repo: &Repo, folder: &Path) -> Result<EdgeFiles> {
    let all = folder.join("planted.tsv");
    let mut generate = repo.run_program();
    generate.args(["generate", "--entities", "20000", "--edges", "400000"]);
    generate.args(["--relations", "40", "--groups", "1000", "--seed", "1"]);
    step::run(generate.arg("--out").arg(&all), "see the message above")?;
    let text = fs::read_to_string(&all).context("cannot read the generated graph")?;
    let of = |set: &str, keep: &dyn Fn(usize) -> bool| {
        let lines = text.lines().enumerate();
        let kept = lines.filter(|(line, _)| keep(line % SPLIT));
        let kept: String = kept.flat_map(|(_, line)| [line, "\n"]).collect();
        let path = folder.join(format!("planted_{set}.tsv"));
        fs::write(&path, kept).with_context(|| format!("cannot write {}", path.display()))?;
        Ok::<_, anyhow::Error>(format!("{set}={}", path.display()))
    };
    Ok(EdgeFiles {
        name: "planted",
        sets: [
            of("train", &|at| at < SPLIT - 2)?,
            of("valid", &|at| at == SPLIT - 1)?,
            of("test", &|at| at == SPLIT - 2)?,
        ],
    })
}

/// Returns the WordNet graph of the example.
fn wordnet(repo: &Repo) -> EdgeFiles {
    let folder = repo.root.join("examples/wordnet");
    let of = |set: &str| format!("{set}={}", folder.join(format!("{set}.tsv.gz")).display());
    EdgeFiles {
        name: "wordnet",
        sets: ["train", "valid", "test"].map(of),
    }
}

/// Returns name and path of every configuration to measure, presets first.
fn configurations(repo: &Repo, folder: &Path, all: bool) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for preset in PRESETS {
        let mut command = repo.run_program();
        command.args(["config", "new", "--preset", preset]);
        let text = step::output(&mut command, "see the message above")?;
        let path = folder.join(format!("{preset}.toml"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        found.push((format!("preset {preset}"), path));
    }
    let shipped = repo.root.join("configs");
    let mut files = fs::read_dir(&shipped)
        .context("cannot list configs")?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()?;
    files.push(repo.root.join("examples/wordnet/pbg.toml"));
    files.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    files.sort();
    for path in files {
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path:?}"))?;
        if all || !text.lines().any(|line| line.starts_with("all_negs = true")) {
            found.push((repo.short(&path).to_string(), path));
        }
    }
    Ok(found)
}

fn measure(
    repo: &Repo,
    graph: &EdgeFiles,
    config: &Path,
    epochs: Option<u32>,
    folder: &Path,
) -> Result<Figures> {
    let model = folder.join("model");
    if model.exists() {
        fs::remove_dir_all(&model).with_context(|| format!("cannot remove {}", model.display()))?;
    }
    let mut keys = vec![
        format!("dataset={}", folder.join("dataset").display()),
        format!("checkpoint_path={}", model.display()),
        "edge_sets=[\"train\"]".to_owned(),
        "eval_fraction=0".to_owned(),
    ];
    keys.extend(epochs.map(|epochs| format!("num_epochs={epochs}")));
    let command = |name: &str| {
        let mut command = repo.run_program();
        command.arg(name).arg(config);
        command.args(keys.iter().flat_map(|key| ["--set", key]));
        command
    };
    let mut import = command("import");
    import.args(graph.sets.iter().flat_map(|set| ["--edges", set]));
    step::run(
        import.arg("--fresh").stdout(Stdio::null()),
        "see the message above",
    )?;
    let before = cpu_seconds_of_ended_children()?;
    let mut train = command("train");
    train.args(["--progress", "none"]).stdout(Stdio::null());
    step::run(&mut train, "see the message above")?;
    let cpu_seconds = cpu_seconds_of_ended_children()? - before;
    let mut eval = command("eval");
    eval.args(["--edges", "test", "--filter", "train,valid,test"]);
    let text = step::output(
        eval.args(["--limit", RANKED, "--json"]),
        "see the message above",
    )?;
    let ranks: Value =
        serde_json::from_str(&text).context("pbg-host eval printed no valid JSON")?;
    let number = |at: &Value, key: &str| at[key].as_f64().with_context(|| format!("no rank {key}"));
    let events =
        fs::read_to_string(model.join("metrics.jsonl")).context("the run left no metrics.jsonl")?;
    let ends = events.lines().filter(|line| {
        let event: Option<Value> = serde_json::from_str(line).ok();
        event.is_some_and(|event| event["event"] == "epoch_finished")
    });
    Ok(Figures {
        epochs: ends.count() as u64,
        mrr: number(&ranks["filtered"], "mrr")?,
        hits10: number(&ranks["filtered"], "hits_at_10")?,
        cpu_seconds,
    })
}

/// A figure, the last one in brackets, and the number of digits.
struct FigureWithLast(f64, Option<f64>, usize);

impl fmt::Display for FigureWithLast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(now, last, digits) = *self;
        let last = last.map_or_else(|| "-".to_owned(), |last| format!("{last:.digits$}"));
        f.pad(&format!("{now:.digits$} ({last})"))
    }
}

fn print(row: &TrainedRow, found: Figures, last: Option<&Figures>) {
    let TrainedRow {
        graph,
        configuration,
    } = row;
    // Figures after another number of epochs are not comparable.
    let last = last.filter(|last| last.epochs == found.epochs);
    let beside = |of: fn(&Figures) -> f64, digits| FigureWithLast(of(&found), last.map(of), digits);
    println!(
        "{graph:<12} {configuration:<28} {:>7} {:>16} {:>16} {:>16}",
        found.epochs,
        beside(|figures| figures.mrr, 3),
        beside(|figures| figures.hits10, 3),
        beside(|figures| figures.cpu_seconds, 0),
    );
}

fn parse(text: &str) -> Result<BTreeMap<TrainedRow, Figures>> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        bail!("{FIGURES} does not begin with `{HEADER}`");
    }
    let parsed = lines.map(|line| {
        let columns: Vec<&str> = line.split(',').collect();
        let [graph, configuration, epochs, mrr, hits10, cpu_seconds] = columns[..] else {
            bail!("{FIGURES} has a line with the wrong number of columns: {line}");
        };
        let figures = Figures {
            epochs: epochs.parse()?,
            mrr: mrr.parse()?,
            hits10: hits10.parse()?,
            cpu_seconds: cpu_seconds.parse()?,
        };
        let row = TrainedRow {
            graph: graph.to_owned(),
            configuration: configuration.to_owned(),
        };
        Ok((row, figures))
    });
    parsed.collect()
}

fn format(figures: &BTreeMap<TrainedRow, Figures>) -> String {
    let line = |(row, figures): (&TrainedRow, &Figures)| {
        let TrainedRow {
            graph,
            configuration,
        } = row;
        let Figures {
            epochs,
            mrr,
            hits10,
            cpu_seconds,
        } = figures;
        format!("{graph},{configuration},{epochs},{mrr:.4},{hits10:.4},{cpu_seconds:.0}\n")
    };
    let lines: String = figures.iter().map(line).collect();
    format!("{HEADER}\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let figures = Figures {
            epochs: 3,
            mrr: 0.25,
            hits10: 0.5,
            cpu_seconds: 61.0,
        };
        let row = |name: &str| TrainedRow {
            graph: "wordnet".to_owned(),
            configuration: name.to_owned(),
        };
        let kept = BTreeMap::from([
            (row("preset pbg"), figures),
            (row("configs/a.toml"), figures),
        ]);
        assert_eq!(parse(&format(&kept)).unwrap(), kept);
        assert!(parse("graph,mrr\n").is_err());
        assert!(parse(&format!("{HEADER}\nwordnet,a,3,much,0,0\n")).is_err());
    }
}
