//! Training on a separate thread, so that Python can receive events and interrupt it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pbg_core::event::Event;
use pbg_core::strategy::{BucketOrder, Loss};
use pbg_model::{AllowedChanges, ResolvedConfig};
use pbg_session::plugins::{self, StrategyOverrides};
use pbg_session::{Failure, FailureKind, FrontEnd as _, Result};
use pbg_train::RunOutcome;
use pbg_wasm::Limits;
use pyo3::prelude::*;

use crate::config::{Config, json};
use crate::errors::raised;
use crate::events::Inbox;
use crate::front::{Listener, work};
use crate::function::own_formulas::OwnFormulas;
use crate::function::{FunctionComparator, FunctionLoss, FunctionOperator, FunctionOrder};

/// A training run.
#[pyclass(frozen)]
pub(crate) struct Training {
    stop: Arc<AtomicBool>,
    inbox: Arc<Inbox>,
    listener: Listener,
    stops_within_buckets: bool,
    thread: Mutex<Option<JoinHandle<Result<RunOutcome>>>>,
}

/// State that the training thread needs.
struct Run {
    config: pbg_config::Config,
    plugins: Vec<String>,
    /// Python functions that replace configured strategies.
    order: Option<Box<dyn BucketOrder>>,
    loss: Option<Box<dyn Loss>>,
    formulas: OwnFormulas,
    allowed: AllowedChanges,
    stop: Arc<AtomicBool>,
    inbox: Arc<Inbox>,
    listener: Listener,
}

/// Python functions that replace configured strategies, if they are given: an order, a loss, the operator of all
/// relations, and the comparator.
#[derive(FromPyObject)]
pub(crate) struct PythonStrategies(
    Option<Py<FunctionOrder>>,
    Option<Py<FunctionLoss>>,
    Option<Py<FunctionOperator>>,
    Option<Py<FunctionComparator>>,
);

#[pymethods]
impl Training {
    /// Starts training.
    #[new]
    fn new(
        py: Python<'_>,
        config: &Config,
        plugins: Vec<String>,
        functions: PythonStrategies,
        allow_plugin_change: bool,
        allow_data_change: bool,
    ) -> PyResult<Self> {
        let run = Run {
            order: functions.order(py),
            loss: functions.loss(py, config)?,
            formulas: functions.formulas(py)?,
            config: config.config.clone(),
            plugins,
            allowed: AllowedChanges {
                plugin_change: allow_plugin_change,
                data_change: allow_data_change,
            },
            stop: Arc::default(),
            inbox: Arc::default(),
            listener: Listener::default(),
        };
        let stops_within_buckets = pbg_model::resume_point::stops_within_buckets(&run.config);
        work(py, |_| {
            let (stop, inbox) = (Arc::clone(&run.stop), Arc::clone(&run.inbox));
            let listener = run.listener.clone();
            let thread = thread::Builder::new().name("training".to_owned());
            let thread = thread.spawn(move || run.ends());
            let thread = thread.map_err(|error| Failure::new(FailureKind::Io, error))?;
            Ok(Self {
                stops_within_buckets,
                stop,
                inbox,
                listener,
                thread: Mutex::new(Some(thread)),
            })
        })
    }

    /// Returns the next event as JSON. `None` if none arrives within `seconds`, or none will follow.
    fn next(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<String>> {
        let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let event = py.detach(|| self.inbox.next(time));
        self.listener.tell(py)?;
        event.map(|event| work(py, |_| json(&event))).transpose()
    }

    /// Whether the run has ended and every event was taken.
    #[getter]
    fn is_over(&self) -> bool {
        self.inbox.is_over()
    }

    /// Whether an interrupted run ends after the current batches, not only after the current bucket.
    #[getter]
    fn stops_within_buckets(&self) -> bool {
        self.stops_within_buckets
    }

    /// Makes the run commit and end after the current bucket, or after the current batches.
    fn interrupt(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Waits for the end of the run. Returns whether all epochs are trained, and the version of the checkpoint. A
    /// second call returns `None`.
    fn finish(&self, py: Python<'_>) -> PyResult<Option<(bool, u64)>> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(thread) = thread.take() else {
            return Ok(None);
        };
        let result = py.detach(|| thread.join());
        self.listener.tell(py)?;
        match result {
            Ok(Ok(RunOutcome::Finished { version })) => Ok(Some((true, version))),
            Ok(Ok(RunOutcome::Interrupted { version })) => Ok(Some((false, version))),
            Ok(Err(failure)) => Err(raised(py, failure)),
            Err(_) => {
                let what = "a thread panicked, see standard error; internal error (a bug in pbg-host); please report it";
                Err(raised(py, Failure::message(FailureKind::Internal, what)))
            }
        }
    }
}

impl Drop for Training {
    /// Nobody waits for it any more: it commits what it has.
    fn drop(&mut self) {
        self.interrupt();
    }
}

impl Run {
    fn ends(mut self) -> Result<RunOutcome> {
        let inbox = Arc::clone(&self.inbox);
        let closes = Closes(&inbox);
        let outcome = self.train();
        drop(closes);
        outcome
    }

    fn train(&mut self) -> Result<RunOutcome> {
        if self.config.is_distributed() {
            let what = match self.config.distributed_init_method {
                Some(_) => {
                    "distributed_init_method: each trainer of a distributed run is a separate process"
                }
                None => "checkpoint_path: a run into an object store is a process of its own",
            };
            return Err(
                Failure::message(FailureKind::Config, what).help("start it with `pbg-host train`")
            );
        }
        let faults = Path::new(&self.config.checkpoint_path).join("faults");
        let stop = Some(&self.stop);
        let own = &self.formulas;
        let named = own.set(&mut self.config, &self.plugins, stop, &self.listener)?;
        let given = StrategyOverrides {
            named: &named,
            order: self.order.take(),
            loss: self.loss.take(),
        };
        let filled = plugins::fill(&self.config, given, Some(faults), stop, &self.listener)?;
        let resolved = ResolvedConfig::new(self.config.clone())?;
        let advice = resolved.advice();
        let odd = filled.warnings.iter().chain(&advice);
        odd.for_each(|text| self.listener.warn(text));
        let said = || {
            filled
                .log
                .drain()
                .into_iter()
                .for_each(|line| self.inbox.put(line))
        };
        let mut emit = |event: Event| {
            said();
            self.inbox.put(event);
        };
        let outcome = pbg_train::train(
            &resolved,
            filled.strategies,
            self.allowed,
            &self.stop,
            &mut emit,
        );
        // The last log lines of a plugin explain its failure.
        said();
        Ok(outcome?)
    }
}

/// Closes the inbox even if the thread panics, so that nobody waits for it forever.
struct Closes<'a>(&'a Inbox);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl PythonStrategies {
    fn order(&self, py: Python<'_>) -> Option<Box<dyn BucketOrder>> {
        self.0.as_ref().map(|order| order.get().order(py))
    }

    fn loss(&self, py: Python<'_>, config: &Config) -> PyResult<Option<Box<dyn Loss>>> {
        let limits = Limits::from(&config.config.plugins.limits);
        let built = self.1.as_ref().map(|loss| loss.get().loss(py, &limits));
        built.transpose().map_err(|failure| raised(py, failure))
    }

    fn formulas(&self, py: Python<'_>) -> PyResult<OwnFormulas> {
        let (operator, comparator) = (self.2.as_ref(), self.3.as_ref());
        let (operator, comparator) = (operator.map(Py::get), comparator.map(Py::get));
        work(py, |_| {
            Ok(OwnFormulas {
                operator: operator.map(FunctionOperator::checked).transpose()?,
                comparator: comparator.map(FunctionComparator::checked).transpose()?,
            })
        })
    }
}

/// Returns the memory and disk space that a run will need, as JSON.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    config: &Config,
    plugins: Vec<String>,
    functions: PythonStrategies,
) -> PyResult<String> {
    let (order, loss) = (functions.order(py), functions.loss(py, config)?);
    let formulas = functions.formulas(py)?;
    work(py, |front| {
        let mut config = config.config.clone();
        let named = formulas.set(&mut config, &plugins, None, front)?;
        let given = StrategyOverrides {
            named: &named,
            order,
            loss,
        };
        let filled = plugins::fill(&config, given, None, None, front)?;
        filled.warnings.iter().for_each(|text| front.warn(text));
        let resolved = ResolvedConfig::new(config)?;
        resolved.check_checkpoint_path()?;
        pbg_train::check_cores(&resolved)?;
        json(&pbg_train::check(&resolved, Some(&filled.strategies))?)
    })
}
