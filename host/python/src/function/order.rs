//! Bucket orders of Python.

use pbg_contract::OrderInstance;
use pbg_core::graph::Bucket;
use pbg_core::plan;
use pbg_core::strategy::{BucketOrder, Pass, RunLength, StrategyError, StrategyId};
use pyo3::prelude::*;

use super::{asked, fault, strategy_id, told};
use crate::config::json;
use crate::front::work;

/// A bucket order of Python: functions that receive a pass as JSON and return an answer or an error message.
#[pyclass(frozen)]
pub(crate) struct FunctionOrder {
    id: StrategyId,
    plan: Py<PyAny>,
    pick: Py<PyAny>,
}

#[pymethods]
impl FunctionOrder {
    #[new]
    fn new(
        name: String,
        version: String,
        sha256: String,
        plan: Py<PyAny>,
        pick: Py<PyAny>,
    ) -> Self {
        let id = strategy_id(name, version, sha256);
        Self { id, plan, pick }
    }
}

impl FunctionOrder {
    /// Returns the order as a strategy of the host.
    pub(crate) fn order(&self, py: Python<'_>) -> Box<dyn BucketOrder> {
        Box::new(Asked {
            id: self.id.clone(),
            plan: self.plan.clone_ref(py),
            pick: self.pick.clone_ref(py),
            run: RunLength::NONE,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.id.name
    }
}

struct Asked {
    id: StrategyId,
    plan: Py<PyAny>,
    pick: Py<PyAny>,
    run: RunLength,
}

fn pairs(buckets: &[Bucket]) -> Vec<(u32, u32)> {
    buckets
        .iter()
        .map(|bucket| (bucket.lhs, bucket.rhs))
        .collect()
}

impl Asked {
    fn text(&self, function: &'static str, pass: &Pass) -> Result<String, StrategyError> {
        serde_json::to_string(pass).map_err(|error| fault(&self.id, function, error))
    }
}

impl BucketOrder for Asked {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn begin_run(&mut self, length: RunLength) {
        self.run = length;
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let given = (self.text("plan", pass)?, told(self.run));
        let plan: Vec<(u32, u32)> = asked(&self.id, "plan", |py| self.plan.call1(py, given))?;
        let plan: Vec<Bucket> = plan
            .into_iter()
            .map(|(lhs, rhs)| Bucket { lhs, rhs })
            .collect();
        // Commands that only compare orders do not check plans again.
        plan::check(pass, &plan).map_err(|broken| fault(&self.id, "plan", broken))?;
        Ok(plan)
    }

    fn pick(
        &mut self,
        pass: &Pass,
        held: &[Bucket],
        free: &[Bucket],
    ) -> Result<usize, StrategyError> {
        let text = self.text("pick", pass)?;
        let given = (text, pairs(held), pairs(free), told(self.run));
        let picked: usize = asked(&self.id, "pick", |py| self.pick.call1(py, given))?;
        if picked >= free.len() {
            let count = free.len();
            let reason =
                format!("returned {picked}, which is not an index into the {count} free buckets");
            return Err(fault(&self.id, "pick", reason));
        }
        Ok(picked)
    }
}

/// Checks the contract of an order on many grids. `make` returns a fresh one at each call. Returns the findings as
/// JSON.
#[pyfunction]
pub(crate) fn check_order(py: Python<'_>, make: Py<PyAny>) -> PyResult<String> {
    work(py, |_| {
        let open = || -> OrderInstance {
            let made = Python::attach(|py| {
                let made = make.call0(py)?;
                Ok(made
                    .bind(py)
                    .cast::<FunctionOrder>()
                    .map_err(PyErr::from)?
                    .get()
                    .order(py))
            });
            made.map_err(|error: PyErr| error.to_string())
        };
        json(&pbg_contract::check_order(open))
    })
}
