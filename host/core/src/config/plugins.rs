//! `[plugins]`: what plugins get and may use.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default;

/// What plugins get and may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginsConfig {
    /// Parameters by plugin name: `[plugins.params.NAME]`.
    #[serde(default)]
    pub params: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// Limits of every call into a plugin.
    #[serde(default)]
    pub limits: PluginLimits,
    /// What happens when a plugin fails while training.
    #[serde(default)]
    pub on_fault: OnFault,
    /// Folders that plugins may read.
    #[serde(default)]
    pub grants: Vec<PluginGrant>,
    /// Plugins that must be the very ones.
    #[serde(default)]
    pub pins: Vec<PluginPin>,
}

/// What happens when a plugin fails while training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFault {
    /// The run ends; the last checkpoint is kept.
    #[default]
    End,
    /// The run goes on from the same point with the slot's standard plugin, and says so.
    Fallback,
}

/// Folders that a plugin may read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginGrant {
    /// Name of the plugin, as it names itself.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// Folders whose files it may read and list.
    #[schemars(length(min = 1))]
    pub read: Vec<String>,
}

/// A plugin that must be the very one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginPin {
    /// Name of the plugin, as it names itself.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// SHA-256 of its file in hexadecimal, as `pbg-host plugin inspect` shows it.
    #[schemars(length(min = 1), extend("x-rule" = "64 hexadecimal digits"))]
    pub sha256: String,
}

/// Limits of every call into a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginLimits {
    /// Milliseconds that one call may take before it is stopped.
    #[serde(default = "default::deadline_ms")]
    #[schemars(range(min = 1, max = 3_600_000))]
    pub deadline_ms: u64,
    /// MiB of memory that a plugin may allocate.
    #[serde(default = "default::memory_mib")]
    #[schemars(range(min = 1, max = 4096))]
    pub memory_mib: u64,
    /// Entries that all tables of a plugin may have together: about one for each of its functions.
    #[serde(default = "default::table_elements")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub table_elements: u64,
    /// KiB of stack that a call may use.
    #[serde(default = "default::stack_kib")]
    #[schemars(range(min = 16, max = 1024))]
    pub stack_kib: u64,
    /// MiB that one call may hand over, and that a file may have which a plugin reads.
    #[serde(default = "default::result_mib")]
    #[schemars(range(min = 1, max = 1024))]
    pub result_mib: u64,
    /// Resource handles that a plugin may hold at once.
    #[serde(default = "default::handles")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub handles: u64,
    /// Nodes that the graph of a traced loss may have.
    #[serde(default = "default::graph_nodes")]
    #[schemars(range(min = 1, max = 1024))]
    pub graph_nodes: u64,
    /// Lines that one call may log; more are counted and dropped.
    #[serde(default = "default::log_lines")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub log_lines: u64,
}

impl Default for PluginLimits {
    fn default() -> Self {
        Self {
            deadline_ms: default::deadline_ms(),
            memory_mib: default::memory_mib(),
            table_elements: default::table_elements(),
            stack_kib: default::stack_kib(),
            result_mib: default::result_mib(),
            handles: default::handles(),
            graph_nodes: default::graph_nodes(),
            log_lines: default::log_lines(),
        }
    }
}
