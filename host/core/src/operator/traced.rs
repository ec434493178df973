//! The handle with which models, batch graphs and kernels refer to an operator's formula.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use super::definition::Formula;

/// Handle of a formula that is kept for the life of the process. It is as small as an index, and two handles are equal
/// exactly if their formulas are equal.
#[derive(Clone, Copy)]
pub struct Traced(&'static Formula);

/// All formulas so far. A process has only a few of them, of a few kilobytes each, and stores each of them once.
static KNOWN: Mutex<Vec<&'static Formula>> = Mutex::new(Vec::new());

impl Traced {
    /// Returns the handle of a formula.
    #[must_use]
    pub fn new(formula: Formula) -> Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| ***known == formula) {
            return Self(known);
        }
        let formula: &'static Formula = Box::leak(Box::new(formula));
        known.push(formula);
        Self(formula)
    }

    /// Returns the formula.
    #[must_use]
    pub fn formula(self) -> &'static Formula {
        self.0
    }
}

impl Deref for Traced {
    type Target = Formula;

    fn deref(&self) -> &Formula {
        self.0
    }
}

impl PartialEq for Traced {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Traced {}

impl std::hash::Hash for Traced {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl fmt::Debug for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Traced({})", self.name())
    }
}
