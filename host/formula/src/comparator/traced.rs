//! The handle with which models, batch graphs and kernels refer to a comparator's formula.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use super::definition::ComparatorFormula;

/// Handle of a comparator that is kept for the life of the process. It is as small as an index, and two handles are
/// equal exactly if their formulas are equal.
#[derive(Clone, Copy)]
pub struct ComparatorHandle(&'static ComparatorFormula);

/// All comparators so far. A process has only a few of them, and stores each of them once.
static KNOWN: Mutex<Vec<&'static ComparatorFormula>> = Mutex::new(Vec::new());

impl ComparatorHandle {
    /// Returns the handle of a formula.
    #[must_use]
    pub fn new(formula: ComparatorFormula) -> Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| ***known == formula) {
            return Self(known);
        }
        let formula: &'static ComparatorFormula = Box::leak(Box::new(formula));
        known.push(formula);
        Self(formula)
    }

    /// Returns the formula.
    #[must_use]
    pub fn formula(self) -> &'static ComparatorFormula {
        self.0
    }
}

impl Deref for ComparatorHandle {
    type Target = ComparatorFormula;

    fn deref(&self) -> &ComparatorFormula {
        self.0
    }
}

impl PartialEq for ComparatorHandle {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for ComparatorHandle {}

impl fmt::Debug for ComparatorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Comparator({})", self.name())
    }
}
