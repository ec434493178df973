//! What a plugin may use.

use pbg_core::limits::PluginLimits;
use serde::{Deserialize, Serialize};

/// Limits of one plugin. They hold for every call, the ones that load it included, and
/// `[plugins.limits]` of a configuration sets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Milliseconds that one call may take, at least 1 (`deadline_ms`).
    pub deadline_ms: u64,
    /// Bytes of linear memory, all memories of the plugin together (`memory_mib`).
    pub memory_bytes: usize,
    /// Entries of all tables together (`table_elements`).
    pub table_elements: usize,
    /// Bytes of the stack of the compiled code; must fit the stack of the calling thread
    /// (`stack_kib`).
    pub stack_bytes: usize,
    /// Bytes that one call may hand to the host, checked before they are copied, and that a file
    /// may have which a plugin reads (`result_mib`).
    pub result_bytes: usize,
    /// Resource handles alive at once (`handles`).
    pub handles: usize,
    /// Nodes of a traced loss's graph (`graph_nodes`).
    pub graph_nodes: usize,
    /// Lines that one call may log; the rest is counted and dropped (`log_lines`).
    pub log_lines: u32,
    /// Bytes of the component itself: compilation cannot be interrupted.
    pub component_bytes: u64,
}

const MIB: usize = 1 << 20;
/// CPython and SpiderMonkey in a component have 12 to 18 MiB.
const COMPONENT_BYTES: u64 = 64 * MIB as u64;

impl Default for Limits {
    fn default() -> Self {
        Self::from(&PluginLimits::default())
    }
}

impl From<&PluginLimits> for Limits {
    fn from(configured: &PluginLimits) -> Self {
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Self {
            deadline_ms: configured.deadline_ms,
            memory_bytes: number(configured.memory_mib).saturating_mul(MIB),
            table_elements: number(configured.table_elements),
            stack_bytes: number(configured.stack_kib).saturating_mul(1 << 10),
            result_bytes: number(configured.result_mib).saturating_mul(MIB),
            handles: number(configured.handles),
            graph_nodes: number(configured.graph_nodes),
            log_lines: u32::try_from(configured.log_lines).unwrap_or(u32::MAX),
            component_bytes: COMPONENT_BYTES,
        }
    }
}

impl Limits {
    /// The same, with what comes from a file that nobody checked brought below what a
    /// configuration may set.
    pub(crate) fn within_reason(self) -> Self {
        Self {
            deadline_ms: self.deadline_ms.clamp(1, 3_600_000),
            memory_bytes: self.memory_bytes.min(4096 * MIB),
            table_elements: self.table_elements.min(10_000_000),
            stack_bytes: self.stack_bytes.clamp(16 << 10, MIB),
            result_bytes: self.result_bytes.min(1024 * MIB),
            handles: self.handles.min(1_000_000),
            graph_nodes: self.graph_nodes.min(1024),
            log_lines: self.log_lines.min(1_000_000),
            component_bytes: self.component_bytes.min(COMPONENT_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_limits_are_taken() {
        let configured = PluginLimits {
            deadline_ms: 50,
            memory_mib: 256,
            stack_kib: 64,
            result_mib: 2,
            log_lines: 0,
            ..PluginLimits::default()
        };
        let limits = Limits::from(&configured);
        let expected = Limits {
            deadline_ms: 50,
            memory_bytes: 256 << 20,
            stack_bytes: 64 << 10,
            result_bytes: 2 << 20,
            log_lines: 0,
            ..Limits::default()
        };
        assert_eq!(limits, expected);
        assert_eq!(limits.clone().within_reason(), limits);
    }
}
