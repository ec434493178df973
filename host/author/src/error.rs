//! Errors of creating and building projects.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::encode::EncodeError;
use crate::language::Language;

/// Error of creating a project.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name cannot be used in all languages.
    #[error("the name {name:?} {reason}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The folder is not empty.
    #[error("{} exists and is not an empty folder; choose another one with --path", .folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// The language is too slow for this kind of plugin.
    #[error(
        "there is no template for a computed loss in {language}, because it is called for every slice of a batch; write it in Rust, or as a formula"
    )]
    TooSlow {
        /// The language.
        language: Language,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Reason.
        error: io::Error,
    },
    /// The bindings for C cannot be generated.
    #[error("cannot generate the bindings for C: {reason}")]
    Bindings {
        /// Reason.
        reason: String,
    },
}

/// Error of building a project.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The folder contains no project.
    #[error(
        "{}: not a plugin project: it contains no plugin.toml; `pbg-host plugin new NAME` creates one",
        .folder.display()
    )]
    NoProject {
        /// The folder.
        folder: PathBuf,
    },
    /// `plugin.toml` is invalid.
    #[error("{}: {reason}", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A program that the build needs was not found.
    #[error("the build needs {tool}, which was not found: {advice}")]
    ToolMissing {
        /// Name of the program.
        tool: String,
        /// How to install it.
        advice: &'static str,
    },
    /// A program failed. Its messages were written to standard error.
    #[error("`{command}` failed ({status}); its messages are above")]
    Tool {
        /// The command line.
        command: String,
        /// Exit status.
        status: ExitStatus,
    },
    /// The plugin's own code failed while the build ran it.
    #[error("{reason}")]
    Code {
        /// Place in the code, and reason.
        reason: String,
    },
    /// A program succeeded, but did not produce its output.
    #[error("`{command}` produced no {expected}")]
    NoOutput {
        /// The command line.
        command: String,
        /// Output that is missing.
        expected: String,
    },
    /// The WIT files of the project are invalid.
    #[error("{}: {reason}", .path.display())]
    Wit {
        /// The folder.
        path: PathBuf,
        /// What is wrong with them.
        reason: String,
    },
    /// The core module cannot be encoded as a component.
    #[error("{}: {error}", .module.display())]
    Encode {
        /// The core module.
        module: PathBuf,
        /// Reason.
        error: EncodeError,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {error}", .path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason.
        error: io::Error,
    },
}

impl BuildError {
    pub(crate) fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            error,
        }
    }
}
