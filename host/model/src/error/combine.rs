//! Errors of combining several models.

use std::path::PathBuf;

/// Reason why several models cannot be combined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// The output folder already contains a checkpoint.
    #[error("{} already contains a checkpoint; choose another folder with `--out`", .0.display())]
    Occupied(PathBuf),
    /// A run preserved fewer versions than requested.
    #[error(
        "{} has {kept} preserved epochs, fewer than {wanted}; `checkpoint_preservation_interval` says how often an \
         epoch is preserved",
        checkpoint.display()
    )]
    Kept {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Number of preserved versions.
        kept: usize,
        /// Number of versions to combine.
        wanted: usize,
    },
    /// The ids of a checkpoint are not those of the dataset.
    #[error(
        "{} was not trained with the current entities and relations of {}: if the dataset has grown, train the model \
         on it once more, otherwise combine models of the same dataset",
        checkpoint.display(), dataset.display()
    )]
    Dataset {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Dataset of the first checkpoint.
        dataset: PathBuf,
    },
    /// The scores of concatenated embeddings would not be the sums of the models' scores.
    #[error(
        "these models cannot be concatenated: {0}; scores add up with `dot` and `squared_l2`, operators that are \
         matrices or work element by element, and without `bias`"
    )]
    NotAdditive(String),
}
