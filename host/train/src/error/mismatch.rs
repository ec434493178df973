//! Checkpoints that are sound, but not of this configuration, dataset or build.

use std::path::PathBuf;

use pbg_config::Difference;
use pbg_kernels::params::ParamError;
use pbg_kernels::table::FeaturesError;
use pbg_store::checkpoint::way_out;

/// What of a checkpoint does not fit. The path is the checkpoint's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mismatch {
    /// It was trained with other values of keys that a run keeps.
    #[error(
        "{} was trained with another configuration; what differs: {}. Set them back, or choose another \
         checkpoint_path (and init_path to start from these embeddings)",
        checkpoint.display(), joined(differences)
    )]
    Configuration {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What differs; nothing if its configuration has keys that this version does not know.
        differences: Vec<Difference>,
    },
    /// Its embeddings cannot become initial ones.
    #[error(
        "{} is named by init_path, and its embeddings have another shape; what differs: {}. Set them as they were \
         there, or leave out init_path",
        checkpoint.display(), joined(differences)
    )]
    Shape {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// As in [`Mismatch::Configuration`].
        differences: Vec<Difference>,
    },
    /// Its embeddings mean something else.
    #[error(
        "{} holds another model; what differs: {}. Leave these keys out: those of the checkpoint are the default",
        checkpoint.display(), joined(differences)
    )]
    Model {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// As in [`Mismatch::Configuration`].
        differences: Vec<Difference>,
    },
    /// It is of another model than one that it is to become one with.
    #[error(
        "{} and {} are not the same model; what differs: {}. Combine those that share these keys",
        first.display(), checkpoint.display(), joined(differences)
    )]
    Models {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The other one.
        first: PathBuf,
        /// What differs.
        differences: Vec<Difference>,
    },
    /// It was trained on other edges.
    #[error(
        "{} was trained on other edges: {}; `--allow-data-change` goes on all the same",
        checkpoint.display(), changes.join("; ")
    )]
    Edges {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What changed.
        changes: Vec<String>,
    },
    /// Its ids stand for other names.
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
    /// It was trained with other plugins.
    #[error(
        "{} was trained with other plugins: {}; `--allow-plugin-change` goes on all the same",
        checkpoint.display(), changes.join("; ")
    )]
    Strategies {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What changed.
        changes: Vec<String>,
    },
    /// It lacks a partition.
    #[error("{} has no partition {partition} of {entity_type}", checkpoint.display())]
    NoPartition {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The type.
        entity_type: String,
        /// The partition.
        partition: u32,
    },
    /// A partition has other rows.
    #[error(
        "partition {partition} of {entity_type} is [{}, {}] in the checkpoint, but [{}, {}] in this run; use another \
         checkpoint_path, or the dataset and configuration it was trained with",
        stored[0], stored[1], expected[0], expected[1]
    )]
    Rows {
        /// The type.
        entity_type: String,
        /// The partition.
        partition: u32,
        /// Rows and columns in the checkpoint.
        stored: [u64; 2],
        /// Rows and columns of the run.
        expected: [u64; 2],
    },
    /// Features that are not the model's.
    #[error("features of {entity_type}: {source}")]
    Features {
        /// The type.
        entity_type: String,
        /// What is wrong.
        source: FeaturesError,
    },
    /// Parameters that are not the model's.
    #[error("the checkpoint does not fit the model: {0}")]
    Parameters(#[from] ParamError),
    /// A configuration that this version cannot read.
    #[error("{} was written by another version of pbg-host: {problems}", checkpoint.display())]
    Version {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What of it.
        problems: String,
    },
    /// The position in its manifest is none of this run.
    #[error("{}/manifest.json is damaged or of another run: {what}; {instead}", checkpoint.display())]
    Position {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// What does not fit.
        what: String,
        /// What to do.
        instead: String,
    },
    /// What its loss remembered is not what this one takes.
    #[error("{}: its loss does not fit: {reason}", checkpoint.display())]
    Loss {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The loss's words.
        reason: String,
    },
}

impl Mismatch {
    /// That the position in the manifest of a checkpoint is none of this run.
    pub(crate) fn position(checkpoint: impl Into<PathBuf>, what: impl ToString) -> Self {
        let checkpoint = checkpoint.into();
        Self::Position {
            instead: way_out(&checkpoint),
            what: what.to_string(),
            checkpoint,
        }
    }
}

fn joined(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "keys that this version does not know".to_owned();
    }
    let texts: Vec<String> = differences.iter().map(Difference::to_string).collect();
    texts.join(", ")
}
