//! `[plugins]`: parameters, limits and permissions of plugins.

use std::collections::BTreeMap;

use pbg_core::limits::PluginLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters, limits and permissions of plugins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginsConfig {
    /// Parameters by plugin name: `[plugins.params.NAME]`.
    pub params: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// Limits on the resources of plugins.
    pub limits: PluginLimits,
    /// Reaction to a failure of a plugin during training.
    pub on_fault: OnFault,
    /// Folders that plugins may read.
    pub grants: Vec<PluginGrant>,
    /// Plugins whose files must have a given checksum.
    pub pins: Vec<PluginPin>,
}

/// Reaction to a failure of a plugin during training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFault {
    /// The run ends; the last checkpoint is kept.
    #[default]
    End,
    /// The run continues from the same point with the standard plugin of the slot, and prints a warning.
    Fallback,
}

/// Folders that a plugin may read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginGrant {
    /// Name of the plugin, as `pbg-host plugin inspect` shows it.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// Folders whose files the plugin may read and list.
    #[schemars(length(min = 1))]
    pub read: Vec<String>,
}

/// A plugin whose file must have a given checksum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginPin {
    /// Name of the plugin, as `pbg-host plugin inspect` shows it.
    #[schemars(length(min = 1))]
    pub plugin: String,
    /// SHA-256 of the plugin's file in hexadecimal, as `pbg-host plugin inspect` shows it.
    #[schemars(length(min = 1), extend("x-rule" = "64 hexadecimal digits"))]
    pub sha256: String,
}
