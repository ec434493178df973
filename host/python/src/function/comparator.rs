//! Comparators of Python, which are formulas.

use pbg_contract::check_comparator as tried;
use pbg_core::model::Comparator;
use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::comparator::{ComparatorDefinition, ComparatorFormula, ComparatorHandle};
use pbg_formula::operator::definition::MAX_NODES;
use pbg_session::Result;
use pyo3::prelude::*;

use super::node::{NodeTold, nodes};
use super::own_formulas::{OwnFormula, text_of};
use super::{asked, fault, strategy_id};
use crate::config::json;
use crate::front::work;

/// A formula from the package: nodes, the score, and the number of components.
type Told = (Vec<NodeTold>, u32, u32);

/// A comparator of Python: a function that returns its formula or an error message.
#[pyclass(frozen)]
pub(crate) struct FunctionComparator {
    id: StrategyId,
    build: Py<PyAny>,
}

#[pymethods]
impl FunctionComparator {
    #[new]
    fn new(name: String, version: String, sha256: String, build: Py<PyAny>) -> Self {
        let id = strategy_id(name, version, sha256);
        Self { id, build }
    }

    /// Returns the checked formula as a text for the table `formulas` of a configuration. `params` are the parameters
    /// that it is built with, as JSON.
    fn formula(&self, py: Python<'_>, params: &str) -> PyResult<String> {
        work(py, |_| {
            let OwnFormula { id, formula } = self.checked()?;
            text_of(&id, formula.definition(), params)
        })
    }
}

impl FunctionComparator {
    /// Gets the formula, and checks it like that of a component.
    pub(crate) fn checked(&self) -> Result<OwnFormula<ComparatorFormula>> {
        let checked = self.definition().and_then(|definition| {
            let checked = definition.check(MAX_NODES);
            checked.map_err(|error| fault(&self.id, "build", error))
        });
        let built_in = Comparator::built_in(&self.id.name).is_some();
        OwnFormula::new("comparator", &self.id, built_in, checked)
    }

    fn definition(&self) -> Result<ComparatorDefinition, StrategyError> {
        let (told, score, components): Told = asked(&self.id, "build", |py| self.build.call0(py))?;
        Ok(ComparatorDefinition {
            name: self.id.name.clone(),
            components,
            nodes: nodes(&self.id, &told)?,
            score,
        })
    }
}

/// Checks the contract of a comparator on many pairs of embeddings. Returns the findings as JSON.
#[pyfunction]
pub(crate) fn check_comparator(
    py: Python<'_>,
    comparator: &FunctionComparator,
) -> PyResult<String> {
    work(py, |_| {
        let formula = ComparatorHandle::new(comparator.checked()?.formula);
        let mut executed = pbg_train::executable_pairs(formula);
        json(&tried(&formula, executed.as_mut()))
    })
}
