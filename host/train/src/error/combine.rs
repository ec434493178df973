//! Models that cannot become one.

use std::path::PathBuf;

/// What keeps several models from becoming one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CombineError {
    /// Where the result would be is another one.
    #[error("there is a checkpoint in {} already; choose another folder with `--out`", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// A run that has kept fewer versions than are wanted.
    #[error(
        "{} keeps {kept} versions of ends of epochs, fewer than {wanted}; `checkpoint_preservation_interval` keeps one \
         every so many epochs",
        checkpoint.display()
    )]
    Kept {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Versions that there are.
        kept: usize,
        /// Versions that should become one.
        wanted: usize,
    },
    /// A checkpoint whose ids are not those of the dataset.
    #[error(
        "{} does not have the entities and relations of {}, as they are now: if the dataset has grown, train the model \
         on it once more, otherwise combine models of one dataset",
        checkpoint.display(), dataset.display()
    )]
    Dataset {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The dataset of the first one.
        dataset: PathBuf,
    },
    /// Scores of concatenated embeddings would not be the sums of scores.
    #[error(
        "these models cannot be concatenated: {what}; scores add up with `dot` and `squared_l2`, operators that work \
         element by element, and without `bias`"
    )]
    NotAdditive {
        /// Why not.
        what: String,
    },
}
