//! Strategies that are Python functions and run in the process of Python.
//!
//! They have the rights of the Python process, and nothing stops one that does not end. Their answers are checked like
//! those of every strategy: the host checks each plan and each formula, and [`order::check_order`],
//! [`loss::check_loss`], [`operator::check_operator`] and [`comparator::check_comparator`] try them on many inputs.

pub(crate) mod comparator;
pub(crate) mod loss;
mod node;
pub(crate) mod operator;
pub(crate) mod order;
pub(crate) mod own_formulas;

use std::fmt::Display;
use std::path::PathBuf;

use pbg_author::{Language, World};
use pbg_core::strategy::{FaultCause, RunLength, StrategyError, StrategyId};
use pbg_session::{Failure, FailureKind, Result, plugins};
use pbg_wasm::{Limits, PluginParameter, PluginSource, resolve_parameters_json};
use pyo3::prelude::*;

use crate::config::json;
use crate::errors::usage;
use crate::front::work;

pub(crate) use comparator::FunctionComparator;
pub(crate) use loss::FunctionLoss;
pub(crate) use operator::FunctionOperator;
pub(crate) use order::FunctionOrder;

fn strategy_id(name: String, version: String, sha256: String) -> StrategyId {
    StrategyId {
        name,
        version,
        sha256,
    }
}

fn fault(id: &StrategyId, function: &'static str, reason: impl Display) -> StrategyError {
    StrategyError {
        strategy: id.clone(),
        function,
        reason: reason.to_string().into(),
        cause: FaultCause::Strategy,
    }
}

/// Converts the length of a run for the package: epochs, edges per epoch, batches.
const fn told(run: RunLength) -> (u32, u64, u64) {
    (run.epochs, run.edges_per_epoch, run.batches)
}

/// Answer of a Python function, or its error message.
#[derive(FromPyObject)]
enum Answer<T> {
    Given(T),
    Wrong(String),
}

/// Calls a Python function, attached to the interpreter.
fn asked<T: for<'a, 'py> FromPyObject<'a, 'py>>(
    id: &StrategyId,
    function: &'static str,
    ask: impl FnOnce(Python<'_>) -> PyResult<Py<PyAny>>,
) -> Result<T, StrategyError> {
    let answer = Python::attach(|py| {
        let answer = ask(py).map_err(|error| error.to_string())?;
        let answer: PyResult<Answer<T>> = answer.bind(py).extract();
        answer.map_err(|error| error.to_string())
    });
    match answer {
        Ok(Answer::Given(answer)) => Ok(answer),
        Ok(Answer::Wrong(reason)) | Err(reason) => Err(fault(id, function, reason)),
    }
}

/// Returns every declared parameter with its value from `given` or its default; all are JSON.
#[pyfunction]
pub(crate) fn parameters(
    py: Python<'_>,
    plugin: &str,
    declared: &str,
    given: &str,
) -> PyResult<String> {
    work(py, |_| {
        let declared: Vec<PluginParameter> = serde_json::from_str(declared)
            .map_err(|error| usage(format!("plugin {plugin}: its metadata is invalid: {error}")))?;
        let given = serde_json::from_str(given).map_err(usage)?;
        let refused = |problems: Vec<String>| {
            let text = format!("plugin {plugin}: {}", problems.join("; "));
            Failure::message(FailureKind::Config, text)
        };
        json(&resolve_parameters_json(&declared, &given).map_err(refused)?)
    })
}

/// Creates a project for a plugin in Python in `folder`, which must be empty or not exist. `kind` is `order`, `loss`,
/// `operator` or `comparator`.
#[pyfunction]
pub(crate) fn create_project(
    py: Python<'_>,
    name: &str,
    kind: &str,
    folder: PathBuf,
) -> PyResult<()> {
    work(py, |_| {
        let world = match kind {
            "order" => World::Order,
            "loss" => World::TracedLoss,
            "operator" => World::Operator,
            "comparator" => World::Comparator,
            other => return Err(usage(format!("unknown kind of project {other}"))),
        };
        let made = pbg_author::create(name, world, Language::Python, &folder);
        made.map(drop)
            .map_err(|error| Failure::new(FailureKind::Usage, error))
    })
}

/// Builds the project in `folder`, loads the component, and returns its path.
#[pyfunction]
pub(crate) fn build_project(py: Python<'_>, folder: PathBuf) -> PyResult<PathBuf> {
    work(py, |front| {
        let component = pbg_author::build(&folder, None)?.component;
        let sandbox = plugins::cached(Limits::default(), front)?;
        let loaded: Result<_> = Ok(sandbox.open(PluginSource::File(component.clone()))?);
        loaded.map(|_| component)
    })
}
