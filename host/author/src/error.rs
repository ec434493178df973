//! Why a project cannot be made or built.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::encode::EncodeError;
use crate::language::Language;

/// A project that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// The name fits no language.
    #[error("the name {name:?} {reason}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is something in the folder already.
    #[error("{} exists and is not an empty folder; choose another one with --path", .folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// The language is too slow for the kind.
    #[error(
        "there is no template of a computed loss in {language}: it is called for every slice of a batch; write it in Rust, or as a formula"
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
        /// Why.
        error: io::Error,
    },
    /// The bindings for C cannot be generated.
    #[error("cannot generate the bindings for C: {reason}")]
    Bindings {
        /// Why.
        reason: String,
    },
}

/// A project that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The folder holds no project.
    #[error(
        "{}: no plugin project: there is no plugin.toml in it; `pbg-host plugin new NAME` makes one",
        .folder.display()
    )]
    NoProject {
        /// The folder.
        folder: PathBuf,
    },
    /// `plugin.toml` is wrong.
    #[error("{}: {reason}", .path.display())]
    Manifest {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A program that the build needs is not there.
    #[error("the build needs {tool}, which was not found: {advice}")]
    ToolMissing {
        /// Its name.
        tool: String,
        /// How to get it.
        advice: &'static str,
    },
    /// A program failed; what it said went to standard error.
    #[error("`{command}` failed ({status}); its messages are above")]
    Tool {
        /// The command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// The author's code fails while it is built.
    #[error("{reason}")]
    Code {
        /// Where and why.
        reason: String,
    },
    /// A program ran and did not leave what it should.
    #[error("`{command}` left no {expected}")]
    NoOutput {
        /// The command line.
        command: String,
        /// What is missing.
        expected: String,
    },
    /// The WIT files of the project are wrong.
    #[error("{}: {reason}", .path.display())]
    Wit {
        /// The folder.
        path: PathBuf,
        /// What is wrong with them.
        reason: String,
    },
    /// The core module cannot become a component.
    #[error("{}: {error}", .module.display())]
    Encode {
        /// The core module.
        module: PathBuf,
        /// Why.
        error: EncodeError,
    },
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {error}", .path.display())]
    Io {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
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
