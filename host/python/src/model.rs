//! A trained model to ask. It lives on a thread of its own, which keeps the tables that questions needed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pbg_session::{Failure, FailureKind, Result};
use pbg_store::checkpoint::ReadCheckpoint;
use pbg_train::{By, Candidates, EvalOptions, Resolved, WithIndex, query};
use pyo3::prelude::*;
use serde::Deserialize;

use crate::config::{Config, json};
use crate::errors::{raised, spelled, usage};
use crate::front::work;
use crate::index;
use crate::question::{self, Asked};
use crate::version::Version;

/// An entity with its score.
type Near = (String, f32);

/// How often a question that is being answered looks whether Python still wants it.
const GRAIN: Duration = Duration::from_millis(50);

/// Something for the thread to do.
type Request = Box<dyn for<'r> FnOnce(&'r Resolved, &mut Option<query::Model<'r>>) + Send>;

/// A trained model to ask.
#[pyclass(frozen)]
pub(crate) struct Model {
    jobs: Mutex<Sender<Request>>,
    stop: Arc<AtomicBool>,
    resolved: Resolved,
}

/// What to evaluate, as the package writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Evaluation {
    edges: String,
    /// Edge sets whose edges are no wrong answers; all of the dataset where it is unset.
    filter: Option<Vec<String>>,
    candidates: Option<u32>,
    limit: Option<usize>,
    by: Option<String>,
    threads: Option<usize>,
    seen: bool,
}

impl Evaluation {
    fn options(self, resolved: &Resolved) -> Result<EvalOptions> {
        let by = match self.by.as_deref() {
            None => None,
            Some("relation") => Some(By::Relation),
            Some("entity_type") => Some(By::EntityType),
            Some(other) => {
                let what = format!("by is \"relation\" or \"entity_type\", not {other:?}");
                return Err(usage(what));
            }
        };
        Ok(EvalOptions {
            edges: self.edges,
            filter: self.filter.unwrap_or_else(|| question::edge_sets(resolved)),
            candidates: self.candidates.map_or(Candidates::All, Candidates::Sample),
            threads: self.threads,
            limit: self.limit,
            by,
            seen: self.seen,
        })
    }
}

#[pymethods]
impl Model {
    #[new]
    fn new(py: Python<'_>, config: &Config) -> PyResult<Self> {
        work(py, |_| {
            let resolved = Resolved::new(config.config.clone())?;
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

    /// Scores of edges.
    fn score(&self, py: Python<'_>, edges: Vec<(String, String, String)>) -> PyResult<Vec<f32>> {
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, model| {
            let model = opened(resolved, model)?;
            let mut scores = Vec::with_capacity(edges.len());
            for (number, (lhs, relation, rhs)) in (1..).zip(&edges) {
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
        })
    }

    /// The entities that are nearest to one, with their scores, and what Python warns of.
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
                    let with = WithIndex { width };
                    let (found, how) =
                        model.neighbors_by_index(&name, k, entity_type, comparator, with)?;
                    (found, question::index_warning(&how))
                }
            };
            let found = found.into_iter().map(|near| (near.name, near.score));
            Ok((found.collect(), warning))
        })
    }

    /// Builds the index, and gives what Python warns of beside the report; options and report are JSON.
    fn build_index(&self, py: Python<'_>, options: &str) -> PyResult<(String, Vec<String>)> {
        let options: index::Options = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, _| {
            let report = resolved.build_index(&options.options()?, &stop, &|_| ())?;
            let advice = report.advice();
            let advice = advice.iter().map(|text| spelled(text)).collect();
            Ok((json(&report)?, advice))
        })
    }

    /// Answers questions; both are JSON.
    fn predict(&self, py: Python<'_>, asked: &str) -> PyResult<String> {
        let asked: Asked = work(py, |_| serde_json::from_str(asked).map_err(usage))?;
        let stop = Arc::clone(&self.stop);
        self.ask(py, move |resolved, _| {
            json(&question::answer(resolved, asked, &stop)?)
        })
    }

    /// Ranks edges; options and report are JSON.
    fn evaluate(&self, py: Python<'_>, options: &str) -> PyResult<String> {
        let options: Evaluation = work(py, |_| serde_json::from_str(options).map_err(usage))?;
        self.ask(py, move |resolved, _| {
            json(&resolved.evaluate(&options.options(resolved)?, &mut |_, _| ())?)
        })
    }

    /// The version of the checkpoint that is current, held open.
    fn version(&self, py: Python<'_>) -> PyResult<Version> {
        work(py, |_| {
            let entities = &self.resolved.dataset().manifest().entities;
            Ok(Version {
                checkpoint: checkpoint(&self.resolved)?,
                types: entities.keys().cloned().collect(),
            })
        })
    }

    /// What there is, as JSON: the dataset's folder and its manifest.
    fn manifest(&self, py: Python<'_>) -> PyResult<String> {
        work(py, |_| manifest(&self.resolved))
    }
}

/// The dataset's folder, its manifest, and what tells it from others, as JSON.
pub(crate) fn manifest(resolved: &Resolved) -> Result<String> {
    let dataset = resolved.dataset();
    json(&serde_json::json!({
        "path": dataset.path(),
        "manifest": dataset.manifest(),
        "identity": dataset.identity(),
    }))
}

impl Model {
    /// Has the thread do `job`, and waits for what comes of it. A signal sets `stop`, which some jobs heed, and leaves
    /// the others to the thread.
    fn ask<T: Send + 'static>(
        &self,
        py: Python<'_>,
        job: impl for<'r> FnOnce(&'r Resolved, &mut Option<query::Model<'r>>) -> Result<T>
        + Send
        + 'static,
    ) -> PyResult<T> {
        let gone = || Failure::message(FailureKind::Internal, "the thread of the model has ended");
        self.stop.store(false, Ordering::Relaxed);
        let (answer, mut answered) = channel();
        let job: Request = Box::new(move |resolved, model| {
            // Nobody may wait for it any more.
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

/// The last version of the checkpoint.
fn checkpoint(resolved: &Resolved) -> Result<ReadCheckpoint> {
    let path = &resolved.config().checkpoint_path;
    Ok(ReadCheckpoint::open(path.as_ref()).map_err(pbg_train::RunError::from)?)
}

fn serve(resolved: &Resolved, jobs: &Receiver<Request>) {
    let mut model: Option<query::Model<'_>> = None;
    for job in jobs {
        // What is kept in memory is of one version; every answer is of the one that is current.
        let current = checkpoint(resolved).ok();
        model = model.filter(|model| {
            let held = model.version();
            current.is_some_and(|current| current.manifest() == held.manifest())
        });
        job(resolved, &mut model);
    }
}

/// The model, opened when it is first asked.
fn opened<'m, 'r>(
    resolved: &'r Resolved,
    model: &'m mut Option<query::Model<'r>>,
) -> Result<&'m mut query::Model<'r>> {
    if model.is_none() {
        *model = Some(resolved.query()?);
    }
    let gone = || Failure::message(FailureKind::Internal, "the model is gone");
    model.as_mut().ok_or_else(gone)
}
