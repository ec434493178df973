//! Import of edges from files, and from tables and iterables of a Python program.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;

use arrow_array::RecordBatch;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::PyArrowType;
use pbg_import as import;
use pbg_import::columns::{self, Role};
use pbg_import::spool::{ColumnValues, EdgeSpool};
use pbg_import::{ImportOptions, ImportProgress, Prefix, RdfOptions, TextOptions};
use pbg_session::{Failure, FailureKind, Result};
use pyo3::prelude::*;
use serde::Deserialize;
use tempfile::TempDir;

use crate::config::{Config, json};
use crate::errors::usage;
use crate::front::{interruptible, work};

/// A column of edges: its name, and its names or its weights.
type Column = (String, Option<Vec<String>>, Option<Vec<f32>>);

/// Edges passed by a Python program, stored in files next to the dataset until they are imported.
#[pyclass(frozen)]
pub(crate) struct Spool {
    folder: TempDir,
    open: Mutex<Option<EdgeSpool>>,
}

#[pymethods]
impl Spool {
    #[new]
    fn new(py: Python<'_>, config: &Config) -> PyResult<Self> {
        let dataset = Path::new(&config.config.dataset);
        let parent = dataset
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let folder = work(py, |_| {
            pbg_import::check_target(dataset)?;
            let made = fs::create_dir_all(parent).and_then(|()| {
                let name = dataset.file_name().unwrap_or_default().to_string_lossy();
                tempfile::Builder::new()
                    .prefix(&format!(".{name}.edges-"))
                    .tempdir_in(parent)
            });
            made.map_err(|error| Failure::io("cannot create a folder in", parent, error))
        })?;
        Ok(Self {
            folder,
            open: Mutex::new(None),
        })
    }

    /// Begins a file, and returns its path.
    fn begin(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        *self.lock() = Some(EdgeSpool::new(&path));
        path
    }

    /// Adds all record batches of an object with `__arrow_c_stream__`.
    fn put_stream(
        &self,
        py: Python<'_>,
        stream: PyArrowType<RecordBatchStreamReader>,
    ) -> PyResult<()> {
        work(py, |_| {
            for batch in stream.0 {
                let batch = batch.map_err(|error| Failure::new(FailureKind::Data, error))?;
                self.put(|spool| Ok(spool.put(&batch)?))?;
            }
            Ok(())
        })
    }

    /// Adds the record batch of an object with `__arrow_c_array__`.
    fn put_batch(&self, py: Python<'_>, batch: PyArrowType<RecordBatch>) -> PyResult<()> {
        work(py, |_| self.put(|spool| Ok(spool.put(&batch.0)?)))
    }

    /// Adds edges by columns: each has a name and either entity names, weights, or neither if it is not read.
    fn put_columns(&self, py: Python<'_>, columns: Vec<Column>, rows: usize) -> PyResult<()> {
        let columns = columns.into_iter().map(|column| match column {
            (name, Some(names), _) => (name, ColumnValues::Names(names)),
            (name, None, Some(weights)) => (name, ColumnValues::Weights(weights)),
            (name, None, None) => (name, ColumnValues::Unread(rows)),
        });
        let columns = columns.collect();
        work(py, |_| self.put(|spool| Ok(spool.put_columns(columns)?)))
    }

    /// Completes the file.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        work(py, |_| match self.lock().take() {
            Some(spool) => Ok(spool.finish()?),
            None => Ok(()),
        })
    }
}

impl Spool {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<EdgeSpool>> {
        self.open
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn put(&self, put: impl FnOnce(&mut EdgeSpool) -> Result<()>) -> Result<()> {
        match self.lock().as_mut() {
            Some(spool) => put(spool),
            None => Err(usage("no file is open")),
        }
    }
}

/// Returns the roles of a table's columns, in their order: `lhs`, `rel`, `rhs`, `weight`, or `-` for one that is not
/// read.
#[pyfunction]
pub(crate) fn column_roles(
    py: Python<'_>,
    given: Option<&str>,
    header: Vec<String>,
) -> PyResult<Vec<&'static str>> {
    work(py, |_| {
        let given: Option<import::ColumnSpec> = parsed("columns", given.map(str::to_owned))?;
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let roles = columns::roles(given.as_ref(), &header);
        let roles = roles.map_err(|what| Failure::message(FailureKind::Data, what))?;
        let word = |role| match role {
            Role::Lhs => "lhs",
            Role::Rel => "rel",
            Role::Rhs => "rhs",
            Role::Weight => "weight",
            Role::Ignored => "-",
        };
        Ok(roles.into_iter().map(word).collect())
    })
}

/// Options of an import, in the JSON form of the package.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Options {
    columns: Option<String>,
    header: Option<bool>,
    header_file: Option<PathBuf>,
    separator: Option<String>,
    comment: Option<String>,
    skip_lines: u64,
    on_bad_line: String,
    literals: String,
    blank_nodes: String,
    prefixes: Vec<(String, String)>,
    file_prefixes: bool,
    entity_min_count: u32,
    relation_min_count: u32,
    dictionary: Option<PathBuf>,
    fresh: bool,
    features: Vec<(String, PathBuf)>,
    threads: Option<usize>,
    memory: Option<u64>,
}

/// Imports edge sets from files. `progress` is called with phase, done and total; an exception that it raises ends the
/// import. Returns the report as JSON.
#[pyfunction]
pub(crate) fn import_edges(
    py: Python<'_>,
    config: &Config,
    sets: Vec<(String, Vec<PathBuf>)>,
    options: &str,
    progress: Py<PyAny>,
) -> PyResult<String> {
    let config = &config.config;
    interruptible(py, |ask| {
        let options = import_options(config, serde_json::from_str(options).map_err(usage)?)?;
        let mut told = |now: ImportProgress| ask(&|py| progress.call1(py, shown(&now)).map(drop));
        let report = import::run(&config.graph_schema(), &sets, &options, &mut told)?;
        json(&report.as_json())
    })
}

fn import_options(config: &pbg_config::Config, given: Options) -> Result<ImportOptions> {
    let text = TextOptions {
        header: given.header,
        header_file: given.header_file,
        separator: parsed("separator", given.separator)?,
        comment: parsed("comment", given.comment)?,
        skip_lines: given.skip_lines,
    };
    let prefixes = given.prefixes.iter();
    let prefixes = prefixes.map(|(name, iri)| Prefix::new(name, iri));
    let prefixes: std::result::Result<Vec<_>, _> = prefixes.collect();
    let rdf = RdfOptions {
        literals: parsed("literals", Some(given.literals))?.unwrap_or_default(),
        blank_nodes: parsed("blank_nodes", Some(given.blank_nodes))?.unwrap_or_default(),
        prefixes: prefixes.map_err(|what| usage(format!("prefixes: {what}")))?,
        file_prefixes: given.file_prefixes,
    };
    Ok(ImportOptions {
        target: PathBuf::from(&config.dataset),
        seed: config.seed,
        columns: parsed("columns", given.columns)?,
        text,
        rdf,
        on_bad_line: parsed("on_bad_line", Some(given.on_bad_line))?.unwrap_or_default(),
        threads: given.threads,
        memory: given.memory,
        names_memory: pbg_model::memory::default_name_bytes(),
        name_storage: None,
        entity_min_count: given.entity_min_count,
        relation_min_count: given.relation_min_count,
        dictionary: given.dictionary,
        fresh: given.fresh,
        features: given.features,
        trained: config.edge_sets.clone(),
    })
}

/// Parses a text argument.
fn parsed<T: FromStr<Err = String>>(argument: &str, text: Option<String>) -> Result<Option<T>> {
    let parsed = text.map(|text| text.parse()).transpose();
    parsed.map_err(|what| usage(format!("{argument}: {what}")))
}

/// Returns the phase, and the amounts done and in total.
fn shown(progress: &ImportProgress) -> (String, u64, u64) {
    use ImportProgress as Now;
    let (phase, done, total) = match progress {
        Now::Spooling { path, bytes } => (format!("copying {}", path.display()), bytes, &0),
        Now::ReadAs { what } => (what.clone(), &0, &0),
        Now::Reading {
            set,
            bytes,
            total_bytes,
            ..
        } => (format!("reading {set}"), bytes, total_bytes),
        Now::NamesToDisk { why } => {
            let what = format!("{why}: names are sorted on disk, and reading starts again");
            (what, &0, &0)
        }
        Now::Numbering { bytes, total_bytes } => ("numbering names".to_owned(), bytes, total_bytes),
        Now::Joining {
            set,
            edges,
            total_edges,
        } => (format!("numbering edges of {set}"), edges, total_edges),
        Now::Assigning { entities } => ("placing entities".to_owned(), &0, entities),
        Now::Counting { edges, total_edges } => ("counting".to_owned(), edges, total_edges),
        Now::Writing {
            set,
            edges,
            total_edges,
        } => (format!("writing {set}"), edges, total_edges),
    };
    (phase, *done, *total)
}
