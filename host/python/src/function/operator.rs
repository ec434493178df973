//! Operators of Python, which are formulas.

use pbg_contract::{OperatorExecutors, check_operator as tried, checked_dimension};
use pbg_core::model::Operator;
use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::operator::definition::MAX_NODES;
use pbg_formula::operator::{
    FormulaHandle, InitialValue, OperatorDefinition, OperatorFormula, ParameterVector,
};
use pbg_session::Result;
use pyo3::prelude::*;

use super::node::{NodeTold, nodes};
use super::own_formulas::{OwnFormula, text_of};
use super::{asked, fault, strategy_id};
use crate::config::json;
use crate::front::work;

/// A formula from the package: nodes, outputs and those of the left side, and names and initial values of parameters.
type Told = (Vec<NodeTold>, [Vec<u32>; 2], Vec<(String, Initial)>);

/// Initial value of a parameter: its name, or a standard deviation.
#[derive(FromPyObject)]
enum Initial {
    Named(String),
    Deviation(f64),
}

/// An operator of Python: a function that returns its formula or an error message.
#[pyclass(frozen)]
pub(crate) struct FunctionOperator {
    id: StrategyId,
    build: Py<PyAny>,
}

#[pymethods]
impl FunctionOperator {
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

impl FunctionOperator {
    /// Gets the formula, and checks it like that of a component.
    pub(crate) fn checked(&self) -> Result<OwnFormula<OperatorFormula>> {
        let checked = self.definition().and_then(|definition| {
            let checked = definition.check(MAX_NODES);
            checked.map_err(|error| fault(&self.id, "build", error))
        });
        let built_in = Operator::built_in(&self.id.name).is_some();
        OwnFormula::new("operator", &self.id, built_in, checked)
    }

    fn definition(&self) -> Result<OperatorDefinition, StrategyError> {
        let (told, [outputs, lhs_outputs], parameters): Told =
            asked(&self.id, "build", |py| self.build.call0(py))?;
        let parameters = parameters.into_iter().map(|(name, initial)| {
            let initial = self.initial(initial)?;
            Ok(ParameterVector { name, initial })
        });
        Ok(OperatorDefinition {
            name: self.id.name.clone(),
            components: outputs.len() as u32,
            parameters: parameters.collect::<Result<_, _>>()?,
            nodes: nodes(&self.id, &told)?,
            outputs,
            lhs_outputs,
        })
    }

    fn initial(&self, told: Initial) -> Result<InitialValue, StrategyError> {
        Ok(match told {
            Initial::Deviation(deviation) => InitialValue::Normal(deviation as f32),
            Initial::Named(name) => match name.as_str() {
                "zero" => InitialValue::Zero,
                "one" => InitialValue::One,
                "angle" => InitialValue::Angle,
                _ => {
                    return Err(fault(
                        &self.id,
                        "build",
                        format!("unknown initial value {name}"),
                    ));
                }
            },
        })
    }
}

/// Checks the contract of an operator on many embeddings. Returns the findings as JSON.
#[pyfunction]
pub(crate) fn check_operator(py: Python<'_>, operator: &FunctionOperator) -> PyResult<String> {
    work(py, |_| {
        let formula = FormulaHandle::new(operator.checked()?.formula);
        let dimension = checked_dimension(&formula);
        let executable = |side| pbg_train::executable(side, dimension);
        json(&tried(
            &formula,
            OperatorExecutors::new(formula, executable),
        ))
    })
}
