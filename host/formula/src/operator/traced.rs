//! The handle of an operator's formula.

use std::sync::Mutex;

use super::definition::OperatorFormula;
use crate::kept::{KeptFormula, KindOfFormula};

/// Handle of an operator's formula.
pub type FormulaHandle = KeptFormula<OperatorFormula>;

impl FormulaHandle {
    /// Returns the handle of the formula with which the operator transforms an edge's left entity, if it does.
    #[must_use]
    pub fn lhs(self) -> Option<Self> {
        self.formula().lhs().map(Self::of_part)
    }
}

impl KindOfFormula for OperatorFormula {
    const WORD: &'static str = "Traced";

    fn known() -> &'static Mutex<Vec<&'static Self>> {
        static KNOWN: Mutex<Vec<&'static OperatorFormula>> = Mutex::new(Vec::new());
        &KNOWN
    }

    fn name(&self) -> &str {
        self.name()
    }
}
