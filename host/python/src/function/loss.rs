//! Losses of Python, which are formulas.

use pbg_contract::TracedLossInfo;
use pbg_core::loss::{ParameterSchedule, ScheduleProgress, TracedLoss, check_values};
use pbg_core::strategy::{Loss, RunLength, StrategyError, StrategyId};
use pbg_formula::loss::{LossDefinition, LossGraph, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use pbg_session::{Failure, FailureKind, Result};
use pbg_wasm::Limits;
use pyo3::prelude::*;
use serde::de::value::{Error as NoWord, StrDeserializer};
use serde::de::{Deserialize, IntoDeserializer as _};

use super::{asked, fault, strategy_id, told};
use crate::config::json;
use crate::front::work;

/// A formula from the package: nodes (operation and operands), the output, names and values of parameters, and the
/// number of batches between their updates.
type Told = (Vec<(String, Vec<f64>)>, u32, Vec<(String, f64)>, u32);

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
        let (nodes, output, parameters, update_every): Told =
            asked(&self.id, "build", |py| self.build.call0(py))?;
        let nodes = nodes.iter().map(|(word, operands)| {
            let unknown = || fault(&self.id, "build", format!("unknown node {word}"));
            node(word, operands).ok_or_else(unknown)
        });
        let parameters = parameters.into_iter().map(|(name, value)| LossParameter {
            name,
            value: value as f32,
        });
        let definition = LossDefinition {
            nodes: nodes.collect::<Result<_, _>>()?,
            output,
            parameters: parameters.collect(),
            update_every,
        };
        let checked = definition.check(max_nodes);
        checked.map_err(|error| fault(&self.id, "build", error))
    }
}

/// Returns a node from the name of its operation and its operands: indices of other nodes, or a number.
fn node(name: &str, operands: &[f64]) -> Option<FormulaNode> {
    let at = |operand: f64| operand as u32;
    Some(match (name, operands) {
        ("positive", []) => FormulaNode::Positive,
        ("negative", []) => FormulaNode::Negative,
        ("columns", []) => FormulaNode::Columns,
        ("constant", &[value]) => FormulaNode::Constant(value as f32),
        ("parameter", &[index]) => FormulaNode::Parameter(at(index)),
        ("softmax", &[x]) => FormulaNode::Softmax(at(x)),
        ("select", &[a, b, c]) => FormulaNode::Select(at(a), at(b), at(c)),
        ("clamp", &[a, b, c]) => FormulaNode::Clamp(at(a), at(b), at(c)),
        (_, &[a, b]) => FormulaNode::Binary(word::<Binary>(name)?, at(a), at(b)),
        (_, &[x]) => match name.strip_prefix("reduce_") {
            Some(reduction) => FormulaNode::Reduce(word::<Reduction>(reduction)?, at(x)),
            None => FormulaNode::Unary(word::<Unary>(name)?, at(x)),
        },
        _ => return None,
    })
}

/// Returns the operation with this name.
fn word<'a, T: Deserialize<'a>>(name: &'a str) -> Option<T> {
    let name: StrDeserializer<'_, NoWord> = name.into_deserializer();
    T::deserialize(name).ok()
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
