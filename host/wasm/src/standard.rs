//! The standard plugins, embedded in the program.

use crate::kind::Slot;

/// A plugin embedded in the program. It has no more rights than one from a file.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    /// Name that a configuration uses.
    pub name: &'static str,
    /// Slot that it fills.
    pub kind: Slot,
    /// Bytes of the component.
    pub bytes: &'static [u8],
}

/// All standard plugins, sorted by kind and name.
#[must_use]
pub fn standard() -> &'static [Standard] {
    const ALL: &[Standard] = include!(concat!(env!("OUT_DIR"), "/standard.rs"));
    ALL
}
