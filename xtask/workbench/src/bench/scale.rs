//! Costs of import, one epoch, ranking, neighbours and export on synthetic graphs of several sizes in bounded memory,
//! and the powers of the size with which they grow.

use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::processes::{self, ResourceUsage};
use xtask::repo::Repo;
use xtask::{build, step};

/// Entities per edge of Freebase's graph: 86 million entities, 338 million edges.
const ENTITIES_PER_EDGE: f64 = 86.0 / 338.0;
/// Number of relations of Freebase's graph.
const RELATIONS: u64 = 14_824;
const MIB: f64 = 1024.0 * 1024.0;
/// Interval between two measurements of disk usage.
const LOOK: Duration = Duration::from_millis(500);

/// Options of the measurement of costs.
#[derive(Debug, clap::Args)]
pub(crate) struct ScaleArgs {
    /// Number of edges of each graph; Freebase's has 338000000.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000000,4000000,16000000"
    )]
    edges: Vec<u64>,
    /// Dimension of the embeddings.
    #[arg(long, default_value_t = 50)]
    dimension: u32,
    /// Number of partitions of the entities.
    #[arg(long, default_value_t = 64)]
    partitions: u32,
    /// Number of partitions in memory.
    #[arg(long, default_value_t = 4)]
    buffer: u32,
    /// Negatives per edge and side: half of them from the batch, half uniform.
    #[arg(long, default_value_t = 1000)]
    negatives: u32,
    /// Memory for names and buffers of the import, in MiB.
    #[arg(long, value_name = "MIB")]
    import_memory: Option<u64>,
    /// Folder for graphs, datasets and models, which are removed again [default: target/scale].
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Step with its costs.
struct Measured {
    name: &'static str,
    taken: ResourceUsage,
    /// Peak disk usage of graph, dataset, model and export together.
    disk_bytes: u64,
}

/// Measurement of one graph.
struct GraphMeasurement<'a> {
    repo: &'a Repo,
    args: &'a ScaleArgs,
    edges: u64,
    folder: PathBuf,
}

/// Costs of a graph, to be compared with those of others.
struct Costs {
    edges: u64,
    steps: Vec<Measured>,
    /// Bytes of partitions read and written by training.
    traffic: f64,
}

/// Runs all sizes, and prints how their costs grow.
pub(crate) fn run(repo: &Repo, args: &ScaleArgs) -> Result<()> {
    build::run(repo)?;
    let mut all = Vec::new();
    for &edges in &args.edges {
        let folder = match &args.folder {
            Some(folder) => folder.join("scale"),
            None => repo.root.join("target/scale"),
        };
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .with_context(|| format!("cannot remove {}", folder.display()))?;
        }
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let size = GraphMeasurement {
            repo,
            args,
            edges,
            folder,
        };
        all.push(size.run()?);
    }
    print_growth(&all);
    Ok(())
}

impl GraphMeasurement<'_> {
    fn entities(&self) -> u64 {
        (self.edges as f64 * ENTITIES_PER_EDGE) as u64
    }

    fn config(&self) -> String {
        let ScaleArgs {
            dimension,
            partitions,
            buffer,
            negatives,
            ..
        } = self.args;
        let half = negatives / 2;
        format!(
            r#"dataset = "dataset"
checkpoint_path = "model"
dimension = {dimension}
comparator = "dot"
dynamic_relations = true
loss_fn = "softmax"
batch_size = 5000
chunk_size = {half}
num_batch_negs = {half}
num_uniform_negs = {half}
num_epochs = 1
eval_fraction = 0
bucket_order = "optimal"
buffer_partitions = {buffer}

[entities.entity]
num_partitions = {partitions}

[[relations]]
name = "all"
lhs = "entity"
rhs = "entity"
operator = "complex_diagonal"
"#
        )
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.repo.run_program();
        command.args(arguments).current_dir(&self.folder);
        command
    }

    fn generate(&self, set: &str, edges: u64, seed: &str) -> Result<()> {
        let (entities, relations) = (self.entities().to_string(), RELATIONS.to_string());
        let mut command = self.command(&["generate", "--entities", &entities]);
        command.args(["--relations", &relations, "--edges", &edges.to_string()]);
        command.args(["--seed", seed, "--out", &format!("{set}.tsv")]);
        step::output(&mut command, "see the message above").map(drop)
    }

    fn run(&self) -> Result<Costs> {
        step::announce(&format!(
            "{} entities, {} edges, {RELATIONS} relations",
            self.entities(),
            self.edges
        ));
        let path = self.folder.join("pbg.toml");
        fs::write(&path, self.config()).context("cannot write the configuration")?;
        self.generate("train", self.edges, "0")?;
        self.generate("valid", 10_000, "1")?;
        let memory = self.args.import_memory.map(|mib| format!("{mib}M"));
        let mut import = vec!["import", "pbg.toml", "--edges", "train=train.tsv"];
        import.extend(["--edges", "valid=valid.tsv"]);
        import.extend(memory.iter().flat_map(|memory| ["--memory", memory]));
        let mut steps = vec![self.step("import", &import)?];
        let lists = ["train.tsv", "valid.tsv"];
        lists
            .iter()
            .try_for_each(|list| fs::remove_file(self.folder.join(list)))?;
        self.announced()?;
        steps.push(self.step("one epoch", &["train", "pbg.toml", "--progress", "none"])?);
        let ranking = [
            "eval",
            "pbg.toml",
            "--edges",
            "valid",
            "--candidates",
            "10000",
        ];
        steps.push(self.step("10,000 edges ranked", &ranking)?);
        steps.push(self.step("neighbours of one", &["neighbors", "pbg.toml", "e0"])?);
        let export = ["export", "pbg.toml", "--format", "npy", "--out", "export"];
        steps.push(self.step("export", &export)?);
        println!(
            "  {:<20} {:>10} {:>10} {:>10} {:>14}",
            "", "seconds", "CPU-s", "peak MiB", "peak disk MiB"
        );
        for step in &steps {
            println!(
                "  {:<20} {:>10.1} {:>10.1} {:>10.0} {:>14.0}",
                step.name,
                step.taken.seconds,
                step.taken.cpu_seconds,
                step.taken.peak_bytes as f64 / MIB,
                step.disk_bytes as f64 / MIB
            );
        }
        let traffic = self.traffic()?;
        let folders = ["dataset", "model", "export"].map(|name| self.folder.join(name));
        let disk: u64 = folders.iter().map(|folder| bytes_below(folder)).sum();
        println!("  partitions read and written {:.0} MiB", traffic / MIB);
        println!("  dataset, model and export {:.0} MiB", disk as f64 / MIB);
        Ok(Costs {
            edges: self.edges,
            steps,
            traffic,
        })
    }

    /// Prints what `check` announces.
    fn announced(&self) -> Result<()> {
        let mut check = self.command(&["check", "pbg.toml", "--time", "--json"]);
        let text = step::output(&mut check, "see the message above")?;
        let report: Value =
            serde_json::from_str(&text).context("pbg-host check printed no valid JSON")?;
        let sum = |parts: &Value| -> f64 {
            let parts = parts.as_array().into_iter().flatten();
            parts.filter_map(|part| part[1].as_f64()).sum()
        };
        let (memory, disk) = (sum(&report["memory"]), sum(&report["disk"]));
        println!(
            "  check: at most {:.0} MiB of memory to train, {:.0} MiB of disk, about {:.0} s for the epoch",
            memory / MIB,
            disk / MIB,
            report["time"]["seconds_per_epoch"]
                .as_f64()
                .unwrap_or(f64::NAN)
        );
        Ok(())
    }

    fn step(&self, name: &'static str, arguments: &[&str]) -> Result<Measured> {
        let log = arguments[0];
        let ended = AtomicBool::new(false);
        let (taken, disk_bytes) = thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut most = 0;
                while !ended.load(Ordering::Relaxed) {
                    most = bytes_below(&self.folder).max(most);
                    thread::sleep(LOOK);
                }
                most
            });
            let taken = processes::run(&self.folder, log, [self.command(arguments)].into_iter());
            ended.store(true, Ordering::Relaxed);
            (taken, watch.join().unwrap_or_default())
        });
        Ok(Measured {
            name,
            taken: taken?,
            disk_bytes,
        })
    }

    fn traffic(&self) -> Result<f64> {
        let path = self.folder.join("model/metrics.jsonl");
        let text = fs::read_to_string(&path).context("the run left no metrics.jsonl")?;
        let events = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let ends = events.filter(|event: &Value| event["event"] == "epoch_finished");
        let of = |event: Value, key: &str| event["io"][key].as_f64().unwrap_or(0.0);
        let bytes = ends.map(|end| of(end.clone(), "bytes_read") + of(end, "bytes_written"));
        Ok(bytes.sum())
    }
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |data| data.len()),
    });
    bytes.sum()
}

/// Prints the powers of the number of edges with which costs grow.
fn print_growth(all: &[Costs]) {
    let Some(first) = all.first().filter(|_| all.len() > 1) else {
        return;
    };
    println!("\ngrows with the number of edges to the power of");
    // Fixed costs distort small sizes, so the exponents between successive sizes are printed as well.
    let pairs = all.windows(2).filter(|_| all.len() > 2);
    let pairs = pairs.map(|pair| format!("{} to {}", short(pair[0].edges), short(pair[1].edges)));
    let columns: Vec<_> = iter::once("all sizes".to_owned()).chain(pairs).collect();
    let header = columns.iter().map(|column| format!("{column:>16}"));
    println!("  {:<28}{}", "", header.collect::<String>());
    let print = |name: &str, cost: &dyn Fn(&Costs) -> f64| {
        let points: Vec<_> = all
            .iter()
            .map(|costs| (costs.edges as f64, cost(costs)))
            .collect();
        let exponents = iter::once(&points[..]).chain(points.windows(2));
        let exponents = exponents.take(columns.len());
        let shown = exponents.map(|points| format!("{:>16.2}", exponent(points)));
        println!("  {name:<28}{}", shown.collect::<String>());
    };
    for (at, Measured { name, .. }) in first.steps.iter().enumerate() {
        print(&format!("{name}, CPU-s"), &|costs| {
            costs.steps[at].taken.cpu_seconds
        });
    }
    print("bytes read and written", &|costs| costs.traffic);
}

/// Abbreviates a number of edges.
fn short(edges: u64) -> String {
    match edges {
        0..1_000_000 => format!("{} k", edges / 1_000),
        _ => format!("{} M", edges / 1_000_000),
    }
}

/// Returns the slope of the least-squares line through the logarithms of `points`.
fn exponent(points: &[(f64, f64)]) -> f64 {
    let logarithms = points
        .iter()
        .map(|(x, y)| (x.ln(), y.max(f64::MIN_POSITIVE).ln()));
    let logarithms: Vec<_> = logarithms.collect();
    let count = logarithms.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logarithms.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let both: f64 = logarithms.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let squares: f64 = logarithms.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    both / squares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_are_those_of_powers() {
        let powers = [1.0_f64, 4.0, 16.0].map(|x| (x, 3.0 * x.powf(1.25)));
        assert!((exponent(&powers) - 1.25).abs() < 1e-9);
    }
}
