//! `[plugins]`: what plugins get and may use.

use std::collections::BTreeMap;

use pbg_core::limits::PluginLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
