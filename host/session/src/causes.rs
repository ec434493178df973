//! From the errors of the layers beneath to a kind of failure and advice.

use pbg_author::BuildError;
use pbg_cluster::ClusterError;
use pbg_config::ConfigErrors;
use pbg_store::dataset::DatasetError;
use pbg_store::export::ExportError;
use pbg_store::import::ImportError;
use pbg_store::import::spool::SpoolError;
use pbg_train::{ErrorKind, RunError};
use pbg_wasm::LoadError;

use crate::failure::Failure;
use crate::kind::Kind;

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        let help = "`pbg-host config default` prints every key with its meaning";
        Self::new(Kind::Config, errors).help(help)
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let kind = match error.kind() {
            ErrorKind::Config => Kind::Config,
            ErrorKind::Data => Kind::Data,
            ErrorKind::Checkpoint => Kind::Checkpoint,
            ErrorKind::Locked => Kind::Locked,
            ErrorKind::Plugin => Kind::Plugin,
            ErrorKind::Numeric => Kind::NotFinite,
            ErrorKind::Io => Kind::Io,
            ErrorKind::Interrupted => Kind::Interrupted,
            ErrorKind::Cluster => Kind::Cluster,
            ErrorKind::Internal => Kind::Internal,
        };
        Self::new(kind, error)
    }
}

impl From<ClusterError> for Failure {
    fn from(error: ClusterError) -> Self {
        let kind = match error {
            ClusterError::Interrupted { .. } => Kind::Interrupted,
            _ => Kind::Cluster,
        };
        Self::new(kind, error)
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let kind = match &error {
            ImportError::File(cause) if cause.is_not_found() || cause.is_damage() => Kind::Data,
            ImportError::File(_) => Kind::Io,
            ImportError::Dictionary(DatasetError::File(cause))
            | ImportError::Previous {
                error: DatasetError::File(cause),
            } if !cause.is_damage() => Kind::Io,
            ImportError::Dictionary(_)
            | ImportError::Previous { .. }
            | ImportError::Line { .. }
            | ImportError::Input { .. }
            | ImportError::TooMany { .. }
            | ImportError::Occupied { .. } => Kind::Data,
            ImportError::Usage { .. } | ImportError::Memory { .. } => Kind::Usage,
            ImportError::Cancelled => Kind::Interrupted,
        };
        Self::new(kind, error)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let kind = match error {
            BuildError::NoProject { .. } => Kind::Usage,
            BuildError::Io { .. } => Kind::Io,
            _ => Kind::Plugin,
        };
        Self::new(kind, error)
    }
}

impl From<SpoolError> for Failure {
    fn from(error: SpoolError) -> Self {
        match error {
            SpoolError::Batch { .. } => Self::new(Kind::Data, error),
            SpoolError::File(cause) => Self::new(Kind::Io, cause),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let kind = match error {
            ExportError::Dataset(cause) => return RunError::from(cause).into(),
            ExportError::Checkpoint(cause) => return RunError::from(cause).into(),
            ExportError::File(_) => Kind::Io,
            ExportError::Exists { .. } => Kind::Usage,
            ExportError::Busy { .. } => Kind::Locked,
            ExportError::Mismatch { .. } => Kind::Checkpoint,
            ExportError::Name { .. } => Kind::Data,
        };
        Self::new(kind, error)
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let (kind, help) = match error {
            LoadError::Parameters { .. } => (
                Kind::Config,
                "`pbg-host plugin inspect PLUGIN` shows the parameters that it takes",
            ),
            LoadError::Unknown { .. } => (
                Kind::Plugin,
                "`pbg-host plugin list` shows the standard plugins",
            ),
            LoadError::Stack { .. } => return Self::new(Kind::Config, error),
            LoadError::Machine { .. } | LoadError::Sandbox { .. } => {
                return Self::new(Kind::Io, error);
            }
            LoadError::Interrupted { .. } => return Self::new(Kind::Interrupted, error),
            _ => return Self::new(Kind::Plugin, error),
        };
        Self::new(kind, error).help(help)
    }
}
