//! Resource limits of plugins: `[plugins.limits]` of a configuration, enforced by the sandbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::nearest::nearest;

/// Resource limits of each call into a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginLimits {
    /// Milliseconds of processor time that one call may take before it is stopped.
    #[schemars(range(min = 1, max = 3_600_000))]
    pub deadline_ms: u64,
    /// MiB of memory that a plugin may allocate.
    #[schemars(range(min = 1, max = 4096))]
    pub memory_mib: u64,
    /// Entries that all tables of a plugin may have together, about one for each of its functions.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub table_elements: u64,
    /// KiB of stack that a call may use.
    #[schemars(range(min = 16, max = 1024))]
    pub stack_kib: u64,
    /// MiB that one call may return to the host, and that a file may have for a plugin to read it.
    #[schemars(range(min = 1, max = 1024))]
    pub result_mib: u64,
    /// Resource handles that a plugin may hold at the same time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub handles: u64,
    /// Nodes that the graph of a traced loss may have.
    #[schemars(range(min = 1, max = 1024))]
    pub graph_nodes: u64,
    /// Lines that one call may log; more are counted and dropped.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub log_lines: u64,
    /// Lines that all calls of a plugin in a run may log; further lines are not shown.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub run_log_lines: u64,
    /// Seconds of processor time that compiling a plugin may take; each MiB of it adds twice as many. The compiled code
    /// is cached.
    #[schemars(range(min = 1, max = 3600))]
    pub compile_seconds: u64,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            deadline_ms: 1000,
            memory_mib: 64,
            table_elements: 100_000,
            stack_kib: 512,
            result_mib: 16,
            handles: 1000,
            graph_nodes: 1024,
            log_lines: 100,
            run_log_lines: 1000,
            compile_seconds: 2,
        }
    }
}

impl PluginLimits {
    /// Sets the limit with the key `key` of a configuration.
    ///
    /// # Errors
    /// Fails if there is no such limit, or if `value` is outside its range.
    pub fn set(&mut self, key: &str, value: u64) -> Result<(), String> {
        let schema = schemars::schema_for!(Self);
        let properties = schema.get("properties").and_then(Value::as_object);
        let names = || properties.into_iter().flat_map(Map::keys);
        let Some(found) = properties.and_then(|properties| properties.get(key)) else {
            let known = names().map(String::as_str);
            return Err(match nearest(key, known) {
                Some(near) => format!("unknown limit `{key}`; did you mean `{near}`?"),
                None => {
                    let known: Vec<&str> = names().map(String::as_str).collect();
                    format!("unknown limit `{key}`; known limits: {}", known.join(", "))
                }
            });
        };
        let bound = |name: &str| found.get(name).and_then(Value::as_u64);
        let (least, most) = (
            bound("minimum").unwrap_or(0),
            bound("maximum").unwrap_or(u64::MAX),
        );
        if !(least..=most).contains(&value) {
            return Err(format!("{key}: must be from {least} to {most}"));
        }
        let changed = serde_json::to_value(&*self).and_then(|mut limits| {
            limits[key] = value.into();
            serde_json::from_value(limits)
        });
        *self = changed.map_err(|error| error.to_string())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_by_the_keys_of_a_configuration() {
        let mut limits = PluginLimits::default();
        limits.set("memory_mib", 128).unwrap();
        assert_eq!((limits.memory_mib, limits.deadline_ms), (128, 1000));
        let refused = |key, value| PluginLimits::default().set(key, value).unwrap_err();
        assert!(refused("dedline_ms", 1).contains("`deadline_ms`"));
        assert!(refused("stack_kib", 1).contains("16 to 1024"));
    }
}
