//! Formulas of Python that replace those of a configuration: the operator of all relations, and the comparator.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_config::{Config as RunConfig, FormulaOrigin, formula_text};
use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::comparator::ComparatorFormula;
use pbg_formula::operator::OperatorFormula;
use pbg_session::plugins::{formula_origin, given_formulas, require_own_names};
use pbg_session::{Failure, FailureKind, FrontEnd, Result};
use serde::Serialize;

use crate::errors::usage;

/// Checked formula of Python, with the identity of the function or class that builds it.
pub(crate) struct OwnFormula<F> {
    pub(crate) id: StrategyId,
    pub(crate) formula: F,
}

impl<F> OwnFormula<F> {
    /// Creates the formula of the `kind` (operator or comparator) that was built and checked, if a configuration can
    /// refer to it by its name. `built_in` says whether the program has its own formula of this kind and name.
    pub(super) fn new(
        kind: &str,
        id: &StrategyId,
        built_in: bool,
        checked: Result<F, StrategyError>,
    ) -> Result<Self> {
        let formula = checked.map_err(|error| Failure::new(FailureKind::Plugin, error))?;
        require_plain_name(kind, &id.name, built_in)?;
        let id = id.clone();
        Ok(Self { id, formula })
    }
}

/// Formulas of Python that are given to a run.
#[derive(Default)]
pub(crate) struct OwnFormulas {
    /// The operator of all relations.
    pub(crate) operator: Option<OwnFormula<OperatorFormula>>,
    /// The comparator.
    pub(crate) comparator: Option<OwnFormula<ComparatorFormula>>,
}

impl OwnFormulas {
    /// Sets the operator of every relation of `config` and its comparator to those that are given, by Python or among
    /// the components `plugins`, if there are any, and returns the other components.
    ///
    /// # Errors
    /// As for [`given_formulas`], which also checks parameters, and when there are two of one kind, or both have one name.
    pub(crate) fn set(
        &self,
        config: &mut RunConfig,
        plugins: &[String],
        stop: Option<&Arc<AtomicBool>>,
        front: &dyn FrontEnd,
    ) -> Result<Vec<String>> {
        // What they replace need not be loaded.
        if let Some(own) = &self.operator {
            let origin = formula_origin(config, &own.id);
            for relation in &mut config.relations {
                own.id.name.clone_into(&mut relation.operator);
            }
            let stored = config.set_formula(&own.id.name, own.formula.definition(), &origin);
            stored.map_err(|error| Failure::new(FailureKind::Plugin, error))?;
        }
        if let Some(own) = &self.comparator {
            let origin = formula_origin(config, &own.id);
            own.id.name.clone_into(&mut config.comparator);
            require_own_names(config)?;
            let stored = config.set_formula(&own.id.name, own.formula.definition(), &origin);
            stored.map_err(|error| Failure::new(FailureKind::Plugin, error))?;
        }
        let given = given_formulas(config, plugins, stop, front)?;
        let operators = self
            .operator
            .as_ref()
            .map(|own| &own.id)
            .zip(given.operator);
        if let Some((first, second)) = operators {
            let text = format!(
                "plugins: there can be only one operator of all relations, but there are two: {} and {second}",
                first.name
            );
            let help = "set operators per relation in the configuration";
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        let comparators = self.comparator.as_ref().map(|own| &own.id);
        if let Some((first, second)) = comparators.zip(given.comparator) {
            let text = format!(
                "plugins: a run has only one comparator, but there are two: {} and {second}",
                first.name
            );
            return Err(Failure::message(FailureKind::Usage, text));
        }
        require_own_names(config)?;
        config.remove_unused_formulas();
        // Some rules are about formulas.
        config.check()?;
        Ok(given.others)
    }
}

/// Returns the text of a formula of Python, with its name and version and the parameters that it is built with, as JSON.
pub(crate) fn text_of(id: &StrategyId, formula: &impl Serialize, params: &str) -> Result<String> {
    let params = serde_json::from_str(params).map_err(usage)?;
    let origin = FormulaOrigin::of_plugin(id, params);
    let text = formula_text(&id.name, formula, &origin);
    text.map_err(|error| Failure::new(FailureKind::Plugin, error))
}

/// Checks that a configuration can refer to a formula by this name.
fn require_plain_name(kind: &str, name: &str, built_in: bool) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let what = if built_in {
        format!("is that of a built-in {kind}")
    } else if name.is_empty() || !name.chars().all(plain) {
        "must consist of letters, digits, `-` and `_`".to_owned()
    } else {
        return Ok(());
    };
    let text = format!("pbg_host.{kind}: the name {name:?} {what}");
    let help = "choose another name: name=...";
    Err(Failure::message(FailureKind::Usage, text).help(help))
}
