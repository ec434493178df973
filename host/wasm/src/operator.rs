//! Operators in the sandbox: formulas that the host executes.

mod lift;

use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::operator::{OperatorDefinition, OperatorFormula};
use wasmtime::Store;
use wasmtime::component::{Instance, InstancePre};

use crate::bindings::{PACKAGE, VERSION, operator_formula, operator_traced, types};
use crate::error::LoadError;
use crate::guest::StoreData;
use crate::replay::RecordedCall;
use crate::strategy::{SlotExports, SlotPlugin};

/// Largest size (bytes) of a formula: more than the largest valid one, so that a formula with too many nodes is
/// reported with their number.
pub(crate) const FORMULA_BYTES: usize = 4 << 20;

/// An operator that is a component. The component is asked for its formula once and not needed afterwards.
pub struct LoadedOperator {
    /// Identity of the operator.
    pub id: StrategyId,
    /// The checked formula.
    pub formula: OperatorFormula,
}

/// Exports of an operator by one of the two interfaces of operators.
pub(crate) enum OperatorExports {
    /// Elementwise formulas of one side.
    Traced(operator_traced::GuestIndices),
    /// Formulas with sums and of both sides.
    Formula(operator_formula::GuestIndices),
}

/// Functions of an operator's instance.
pub(crate) enum OperatorFunctions {
    Traced(operator_traced::Guest),
    Formula(operator_formula::Guest),
}

impl SlotExports for OperatorExports {
    type Functions = OperatorFunctions;

    fn find(pre: &InstancePre<StoreData>) -> wasmtime::Result<Self> {
        let newest = format!("{PACKAGE}/operator-formula@{VERSION}");
        match pre.component().get_export_index(None, &newest) {
            Some(_) => SlotExports::find(pre).map(Self::Formula),
            None => SlotExports::find(pre).map(Self::Traced),
        }
    }

    fn of(
        &self,
        store: &mut Store<StoreData>,
        instance: &Instance,
    ) -> wasmtime::Result<OperatorFunctions> {
        Ok(match self {
            Self::Traced(exports) => OperatorFunctions::Traced(exports.of(store, instance)?),
            Self::Formula(exports) => OperatorFunctions::Formula(exports.of(store, instance)?),
        })
    }

    fn configure(
        functions: &OperatorFunctions,
        store: &mut Store<StoreData>,
        parameters: &[types::ParameterValue<'_>],
    ) -> wasmtime::Result<Result<(), String>> {
        match functions {
            OperatorFunctions::Traced(guest) => guest.call_configure(store, parameters),
            OperatorFunctions::Formula(guest) => guest.call_configure(store, parameters),
        }
    }
}

impl OperatorFunctions {
    /// Asks for the formula of the operator called `name`, and converts it without checking it.
    fn build(
        &self,
        store: &mut Store<StoreData>,
        name: &str,
    ) -> wasmtime::Result<Result<OperatorDefinition, String>> {
        Ok(match self {
            Self::Traced(guest) => guest
                .call_build(store)?
                .map(|formula| lift::traced(name, formula)),
            Self::Formula(guest) => guest
                .call_build(store)?
                .map(|formula| lift::formula(name, formula)),
        })
    }
}

/// Gets the formula of a component, and checks it.
pub(crate) fn load(strategy: SlotPlugin<OperatorExports>) -> Result<LoadedOperator, LoadError> {
    let built = build(&strategy).map_err(|error| match error.function {
        "build" => strategy.record(error, || Some(RecordedCall::Build)),
        _ => error,
    });
    match built {
        Ok(formula) => Ok(LoadedOperator {
            id: strategy.id,
            formula,
        }),
        Err(fault) => Err(strategy.load_error(fault)),
    }
}

fn build(strategy: &SlotPlugin<OperatorExports>) -> Result<OperatorFormula, StrategyError> {
    let name = &strategy.id.name;
    let answer = strategy.call_ready(&mut None, "build", FORMULA_BYTES, |exports, store| {
        exports.build(store, name)
    })?;
    answer
        .check(strategy.program.limits.graph_nodes)
        .map_err(|error| strategy.fault("build", error.to_string()))
}
