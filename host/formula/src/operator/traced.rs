//! The handle with which models, batch graphs and kernels refer to an operator's formula.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use super::definition::OperatorFormula;

/// Handle of a formula that is kept for the life of the process. It is as small as an index, and two handles are equal
/// exactly if their formulas are equal.
#[derive(Clone, Copy)]
pub struct FormulaHandle(&'static OperatorFormula);

/// All formulas so far. A process has only a few of them, of a few kilobytes each, and stores each of them once.
static KNOWN: Mutex<Vec<&'static OperatorFormula>> = Mutex::new(Vec::new());

impl FormulaHandle {
    /// Returns the handle of a formula.
    #[must_use]
    pub fn new(formula: OperatorFormula) -> Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| ***known == formula) {
            return Self(known);
        }
        let formula: &'static OperatorFormula = Box::leak(Box::new(formula));
        known.push(formula);
        Self(formula)
    }

    /// Returns the formula.
    #[must_use]
    pub fn formula(self) -> &'static OperatorFormula {
        self.0
    }

    /// Returns the handle of the formula with which the operator transforms an edge's left entity, if it does.
    #[must_use]
    pub fn lhs(self) -> Option<Self> {
        self.0.lhs().map(Self)
    }
}

impl Deref for FormulaHandle {
    type Target = OperatorFormula;

    fn deref(&self) -> &OperatorFormula {
        self.0
    }
}

impl PartialEq for FormulaHandle {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for FormulaHandle {}

impl std::hash::Hash for FormulaHandle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl fmt::Debug for FormulaHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traced({})", self.name())
    }
}
