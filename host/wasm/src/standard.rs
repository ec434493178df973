//! The standard plugins, embedded in the program.

use crate::slot::PluginSlot;

/// A plugin embedded in the program. It has no more rights than one from a file.
#[derive(Clone, Copy, Debug)]
pub struct StandardPlugin {
    /// Name that a configuration uses.
    pub name: &'static str,
    /// Slot that it fills.
    pub kind: PluginSlot,
    /// Bytes of the component.
    pub bytes: &'static [u8],
}

/// All standard plugins, sorted by kind and name.
#[must_use]
pub fn standard_plugins() -> &'static [StandardPlugin] {
    const ALL: &[StandardPlugin] = include!(concat!(env!("OUT_DIR"), "/standard.rs"));
    ALL
}
