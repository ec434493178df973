//! Conversion of the lower layers' errors to failures with a kind and advice.

use pbg_author::BuildError;
use pbg_config::ConfigErrors;
use pbg_dataset::{DatasetError, StagingError};
use pbg_export::ExportError;
use pbg_import::ImportError;
use pbg_import::spool::SpoolError;
use pbg_model::{ErrorKind, RunError};
use pbg_transport::ConnectError;
use pbg_wasm::LoadError;

use crate::failure::Failure;
use crate::kind::FailureKind;

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        let help = "`pbg-host config default` prints every key with its meaning";
        Self::new(FailureKind::Config, errors).help(help)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let kind = match error.kind() {
            ErrorKind::Config => FailureKind::Config,
            ErrorKind::Data => FailureKind::Data,
            ErrorKind::Checkpoint => FailureKind::Checkpoint,
            ErrorKind::Locked => FailureKind::Locked,
            ErrorKind::Plugin => FailureKind::Plugin,
            ErrorKind::Numeric => FailureKind::NotFinite,
            ErrorKind::Io => FailureKind::Io,
            ErrorKind::Interrupted => FailureKind::Interrupted,
            ErrorKind::Cluster => FailureKind::Cluster,
            ErrorKind::Internal => FailureKind::Internal,
        };
        Self::new(kind, error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let kind = match error {
            ConnectError::Interrupted { .. } => FailureKind::Interrupted,
            ConnectError::Store(_) => FailureKind::Io,
            _ => FailureKind::Cluster,
        };
        Self::new(kind, error)
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let kind = match &error {
            ImportError::File(cause) if !cause.is_not_found() && !cause.is_damage() => {
                FailureKind::Io
            }
            ImportError::Dictionary(DatasetError::File(cause))
            | ImportError::Previous(DatasetError::File(cause))
                if !cause.is_damage() =>
            {
                FailureKind::Io
            }
            ImportError::Staging(StagingError::Busy { .. })
            | ImportError::Dictionary(DatasetError::Unfinished(StagingError::Busy { .. })) => {
                FailureKind::Locked
            }
            ImportError::Staging(StagingError::Unknown { .. } | StagingError::Aside { .. }) => {
                FailureKind::Io
            }
            ImportError::Usage { .. } | ImportError::Memory { .. } | ImportError::Names { .. } => {
                FailureKind::Usage
            }
            ImportError::Cancelled => FailureKind::Interrupted,
            ImportError::File(_)
            | ImportError::Dictionary(_)
            | ImportError::Previous(_)
            | ImportError::Edges(_)
            | ImportError::Line { .. }
            | ImportError::Input { .. }
            | ImportError::TooMany { .. }
            | ImportError::Staging(_)
            | ImportError::Inside { .. }
            | ImportError::Occupied { .. } => FailureKind::Data,
        };
        Self::new(kind, error)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let kind = match error {
            BuildError::NoProject { .. } => FailureKind::Usage,
            BuildError::Io { .. } => FailureKind::Io,
            _ => FailureKind::Plugin,
        };
        Self::new(kind, error)
    }
}

impl From<SpoolError> for Failure {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::Batch { .. } => Self::new(FailureKind::Data, error),
            SpoolError::File(cause) => Self::new(FailureKind::Io, cause),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let kind = match error {
            ExportError::Dataset(cause) => return RunError::from(cause).into(),
            ExportError::Checkpoint(cause) => return RunError::from(cause).into(),
            ExportError::File(_) => FailureKind::Io,
            ExportError::Exists { .. }
            | ExportError::Inside { .. }
            | ExportError::NoExport(_)
            | ExportError::NotLocal(_) => FailureKind::Usage,
            ExportError::Busy { .. } => FailureKind::Locked,
            ExportError::Mismatch { .. } => FailureKind::Checkpoint,
            ExportError::Name { .. } => FailureKind::Data,
        };
        Self::new(kind, error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let kind = match error {
            LoadError::Parameters { .. } => {
                let help = "`pbg-host plugin inspect PLUGIN` shows the parameters that it takes";
                return Self::new(FailureKind::Config, error).help(help);
            }
            LoadError::Unknown { .. } => {
                let help = "`pbg-host plugin list` shows all plugins that have a name";
                return Self::new(FailureKind::Plugin, error).help(help);
            }
            LoadError::Stack { .. } => FailureKind::Config,
            LoadError::Machine { .. } | LoadError::Sandbox { .. } => FailureKind::Io,
            LoadError::Interrupted { .. } => FailureKind::Interrupted,
            _ => FailureKind::Plugin,
        };
        Self::new(kind, error)
    }
}
