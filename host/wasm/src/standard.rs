//! The standard plugins, embedded in the program.

use crate::kind::Slot;

/// A plugin that comes with the program. It has no other power than one from a file.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    /// Name, as in a configuration.
    pub name: &'static str,
    /// The slot that it fills.
    pub kind: Slot,
    /// The component.
    pub bytes: &'static [u8],
}

/// All standard plugins, sorted by kind and name.
#[must_use]
pub fn standard() -> &'static [Standard] {
    const ALL: &[Standard] = include!(concat!(env!("OUT_DIR"), "/standard.rs"));
    ALL
}
