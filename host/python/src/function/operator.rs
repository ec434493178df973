//! Operators of Python, which are formulas.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_config::Config as RunConfig;
use pbg_contract::{OperatorExecutors, check_operator as tried, checked_dimension};
use pbg_core::model::Operator;
use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::operator::definition::MAX_NODES;
use pbg_formula::operator::{
    FormulaHandle, InitialValue, OperatorDefinition, OperatorFormula, ParameterVector,
};
use pbg_session::plugins::given_formulas;
use pbg_session::{Failure, FailureKind, FrontEnd, Result};
use pyo3::prelude::*;

use super::node::{NodeTold, nodes};
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

    /// Returns the checked formula as a text for the table `formulas` of a configuration.
    fn formula(&self, py: Python<'_>) -> PyResult<String> {
        work(py, |_| json(self.checked()?.definition()))
    }
}

impl FunctionOperator {
    /// Gets the formula, and checks it like that of a component.
    pub(crate) fn checked(&self) -> Result<OperatorFormula> {
        let checked = self.definition().and_then(|definition| {
            let checked = definition.check(MAX_NODES);
            checked.map_err(|error| fault(&self.id, "build", error))
        });
        let formula = checked.map_err(|error| Failure::new(FailureKind::Plugin, error))?;
        check_name(&self.id.name)?;
        Ok(formula)
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

/// Checks that a configuration can refer to an operator by this name.
fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let what = if Operator::built_in(name).is_some() {
        "is that of a built-in operator"
    } else if name.is_empty() || !name.chars().all(plain) {
        "must consist of letters, digits, `-` and `_`"
    } else {
        return Ok(());
    };
    let text = format!("pbg_host.operator: the name {name:?} {what}");
    let help = "choose another name: name=...";
    Err(Failure::message(FailureKind::Usage, text).help(help))
}

/// Sets the operator of every relation of `config` to the one that is given, by Python or among the components
/// `plugins`, and the comparator to the one among them, if there are any, and returns the other components.
///
/// # Errors
/// As for [`given_formulas`], and when there are two.
pub(crate) fn set_formulas(
    config: &mut RunConfig,
    plugins: &[String],
    own: Option<&OperatorFormula>,
    stop: Option<&Arc<AtomicBool>>,
    front: &dyn FrontEnd,
) -> Result<Vec<String>> {
    let given = given_formulas(config, plugins, stop, front)?;
    let Some(own) = own else {
        return Ok(given.others);
    };
    let name = own.name();
    if let Some(second) = given.operator {
        let text = format!(
            "plugins: there can be only one operator of all relations, but there are two: {name} and {second}"
        );
        let help = "set operators per relation in the configuration";
        return Err(Failure::message(FailureKind::Usage, text).help(help));
    }
    for relation in &mut config.relations {
        name.clone_into(&mut relation.operator);
    }
    pbg_session::plugins::require_own_names(config)?;
    config.remove_unused_formulas();
    let stored = config.set_formula(name, own.definition());
    stored.map_err(|error| Failure::new(FailureKind::Plugin, error))?;
    Ok(given.others)
}

/// Checks the contract of an operator on many embeddings. Returns the findings as JSON.
#[pyfunction]
pub(crate) fn check_operator(py: Python<'_>, operator: &FunctionOperator) -> PyResult<String> {
    work(py, |_| {
        let formula = FormulaHandle::new(operator.checked()?);
        let dimension = checked_dimension(&formula);
        let executable = |side| pbg_train::executable(side, dimension);
        json(&tried(
            &formula,
            OperatorExecutors::new(formula, executable),
        ))
    })
}
