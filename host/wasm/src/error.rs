//! Errors of loading a plugin.

use std::path::PathBuf;

use pbg_core::strategy::FaultCause;

use crate::slot::PluginSlot;

/// Reason why a call ended without an answer.
pub(crate) struct Fault {
    pub(crate) reason: String,
    pub(crate) cause: FaultCause,
}

impl From<String> for Fault {
    /// Creates a fault that the plugin caused.
    fn from(reason: String) -> Self {
        Self {
            reason,
            cause: FaultCause::Strategy,
        }
    }
}

/// Error of loading a plugin, with its name or path and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Neither a file nor a standard plugin has this name.
    #[error(
        "plugin {name}: no such file, and no standard {role} of this name{}{}",
        .nearest.as_ref().map(|n| format!(" (did you mean {n}?)")).unwrap_or_default(),
        .standard.as_ref().map(|names| format!("; there are {names}")).unwrap_or_default()
    )]
    Unknown {
        /// Name that was given.
        name: String,
        /// What it was to be: `plugin` if any kind will do.
        role: &'static str,
        /// Plugin with the most similar name, of this kind if it is a standard one.
        nearest: Option<String>,
        /// Names of the standard plugins of this kind; `None` if any kind will do.
        standard: Option<String>,
    },
    /// The file cannot be read.
    #[error("plugin {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The bytes are not a component, or one that does not compile.
    #[error("plugin {label}: {reason}")]
    NotAComponent {
        /// Name of the plugin.
        label: String,
        /// What the bytes are instead, and how to make a component.
        reason: String,
    },
    /// Compiling it takes more time or memory than allowed.
    #[error("plugin {label}: {reason}")]
    Compilation {
        /// Name of the plugin.
        label: String,
        /// Limit that was exceeded, and what to do.
        reason: String,
    },
    /// The system does not provide the resources for loading it.
    #[error("plugin {label}: {reason}")]
    Machine {
        /// Name of the plugin.
        label: String,
        /// Resource that is missing.
        reason: String,
    },
    /// The user interrupted the program while the plugin was loaded.
    #[error("plugin {label}: interrupted while it was loaded")]
    Interrupted {
        /// Name of the plugin.
        label: String,
    },
    /// It imports an interface that is not available to plugins.
    #[error("plugin {label}: imports {import}, which is not available to plugins: {advice}")]
    Import {
        /// Name of the plugin.
        label: String,
        /// Name of the import.
        import: String,
        /// How to build the plugin without it.
        advice: String,
    },
    /// It was built for another version of the interfaces.
    #[error(
        "plugin {label}: was built for {found}, but this program supports {expected}; build it with the \
         SDK of this version"
    )]
    Version {
        /// Name of the plugin.
        label: String,
        /// Interface that it names, with the version.
        found: String,
        /// Package and version that this program supports.
        expected: String,
    },
    /// It exports no strategy, or lacks a function of one.
    #[error("plugin {label}: {reason}")]
    Interface {
        /// Name of the plugin.
        label: String,
        /// What is missing.
        reason: String,
    },
    /// It is a strategy for another slot.
    #[error(
        "plugin {label}: is a {found}, but a {expected} is needed; `--plugin` takes one of any kind"
    )]
    WrongKind {
        /// Name of the plugin.
        label: String,
        /// Slot that it fills.
        found: PluginSlot,
        /// Slot that was to be filled.
        expected: PluginSlot,
    },
    /// It failed while it was loaded.
    #[error("plugin {label}: {function}: {reason}")]
    Fault {
        /// Name of the plugin.
        label: String,
        /// Step or function in which it failed.
        function: &'static str,
        /// What happened, and what its author can do.
        reason: String,
    },
    /// Its metadata is invalid.
    #[error("plugin {label}: its metadata is invalid: {reason}; its author has to fix that")]
    Metadata {
        /// Name of the plugin.
        label: String,
        /// What is wrong.
        reason: String,
    },
    /// The configuration sets parameters that the plugin does not have, or values that it does not take.
    #[error("plugin {label}: {}", .problems.join("; "))]
    Parameters {
        /// Name of the plugin.
        label: String,
        /// One message per parameter.
        problems: Vec<String>,
    },
    /// A folder that the configuration grants to the plugin cannot be opened.
    #[error("plugin {label}: cannot open the granted folder {}: {reason}", .path.display())]
    Grant {
        /// Name of the plugin.
        label: String,
        /// The folder.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// Its SHA-256 differs from the one that the configuration pins.
    #[error(
        "plugin {label}: has SHA-256 {found}, but its pin requires {expected}; it is not the plugin that \
         was pinned, or a newer one: inspect it before changing plugins.pins"
    )]
    Pinned {
        /// Name of the plugin.
        label: String,
        /// SHA-256 that the configuration pins.
        expected: String,
        /// SHA-256 of the plugin's file.
        found: String,
    },
    /// The threads of this process have less stack than a plugin may use.
    #[error(
        "plugins.limits.stack_kib is {asked}, but the threads of this process have room for {room} KiB of a \
         plugin's stack: lower it, or allow larger stacks (ulimit -s, RUST_MIN_STACK)"
    )]
    Stack {
        /// Configured limit (KiB).
        asked: u64,
        /// Available stack (KiB).
        room: u64,
    },
    /// The sandbox itself cannot start.
    #[error("the plugin sandbox cannot start: {reason}")]
    Sandbox {
        /// Reason.
        reason: String,
    },
}

impl LoadError {
    /// Converts a fault that occurred while the plugin was loaded.
    pub(crate) fn fault(label: &str, function: &'static str, fault: Fault) -> Self {
        let label = label.to_owned();
        let Fault { reason, cause } = fault;
        match cause {
            FaultCause::Strategy => Self::Fault {
                label,
                function,
                reason,
            },
            FaultCause::Machine => Self::Machine {
                label,
                reason: format!("{function}: {reason}"),
            },
            FaultCause::Interruption => Self::Interrupted { label },
        }
    }
}
