//! Resource limits of a plugin.

use pbg_core::limits::PluginLimits;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::error::LoadError;

/// Resource limits of one plugin, set by `[plugins.limits]` of a configuration. They apply to every call, including
/// those that load the plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Milliseconds of processor time that one call may take, at least 1 (`deadline_ms`).
    pub deadline_ms: u64,
    /// Bytes of linear memory, all memories of the plugin together (`memory_mib`).
    pub memory_bytes: usize,
    /// Entries of all tables together (`table_elements`).
    pub table_elements: usize,
    /// Bytes of the stack of the compiled code (`stack_kib`). It must fit into the stack of the calling thread.
    pub stack_bytes: usize,
    /// Bytes that one call may pass to the host, checked before they are copied. Also the size of the largest file that
    /// a plugin can read (`result_mib`).
    pub result_bytes: usize,
    /// Resource handles alive at once (`handles`).
    pub handles: usize,
    /// Nodes of a traced loss's graph (`graph_nodes`).
    pub graph_nodes: usize,
    /// Lines that one call may log; further lines are counted and dropped (`log_lines`).
    pub log_lines: u32,
    /// Lines that all calls of a run may log; further lines are not shown (`run_log_lines`).
    #[serde(default = "run_log_lines")]
    pub run_log_lines: u32,
    /// Seconds of processor time for compiling a component with a [`Compiler`](crate::Compiler), at least 1; each MiB
    /// of the component adds twice as many (`compile_seconds`).
    #[serde(default = "compile_seconds")]
    pub compile_seconds: u64,
    /// Bytes of the component.
    pub component_bytes: u64,
}

const MIB: usize = 1 << 20;
/// Largest size (bytes) of a component. CPython and SpiderMonkey as components have 12 to 18 MiB.
pub(crate) const COMPONENT_BYTES: u64 = 64 * MIB as u64;

/// Default for replays written by versions without this limit.
fn run_log_lines() -> u32 {
    Limits::default().run_log_lines
}

/// Default for replays written by versions without this limit.
fn compile_seconds() -> u64 {
    Limits::default().compile_seconds
}

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
            run_log_lines: u32::try_from(configured.run_log_lines).unwrap_or(u32::MAX),
            compile_seconds: configured.compile_seconds,
            component_bytes: COMPONENT_BYTES,
        }
    }
}

/// Converts back, rounding down to whole MiB and KiB: for changing some limits of a replay.
impl From<&Limits> for PluginLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            deadline_ms: limits.deadline_ms,
            memory_mib: (limits.memory_bytes / MIB) as u64,
            table_elements: limits.table_elements as u64,
            stack_kib: (limits.stack_bytes >> 10) as u64,
            result_mib: (limits.result_bytes / MIB) as u64,
            handles: limits.handles as u64,
            graph_nodes: limits.graph_nodes as u64,
            log_lines: limits.log_lines.into(),
            run_log_lines: limits.run_log_lines.into(),
            compile_seconds: limits.compile_seconds,
        }
    }
}

/// Bytes of stack that the host uses between a thread's start and the plugin's code.
const HOST_STACK: u64 = 256 << 10;
/// Bytes of stack of a thread by default.
const THREAD_STACK: u64 = 2 << 20;

/// Returns the size (bytes) of the smallest stack on which plugins are called: that of the main thread, limited by the
/// system, or of a worker thread, created by the standard library.
fn smallest_stack() -> u64 {
    let workers = std::env::var("RUST_MIN_STACK").ok();
    let workers = workers.and_then(|bytes| bytes.parse().ok());
    let first = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    first.min(workers.unwrap_or(THREAD_STACK))
}

impl Limits {
    /// Returns the seconds of processor time for compiling a component of `bytes` bytes. CPython and SpiderMonkey take
    /// up to 2.5 s per MiB on a busy machine; QuickJS, which is small, takes up to 3 s.
    pub(crate) fn seconds_to_compile(&self, bytes: usize) -> u64 {
        let for_its_size = self.compile_seconds.saturating_mul(2 * bytes as u64) / MIB as u64;
        self.compile_seconds.saturating_add(for_its_size)
    }

    /// Returns an error if the threads of this process have no room for a plugin's stack: an overflow would end the
    /// program with a signal.
    pub(crate) fn check_stack(&self) -> Result<(), LoadError> {
        let room = smallest_stack().saturating_sub(HOST_STACK);
        if self.stack_bytes as u64 <= room {
            return Ok(());
        }
        Err(LoadError::Stack {
            asked: self.stack_bytes as u64 >> 10,
            room: room >> 10,
        })
    }

    /// Returns limits no larger than those that a configuration may set, for limits read from a file that nobody
    /// checked.
    pub(crate) fn clamped(self) -> Self {
        Self {
            deadline_ms: self.deadline_ms.clamp(1, 3_600_000),
            memory_bytes: self.memory_bytes.min(4096 * MIB),
            table_elements: self.table_elements.min(10_000_000),
            stack_bytes: self.stack_bytes.clamp(16 << 10, MIB),
            result_bytes: self.result_bytes.min(1024 * MIB),
            handles: self.handles.min(1_000_000),
            graph_nodes: self.graph_nodes.min(1024),
            log_lines: self.log_lines.min(1_000_000),
            run_log_lines: self.run_log_lines.min(10_000_000),
            compile_seconds: self.compile_seconds.clamp(1, 3600),
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
        assert_eq!(limits.clone().clamped(), limits);
    }
}
