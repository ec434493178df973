//! Handles with which models, batch graphs and kernels refer to formulas.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

/// Kind of formula that handles refer to.
pub trait KindOfFormula: PartialEq + 'static {
    /// Word for a handle in debug output.
    const WORD: &'static str;

    /// Returns all formulas of this kind so far. A process has only a few of them, of a few kilobytes each, and stores
    /// each of them once.
    fn known() -> &'static Mutex<Vec<&'static Self>>;

    /// Returns the formula's name.
    fn name(&self) -> &str;
}

/// Handle of a formula that is kept for the life of the process. It is as small as an index, and two handles of whole
/// formulas are equal exactly if their formulas are equal.
pub struct KeptFormula<T: 'static>(&'static T);

impl<T: KindOfFormula> KeptFormula<T> {
    /// Returns the handle of a formula.
    #[must_use]
    pub fn new(formula: T) -> Self {
        let mut known = T::known().lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| ***known == formula) {
            return Self(known);
        }
        let formula: &'static T = Box::leak(Box::new(formula));
        known.push(formula);
        Self(formula)
    }
}

impl<T> KeptFormula<T> {
    /// Returns the handle of a part of a formula that is kept.
    pub(crate) fn of_part(part: &'static T) -> Self {
        Self(part)
    }

    /// Returns the formula.
    #[must_use]
    pub fn formula(self) -> &'static T {
        self.0
    }
}

impl<T> Clone for KeptFormula<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for KeptFormula<T> {}

impl<T> Deref for KeptFormula<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0
    }
}

impl<T> PartialEq for KeptFormula<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<T> Eq for KeptFormula<T> {}

impl<T> Hash for KeptFormula<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self.0, state);
    }
}

impl<T: KindOfFormula> fmt::Debug for KeptFormula<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", T::WORD, self.0.name())
    }
}
