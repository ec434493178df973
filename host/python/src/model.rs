//! A trained model that answers questions. It lives on its own thread, which keeps the tables that questions have used.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pbg_checkpoint::ReadCheckpoint;
use pbg_core::graph::Side;
use pbg_export::ExportOptions;
use pbg_model::{ResolvedConfig, TrainedModel};
use pbg_query::{Calibration, IndexQueryOptions, QueryModel};
use pbg_session::{Failure, FailureKind, Result};
use pyo3::prelude::*;

use crate::calibration::CalibrationRequest;
use crate::config::{Config, json};
use crate::errors::{raised, spelled, usage};
use crate::front::work;
use crate::index;
use crate::listed::{self, ListedSource};
use crate::map::MapRequest;
use crate::missing::MissingRequest;
use crate::question::{self, Asked};
use crate::ranking::RankingRequest;
use crate::version::Version;

/// An entity with its score.
type Near = (String, f32);

/// Interval at which a call checks whether Python has received a signal.
const GRAIN: Duration = Duration::from_millis(50);

/// A job for the model's thread.
type Request = Box<dyn for<'r> FnOnce(&'r ResolvedConfig, &mut Option<QueryModel<'r>>) + Send>;

/// A trained model that answers questions.
#[pyclass(frozen)]
pub(crate) struct Model {
    jobs: Mutex<Sender<Request>>,
    stop: Arc<AtomicBool>,
    resolved: ResolvedConfig,
}

#[pymethods]
impl Model {
    #[new]
    fn new(py: Python<'_>, config: &Config) -> PyResult<Self> {
        work(py, |_| {
            let resolved = ResolvedConfig::new(config.config.clone())?;
            checkpoint(&resolved)?;
            resolved.admit_checkpoint()?;
            let (jobs, work) = channel();
            let mine = resolved.clone();
            let thread = thread::Builder::new().name("model".to_owned());
            let started = thread.spawn(move || serve(&mine, &work));
            started.map_err(|error| Failure::new(FailureKind::Io, error))?;
            Ok(Self {
                jobs: Mutex::new(jobs),
                stop: Arc::default(),
                resolved,
            })
        })
    }

    /// Returns the scores of edges.
    fn score(&self, py: Python<'_>, edges: Vec<(String, String, String)>) -> PyResult<Vec<f32>> {
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, model| {
            scores(opened(resolved, model)?, &edges, &stop)
        })
    }

    /// Returns the probabilities of edges, by the calibration of the model.
    fn probabilities(
        &self,
        py: Python<'_>,
        edges: Vec<(String, String, String)>,
    ) -> PyResult<Vec<f64>> {
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, model| {
            let curves = Calibration::of(resolved)?;
            let scores = scores(opened(resolved, model)?, &edges, &stop)?.into_iter();
            Ok(scores
                .map(|score| curves.probability(Side::Lhs, score))
                .collect())
        })
    }

    /// Calibrates the model. Returns the calibration and a warning if there is one; options and calibration are JSON.
    fn calibrate(&self, py: Python<'_>, options: &str) -> PyResult<(String, Option<String>)> {
        let fit: CalibrationRequest = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        self.ask(py, move |resolved, _| {
            let (made, warning) = fit.run(resolved)?;
            Ok((json(&made)?, warning))
        })
    }

    /// Returns the calibration of the model as JSON.
    fn calibration(&self, py: Python<'_>) -> PyResult<String> {
        self.ask(py, |resolved, _| json(&Calibration::of(resolved)?))
    }

    /// Searches the best missing edges; options and edges are JSON.
    fn missing(&self, py: Python<'_>, options: &str) -> PyResult<String> {
        let search: MissingRequest = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, _| json(&search.run(resolved, &stop)?))
    }

    /// Ranks edges among candidates that `next` returns with them. Returns the report as JSON.
    fn rank_listed(
        &self,
        py: Python<'_>,
        next: Py<PyAny>,
        threads: Option<usize>,
    ) -> PyResult<String> {
        let stop = Arc::clone(&self.stop);
        let source = ListedSource { next, threads };
        self.ask(py, move |resolved, _| {
            listed::rank(resolved, &source, &stop)
        })?
    }

    /// Returns the nearest entities of one, with their scores, and a warning if there is one.
    fn neighbors(
        &self,
        py: Python<'_>,
        name: String,
        k: usize,
        entity_type: Option<String>,
        comparator: Option<String>,
        index: Option<(Option<u32>,)>,
    ) -> PyResult<(Vec<Near>, Option<String>)> {
        self.ask(py, move |resolved, model| {
            let comparator = index::comparator(comparator)?;
            let model = opened(resolved, model)?;
            let entity_type = entity_type.as_deref();
            let (found, warning) = match index {
                None => (model.neighbors(&name, k, entity_type, comparator)?, None),
                Some((width,)) => {
                    let with = IndexQueryOptions { width };
                    let (found, how) =
                        model.neighbors_by_index(&name, k, entity_type, comparator, with)?;
                    (found, question::index_warning(&how))
                }
            };
            let found = found.into_iter().map(|near| (near.name, near.score));
            Ok((found.collect(), warning))
        })
    }

    /// Builds the index. Returns the report and warnings; options and report are JSON.
    fn build_index(&self, py: Python<'_>, options: &str) -> PyResult<(String, Vec<String>)> {
        let options: index::Options = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, _| {
            let report = pbg_query::build_index(resolved, &options.options()?, &stop, &|_| ())?;
            let advice = report.advice();
            let advice = advice.iter().map(|text| spelled(text)).collect();
            Ok((json(&report)?, advice))
        })
    }

    /// Answers questions; questions and answers are JSON.
    fn predict(&self, py: Python<'_>, asked: &str) -> PyResult<String> {
        let asked: Asked = work(py, |_| serde_json::from_str(asked).map_err(usage))?;
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, _| {
            json(&question::answer(resolved, asked, &stop)?)
        })
    }

    /// Ranks edges; options and report are JSON.
    fn evaluate(&self, py: Python<'_>, options: &str) -> PyResult<String> {
        let options: RankingRequest = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        self.ask(py, move |resolved, _| json(&options.ranks(resolved)?))
    }

    /// Returns the names of the relations, by id.
    fn relations(&self) -> Vec<String> {
        self.resolved.blueprint().relation_names.clone()
    }

    /// Returns the vector with which a question compares candidates for its left side, if `is_head_open`, or its right
    /// side.
    fn query_vector(
        &self,
        py: Python<'_>,
        known: String,
        relation: String,
        is_head_open: bool,
    ) -> PyResult<Vec<f32>> {
        let open = if is_head_open { Side::Lhs } else { Side::Rhs };
        self.ask(py, move |resolved, model| {
            let model = opened(resolved, model)?;
            Ok(model.query_vector(&known, &relation, open)?)
        })
    }

    /// Exports embeddings and parameters to a folder, and returns the paths of the files.
    fn export(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        format: &str,
        overwrite: bool,
    ) -> PyResult<Vec<PathBuf>> {
        let tables = match format {
            "hub" => None,
            format => Some(work(py, |_| format.parse().map_err(usage))?),
        };
        self.ask(py, move |resolved, _| {
            let model = TrainedModel::open(resolved)?;
            let Some(format) = tables else {
                return pbg_session::hub::export_to_hub(resolved, &model, &folder, overwrite);
            };
            let options = ExportOptions { format, overwrite };
            let (checkpoint, earlier) = (&model.checkpoint, model.earlier.as_ref());
            let go_on = &mut |_, _| ();
            let written =
                pbg_export::run(model.dataset, checkpoint, earlier, &folder, &options, go_on);
            Ok(written?)
        })
    }

    /// Places entities on a map. Returns the points as JSON, and the page if `html`; the options are JSON.
    fn map(&self, py: Python<'_>, options: &str, html: bool) -> PyResult<(String, Option<String>)> {
        let map: MapRequest = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        self.ask(py, move |resolved, model| {
            let points = map.points(resolved, opened(resolved, model)?)?;
            let title = &resolved.config().checkpoint_path;
            let page = html.then(|| pbg_report::pages::map::page(&points, title));
            let page = page
                .transpose()
                .map_err(|error| Failure::message(FailureKind::Internal, error))?;
            Ok((json(&points)?, page))
        })
    }

    /// Ranks edges at hand; options and report are JSON.
    fn evaluate_given(
        &self,
        py: Python<'_>,
        edges: Vec<(String, String, String)>,
        options: &str,
    ) -> PyResult<String> {
        let options: RankingRequest = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        self.ask(py, move |resolved, _| {
            json(&options.ranks_of(resolved, &edges)?)
        })
    }

    /// Opens the current version of the checkpoint.
    fn version(&self, py: Python<'_>) -> PyResult<Version> {
        work(py, |_| {
            let entities = &self.resolved.dataset().manifest().entities;
            Ok(Version {
                checkpoint: checkpoint(&self.resolved)?,
                types: entities.keys().cloned().collect(),
            })
        })
    }

    /// Returns the dataset's folder and manifest, as JSON.
    fn manifest(&self, py: Python<'_>) -> PyResult<String> {
        work(py, |_| manifest(&self.resolved))
    }
}

/// Returns the dataset's folder, manifest and identity, as JSON.
pub(crate) fn manifest(resolved: &ResolvedConfig) -> Result<String> {
    let dataset = resolved.dataset();
    json(&serde_json::json!({
        "path": dataset.path(),
        "manifest": dataset.manifest(),
        "identity": dataset.identity(),
    }))
}

impl Model {
    /// Runs `job` on the model's thread, and waits for its result. A signal sets `stop`. Jobs that check it end; others
    /// are finished by the thread without anyone waiting.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        job: impl for<'r> FnOnce(&'r ResolvedConfig, &mut Option<QueryModel<'r>>) -> Result<T>
        + Send
        + 'static,
    ) -> PyResult<T> {
        let gone = || Failure::message(FailureKind::Internal, "the thread of the model has ended");
        self.stop.store(false, Ordering::Relaxed);
        let (answer, mut answered) = channel();
        let job: Request = Box::new(move |resolved, model| {
            // The receiver may be gone.
            let _unheard = answer.send(job(resolved, model));
        });
        let jobs = self
            .jobs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        jobs.send(job).map_err(|_| raised(py, gone()))?;
        loop {
            let receiver = &mut answered;
            let result = py.detach(move || receiver.recv_timeout(GRAIN));
            match result {
                Ok(result) => return result.map_err(|failure| raised(py, failure)),
                Err(RecvTimeoutError::Disconnected) => return Err(raised(py, gone())),
                Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| {
                    self.stop.store(true, Ordering::Relaxed);
                })?,
            }
        }
    }
}

/// Returns the scores of edges, or of the first ones if `stop` is set meanwhile.
fn scores(
    model: &mut QueryModel<'_>,
    edges: &[(String, String, String)],
    stop: &AtomicBool,
) -> Result<Vec<f32>> {
    let mut scores = Vec::with_capacity(edges.len());
    for (number, (lhs, relation, rhs)) in (1..).zip(edges) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let score = model.score(lhs, relation, rhs);
        let score = score.map_err(|error| match edges.len() {
            1 => Failure::from(error),
            _ => Failure::from(error).context(format!("edge {number}")),
        });
        scores.push(score?);
    }
    Ok(scores)
}

/// Opens the last version of the checkpoint.
fn checkpoint(resolved: &ResolvedConfig) -> Result<ReadCheckpoint> {
    let path = &resolved.config().checkpoint_path;
    Ok(ReadCheckpoint::open(path.as_ref()).map_err(pbg_model::RunError::from)?)
}

fn serve(resolved: &ResolvedConfig, jobs: &Receiver<Request>) {
    let mut model: Option<QueryModel<'_>> = None;
    for job in jobs {
        // The tables in memory belong to one version; every answer must use the current one.
        let current = checkpoint(resolved).ok();
        model = model.filter(|model| {
            let held = model.version();
            current.is_some_and(|current| current.manifest() == held.manifest())
        });
        job(resolved, &mut model);
    }
}

/// Returns the model, opening it at first use.
fn opened<'m, 'r>(
    resolved: &'r ResolvedConfig,
    model: &'m mut Option<QueryModel<'r>>,
) -> Result<&'m mut QueryModel<'r>> {
    if model.is_none() {
        *model = Some(QueryModel::open(resolved)?);
    }
    let gone = || Failure::message(FailureKind::Internal, "the model is gone");
    model.as_mut().ok_or_else(gone)
}
