//! Why a plugin cannot be used.

use std::path::PathBuf;

use pbg_core::strategy::Cause;

use crate::fault::Fault;
use crate::kind::Slot;

/// A plugin that cannot be loaded, with its name or path and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Neither a file nor a standard plugin.
    #[error(
        "plugin {name}: no such file, and no standard plugin of this name{}; the standard ones are {standard}",
        .nearest.map(|n| format!(" (did you mean {n}?)")).unwrap_or_default()
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The standard plugin it was most likely meant to be.
        nearest: Option<&'static str>,
        /// Names of the standard plugins.
        standard: String,
    },
    /// The file cannot be read.
    #[error("plugin {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The bytes are no component, or one that does not compile.
    #[error("plugin {label}: {reason}")]
    NotAComponent {
        /// Which plugin.
        label: String,
        /// What the bytes are instead and how to make a component.
        reason: String,
    },
    /// Compiling it takes more than it may.
    #[error("plugin {label}: {reason}")]
    Compilation {
        /// Which plugin.
        label: String,
        /// Which limit, and what to do.
        reason: String,
    },
    /// The machine does not give what it takes to load it.
    #[error("plugin {label}: {reason}")]
    Machine {
        /// Which plugin.
        label: String,
        /// What is missing.
        reason: String,
    },
    /// Somebody asked for the end while it was loaded.
    #[error("plugin {label}: interrupted while it was loaded")]
    Interrupted {
        /// Which plugin.
        label: String,
    },
    /// It imports what is not offered.
    #[error("plugin {label}: imports {import}, which plugins do not get: {advice}")]
    Import {
        /// Which plugin.
        label: String,
        /// The import.
        import: String,
        /// How to build it without.
        advice: String,
    },
    /// It was built for another version of the interfaces.
    #[error(
        "plugin {label}: was built for {found}, this program speaks {expected}; build it with the \
         SDK of this version"
    )]
    Version {
        /// Which plugin.
        label: String,
        /// The interface with the version that it has.
        found: String,
        /// The package and version that is spoken here.
        expected: String,
    },
    /// It exports no strategy, or not all functions of one.
    #[error("plugin {label}: {reason}")]
    Interface {
        /// Which plugin.
        label: String,
        /// What is missing.
        reason: String,
    },
    /// It is a strategy for another slot.
    #[error("plugin {label}: is a {found}, where a {expected} is wanted")]
    WrongKind {
        /// Which plugin.
        label: String,
        /// What it is.
        found: Slot,
        /// What was wanted.
        expected: Slot,
    },
    /// It failed while it was loaded.
    #[error("plugin {label}: {function}: {reason}")]
    Fault {
        /// Which plugin.
        label: String,
        /// In which step or function.
        function: &'static str,
        /// What happened and what its author can do.
        reason: String,
    },
    /// What it says about itself makes no sense.
    #[error("plugin {label}: its metadata is wrong: {reason}; its author has to mend that")]
    Metadata {
        /// Which plugin.
        label: String,
        /// What is wrong.
        reason: String,
    },
    /// The configuration gives it parameters that it does not take.
    #[error("plugin {label}: {}", .problems.join("; "))]
    Parameters {
        /// Which plugin.
        label: String,
        /// One text per parameter.
        problems: Vec<String>,
    },
    /// The configuration grants it a folder that cannot be opened.
    #[error("plugin {label}: the folder {} that is granted to it: {reason}", .path.display())]
    Grant {
        /// Which plugin.
        label: String,
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The configuration wants another file of this name.
    #[error(
        "plugin {label}: has SHA-256 {found}, its pin wants {expected}; it is not the plugin that \
         was pinned, or a newer one: look at it before changing plugins.pins"
    )]
    Pinned {
        /// Which plugin.
        label: String,
        /// What the pin says.
        expected: String,
        /// What the file has.
        found: String,
    },
    /// The stacks of the threads here are smaller than that of a plugin may be.
    #[error(
        "plugins.limits.stack_kib is {asked}, and the threads here have room for {room} KiB of a \
         plugin's stack: lower it, or allow larger stacks (ulimit -s, RUST_MIN_STACK)"
    )]
    Stack {
        /// KiB of the limit.
        asked: u64,
        /// KiB that there are.
        room: u64,
    },
    /// The sandbox itself cannot start.
    #[error("the plugin sandbox cannot start: {reason}")]
    Sandbox {
        /// Why.
        reason: String,
    },
}

impl LoadError {
    /// A call that failed while the plugin was loaded.
    pub(crate) fn fault(label: &str, function: &'static str, fault: Fault) -> Self {
        let label = label.to_owned();
        let Fault { reason, cause } = fault;
        match cause {
            Cause::Strategy => Self::Fault {
                label,
                function,
                reason,
            },
            Cause::Machine => Self::Machine {
                label,
                reason: format!("{function}: {reason}"),
            },
            Cause::Interruption => Self::Interrupted { label },
        }
    }
}
