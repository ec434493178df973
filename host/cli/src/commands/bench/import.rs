//! `pbg-host bench import`.

use std::io::{self, Write};
use std::path::PathBuf;

use pbg_bench::ImportBenchReport;
use pbg_import::ImportOptions;
use pbg_import::generate::RandomGraph;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::scratch::BenchFolder;
use crate::terminal;
use crate::{format, options};

/// Measure how fast edges are imported.
///
/// Generates a power-law graph as text with three columns and imports it. The speed is compared with a ceiling: the
/// speed if the import only read the text and split its columns.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench import
  pbg-host bench import --edges 50000000 --entities 5000000 --memory 1G --json")]
pub(crate) struct Args {
    /// Number of edges to import.
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    edges: u64,
    /// Number of entities.
    #[arg(long, value_name = "N", default_value_t = 500_000)]
    entities: u64,
    /// Number of partitions of the dataset.
    #[arg(long, value_name = "P", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=4096))]
    partitions: u32,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Memory for names and buffers, as for `import`.
    #[arg(long, value_name = "SIZE", value_parser = options::bytes)]
    memory: Option<u64>,
    /// Folder for temporary files, which are removed afterwards.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the folder cannot be written.
pub(crate) fn run(args: &Args) -> Result<()> {
    let graph = RandomGraph {
        entities: args.entities,
        edges: args.edges,
        relations: 20,
        skew: 0.8,
        groups: 0,
        noise: 0.0,
        seed: 0,
    };
    if let Some(complaint) = graph.check() {
        return Err(Failure::message(FailureKind::Usage, complaint));
    }
    let options = ImportOptions {
        threads: args.threads.map(|n| n as usize),
        memory: args.memory,
        ..ImportOptions::default()
    };
    let scratch = BenchFolder::create(&args.folder.join("import"))?;
    let speed = pbg_bench::import(scratch.path(), &graph, args.partitions, &options)?;
    terminal::print_result(args.json, &speed, |out| print_speed(out, &speed))
}

fn print_speed(out: &mut dyn Write, speed: &ImportBenchReport) -> io::Result<()> {
    writeln!(
        out,
        "{} edges per CPU-second, {:.0} % of the {} that reading the text and splitting its columns alone would allow",
        format::count(speed.edges_per_cpu_second),
        100.0 * speed.edges_per_cpu_second / speed.ceiling,
        format::count(speed.ceiling),
    )?;
    writeln!(
        out,
        "{} edges between {} entities, {} of text, in {} ({} edges/s), {:.1} CPU-seconds; the text was read at {}/s",
        format::count(speed.edges as f64),
        format::count(speed.entities as f64),
        format::bytes(speed.text_bytes),
        format::seconds(speed.wall_seconds),
        format::count(speed.edges_per_second),
        speed.cpu_seconds,
        format::bytes(speed.reading_bytes_per_second as u64),
    )?;
    match speed.peak_bytes {
        Some(peak) => writeln!(out, "peak memory {}", format::bytes(peak)),
        None => Ok(()),
    }
}
