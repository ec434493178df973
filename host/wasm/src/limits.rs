//! What a plugin may use.

use pbg_core::config::PluginLimits;

/// Limits of one plugin. They hold for every call, the ones that load it included.
///
/// `[plugins.limits]` of a configuration sets the deadline and the memory; the rest is generous
/// for any strategy and small for the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Milliseconds that one call may take, at least 1. `[plugins.limits] deadline_ms` raises it.
    pub deadline_ms: u64,
    /// Bytes of linear memory, all memories of the plugin together.
    /// `[plugins.limits] memory_mib` raises it.
    pub memory_bytes: usize,
    /// Entries of all tables together.
    pub table_elements: usize,
    /// Bytes of the stack of the compiled code; must fit the stack of the calling thread.
    pub stack_bytes: usize,
    /// Bytes that one call may hand to the host, checked before they are copied.
    pub result_bytes: usize,
    /// Resource handles alive at once.
    pub handles: usize,
    /// Bytes of the component itself: compilation cannot be interrupted.
    pub component_bytes: u64,
    /// Lines that one call may log; the rest is counted and dropped.
    pub log_lines: u32,
}

const MIB: usize = 1 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline_ms: 1000,
            memory_bytes: 64 * MIB,
            table_elements: 100_000,
            stack_bytes: MIB / 2,
            result_bytes: 16 * MIB,
            handles: 1000,
            component_bytes: 32 * MIB as u64,
            log_lines: 100,
        }
    }
}

impl From<&PluginLimits> for Limits {
    fn from(configured: &PluginLimits) -> Self {
        let mebibytes = usize::try_from(configured.memory_mib).unwrap_or(usize::MAX);
        Self {
            deadline_ms: configured.deadline_ms,
            memory_bytes: mebibytes.saturating_mul(MIB),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_that_sets_nothing_changes_nothing() {
        assert_eq!(Limits::from(&PluginLimits::default()), Limits::default());
    }

    #[test]
    fn configured_limits_are_taken() {
        let configured = PluginLimits {
            deadline_ms: 50,
            memory_mib: 256,
        };
        let limits = Limits::from(&configured);
        assert_eq!((limits.deadline_ms, limits.memory_bytes), (50, 256 << 20));
    }
}
