//! Errors of checkpoints that are intact but belong to another configuration, dataset or build.

use std::path::PathBuf;

use pbg_checkpoint::recovery_advice;
use pbg_config::ConfigDifference;
use pbg_rows::params::ParamError;
use pbg_rows::table::FeatureBagsError;

/// Reason why a checkpoint does not fit. Paths are those of the checkpoint unless they are described otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointMismatch {
    /// The configuration has other values of keys that have to be those of the checkpoint.
    #[error("{} {what}; differences: {}. {remedy}", checkpoint.display(), joined(differences))]
    Configuration {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What the keys decide.
        what: &'static str,
        /// The differences; empty if the checkpoint's configuration has keys that this version does not know.
        differences: Vec<ConfigDifference>,
        /// Advice.
        remedy: &'static str,
    },
    /// Two checkpoints that are to be combined contain different models.
    #[error(
        "{} and {} are not the same model; differences: {}. Combine models that agree in these keys",
        first.display(), checkpoint.display(), joined(differences)
    )]
    Models {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The checkpoint that it is compared with.
        first: PathBuf,
        /// The differences.
        differences: Vec<ConfigDifference>,
    },
    /// The checkpoint was trained on other edges, or with other plugins.
    #[error(
        "{} was trained {what}: {}; to resume anyway, use `{option}`",
        checkpoint.display(), changes.join("; ")
    )]
    Changed {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What has changed, as part of a sentence.
        what: &'static str,
        /// Descriptions of the changes.
        changes: Vec<String>,
        /// Option that allows the changes.
        option: &'static str,
    },
    /// The ids of the checkpoint stand for other names.
    #[error(
        "{} was trained on another dataset than {}, with other entities or relations: {difference}; use the dataset \
         that it was trained on, or import with its dictionary (`--dictionary`)",
        checkpoint.display(), dataset.display()
    )]
    Dataset {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The dataset.
        dataset: PathBuf,
        /// The first difference.
        difference: String,
    },
    /// The checkpoint lacks a partition.
    #[error("{} has no partition {partition} of {entity_type}", checkpoint.display())]
    NoPartition {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The entity type.
        entity_type: String,
        /// The partition.
        partition: u32,
    },
    /// A partition has another shape.
    #[error(
        "partition {partition} of {entity_type} is [{}, {}] in the checkpoint, but [{}, {}] in this run; use another \
         checkpoint_path, or the dataset and configuration it was trained with",
        stored[0], stored[1], expected[0], expected[1]
    )]
    Rows {
        /// The entity type.
        entity_type: String,
        /// The partition.
        partition: u32,
        /// Rows and columns in the checkpoint.
        stored: [u64; 2],
        /// Rows and columns of the run.
        expected: [u64; 2],
    },
    /// The file of a partition is larger than any with its shape.
    #[error(
        "partition {partition} of {entity_type} has {bytes} bytes in the checkpoint, but at most {most} in this run; use \
         another checkpoint_path, or the dataset and configuration it was trained with"
    )]
    FileSize {
        /// The entity type.
        entity_type: String,
        /// The partition.
        partition: u32,
        /// Size of the file in bytes.
        bytes: u64,
        /// Greatest possible size.
        most: u64,
    },
    /// The features do not fit the model.
    #[error("features of {entity_type}: {source}")]
    Features {
        /// The entity type.
        entity_type: String,
        /// The error.
        source: FeatureBagsError,
    },
    /// The parameters do not fit the model.
    #[error("the checkpoint does not fit the model: {0}")]
    Parameters(#[from] ParamError),
    /// This version cannot read the configuration of the checkpoint.
    #[error("{} was written by another version of pbg-host: {problems}; use that version", checkpoint.display())]
    Version {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The keys or values that it cannot read.
        problems: String,
    },
    /// The position in the manifest does not belong to this run.
    #[error("{}/manifest.json is damaged or belongs to another run: {what}; {instead}", checkpoint.display())]
    Position {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The part that does not fit.
        what: String,
        /// Advice.
        instead: String,
    },
    /// The stored state of the loss does not fit the configured loss.
    #[error("{}: the stored state of its loss does not fit: {reason}", checkpoint.display())]
    Loss {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Reason, in the words of the loss.
        reason: String,
    },
}

impl CheckpointMismatch {
    /// Returns the error that the position in the manifest of a checkpoint does not belong to this run.
    pub fn position(checkpoint: impl Into<PathBuf>, what: impl ToString) -> Self {
        let checkpoint = checkpoint.into();
        Self::Position {
            instead: recovery_advice(&checkpoint),
            what: what.to_string(),
            checkpoint,
        }
    }
}

fn joined(differences: &[ConfigDifference]) -> String {
    if differences.is_empty() {
        return "keys that this version does not know".to_owned();
    }
    let texts = differences.iter().map(ConfigDifference::to_string);
    texts.collect::<Vec<_>>().join(", ")
}
