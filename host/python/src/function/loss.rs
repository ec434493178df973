//! Losses of Python, which are formulas.

use pbg_contract::TracedLossInfo;
use pbg_core::loss::{ParameterSchedule, ScheduleProgress, TracedLoss, check_values};
use pbg_core::strategy::{Loss, RunLength, StrategyError, StrategyId};
use pbg_formula::loss::{LossDefinition, LossGraph, LossParameter};
use pbg_session::{Failure, FailureKind, Result};
use pbg_wasm::Limits;
use pyo3::prelude::*;

use super::node::{NodeTold, nodes};
use super::{asked, fault, strategy_id, told};
use crate::config::json;
use crate::front::work;

/// A formula from the package: nodes (operation and operands), the output, names and values of parameters, and the
/// number of batches between their updates.
type Told = (Vec<NodeTold>, u32, Vec<(String, f64)>, u32);

/// A loss of Python: a function that returns its formula, and one that updates its parameters. Both may return an error
/// message instead.
#[pyclass(frozen)]
pub(crate) struct FunctionLoss {
    id: StrategyId,
    build: Py<PyAny>,
    update: Py<PyAny>,
}

#[pymethods]
impl FunctionLoss {
    #[new]
    fn new(
        name: String,
        version: String,
        sha256: String,
        build: Py<PyAny>,
        update: Py<PyAny>,
    ) -> Self {
        let id = strategy_id(name, version, sha256);
        Self { id, build, update }
    }
}

impl FunctionLoss {
    /// Gets the formula, and checks it like that of a component.
    pub(crate) fn traced(&self, py: Python<'_>, limits: &Limits) -> Result<TracedLoss> {
        let graph = self.graph(limits.graph_nodes);
        let graph = graph.map_err(|error| Failure::new(FailureKind::Plugin, error))?;
        let schedule = graph.update_every().map(|_| -> Box<dyn ParameterSchedule> {
            Box::new(Asked {
                id: self.id.clone(),
                update: self.update.clone_ref(py),
                parameters: graph.parameters().to_vec(),
                run: RunLength::NONE,
            })
        });
        Ok(TracedLoss {
            id: self.id.clone(),
            graph,
            schedule,
            keep: None,
        })
    }

    /// Returns the loss as a strategy of the host.
    pub(crate) fn loss(&self, py: Python<'_>, limits: &Limits) -> Result<Box<dyn Loss>> {
        Ok(pbg_train::traced(self.traced(py, limits)?))
    }

    fn graph(&self, max_nodes: usize) -> Result<LossGraph, StrategyError> {
        let (nodes_told, output, parameters, update_every): Told =
            asked(&self.id, "build", |py| self.build.call0(py))?;
        let parameters = parameters.into_iter().map(|(name, value)| LossParameter {
            name,
            value: value as f32,
        });
        let definition = LossDefinition {
            nodes: nodes(&self.id, &nodes_told)?,
            output,
            parameters: parameters.collect(),
            update_every,
        };
        let checked = definition.check(max_nodes);
        checked.map_err(|error| fault(&self.id, "build", error))
    }
}

struct Asked {
    id: StrategyId,
    update: Py<PyAny>,
    /// Parameters of the graph.
    parameters: Vec<LossParameter>,
    run: RunLength,
}

impl ParameterSchedule for Asked {
    fn begin_run(&mut self, length: RunLength) {
        self.run = length;
    }

    fn update(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError> {
        let progress = (progress.step, progress.edges, progress.mean_loss);
        let given = (progress, values.to_vec(), told(self.run));
        let answer: Vec<f64> = asked(&self.id, "update", |py| self.update.call1(py, given))?;
        let answer: Vec<f32> = answer.into_iter().map(|value| value as f32).collect();
        let checked = check_values(&self.parameters, &answer);
        checked.map_err(|reason| fault(&self.id, "update", reason))?;
        Ok(answer)
    }
}

/// Checks the contract of a loss on many scores. Returns the findings as JSON.
#[pyfunction]
pub(crate) fn check_loss(py: Python<'_>, loss: &FunctionLoss) -> PyResult<String> {
    let traced = work(py, |_| {
        Python::attach(|py| loss.traced(py, &Limits::default()))
    })?;
    work(py, |_| {
        let formula = TracedLossInfo::of(&traced.graph);
        let loss = pbg_train::traced(traced);
        json(&pbg_contract::check_loss(loss.as_ref(), &formula))
    })
}
