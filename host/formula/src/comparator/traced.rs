//! The handle of a comparator's formula.

use std::sync::Mutex;

use super::definition::ComparatorFormula;
use crate::kept::{KeptFormula, KindOfFormula};

/// Handle of a comparator's formula.
pub type ComparatorHandle = KeptFormula<ComparatorFormula>;

impl KindOfFormula for ComparatorFormula {
    const WORD: &'static str = "Comparator";

    fn known() -> &'static Mutex<Vec<&'static Self>> {
        static KNOWN: Mutex<Vec<&'static ComparatorFormula>> = Mutex::new(Vec::new());
        &KNOWN
    }

    fn name(&self) -> &str {
        self.name()
    }
}
