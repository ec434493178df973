//! Speed of importing edges, compared with only reading lines and finding their columns.

use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use pbg_config::Config;
use pbg_files::FileError;
use pbg_import::generate::RandomGraph;
use pbg_import::{self as import, ImportError, ImportOptions};
use pbg_model::memory::peak_bytes;
use serde::Serialize;

use crate::clocks::process_cpu_seconds;

/// Results of `bench import`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ImportBenchReport {
    /// Number of edges.
    pub edges: u64,
    /// Number of distinct entities.
    pub entities: u64,
    /// Size of the text in bytes.
    pub text_bytes: u64,
    /// Wall-clock seconds of the import.
    pub wall_seconds: f64,
    /// CPU seconds of the import, summed over all threads.
    pub cpu_seconds: f64,
    /// Edges per CPU-second.
    pub edges_per_cpu_second: f64,
    /// Edges per second of wall-clock time.
    pub edges_per_second: f64,
    /// Edges per CPU-second if an import consisted only of reading the text and finding its columns.
    pub ceiling: f64,
    /// Bytes per second at which a single thread reads the text and finds its columns.
    pub reading_bytes_per_second: f64,
    /// Peak memory of the process in bytes.
    pub peak_bytes: Option<u64>,
}

/// Generates `graph` as a text file in `folder`, which must be empty, and imports it with `options`.
///
/// # Errors
/// When the folder cannot be written, or the import fails.
pub fn import(
    folder: &Path,
    graph: &RandomGraph,
    partitions: u32,
    options: &ImportOptions,
) -> Result<ImportBenchReport, ImportError> {
    let text = folder.join("edges.tsv");
    let generate = || {
        let mut out = BufWriter::new(File::create(&text)?);
        graph.write(&mut out, |_| ())?;
        out.flush()
    };
    generate().map_err(|e| FileError::new("write", &text, e))?;

    let (started, cpu) = (pbg_clock::now(), process_cpu_seconds());
    let text_bytes = split(&text)?;
    let reading = started.elapsed().as_secs_f64();
    let splitting = process_cpu_seconds() - cpu;

    let config = config(folder, partitions)?;
    let (started, cpu) = (pbg_clock::now(), process_cpu_seconds());
    let sets = [("train".to_owned(), vec![text])];
    let options = ImportOptions {
        target: PathBuf::from(&config.dataset),
        seed: config.seed,
        ..options.clone()
    };
    let report = import::run(&config.graph_schema(), &sets, &options, &mut |_| {
        ControlFlow::Continue(())
    })?;
    let wall_seconds = started.elapsed().as_secs_f64();
    let cpu_seconds = process_cpu_seconds() - cpu;
    let edges = graph.edges as f64;
    Ok(ImportBenchReport {
        edges: graph.edges,
        entities: report.types.iter().map(|entities| entities.entities).sum(),
        text_bytes,
        wall_seconds,
        cpu_seconds,
        edges_per_cpu_second: edges / cpu_seconds,
        edges_per_second: edges / wall_seconds,
        ceiling: edges / splitting,
        reading_bytes_per_second: text_bytes as f64 / reading,
        peak_bytes: peak_bytes(),
    })
}

/// Reads a text file and finds the ends of its columns. Returns its size in bytes.
fn split(path: &Path) -> Result<u64, ImportError> {
    const BLOCK: usize = 512 << 10;
    let failed = |e| FileError::new("read", path, e);
    let mut file = File::open(path).map_err(failed)?;
    let mut block = vec![0; BLOCK];
    let mut ends = Vec::with_capacity(BLOCK);
    let mut bytes = 0;
    loop {
        let read = file.read(&mut block).map_err(failed)?;
        if read == 0 {
            return Ok(bytes);
        }
        bytes += read as u64;
        ends.clear();
        ends.extend(memchr::memchr2_iter(b'\t', b'\n', &block[..read]).map(|at| at as u32));
        std::hint::black_box(&ends);
    }
}

fn config(folder: &Path, partitions: u32) -> Result<Config, ImportError> {
    let path = |name| toml_text(&folder.join(name).display().to_string());
    let text = format!(
        "dataset = {}\ncheckpoint_path = {}\ndimension = 100\ndynamic_relations = true\n\
         entities.entity.num_partitions = {partitions}\n\
         relations = [{{ name = 'any', lhs = 'entity', rhs = 'entity' }}]\n",
        path("dataset"),
        path("checkpoint"),
    );
    Config::parse(&text, "the measurement's configuration", &[])
        .map_err(|e| ImportError::Usage(e.to_string()))
}

/// Returns a text as a quoted string, in the syntax that TOML and JSON share.
fn toml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
