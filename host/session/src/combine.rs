//! Combining several models, for the program and the Python package.

use std::path::{Path, PathBuf};

use pbg_model::ResolvedConfig;
use pbg_query::{Combination, last_versions};

use crate::failure::{Failure, Result};
use crate::front::FrontEnd;
use crate::kind::FailureKind;

/// Returns the folders of the checkpoints to combine: `folders`, or with `last` the last preserved versions of the run
/// in the only folder.
///
/// # Errors
/// When there is only one model, or the run has preserved fewer versions.
pub fn models(folders: Vec<PathBuf>, last: Option<u32>) -> Result<Vec<PathBuf>> {
    let usage = |text| Err(Failure::message(FailureKind::Usage, text));
    match (last, &folders[..]) {
        (Some(last), [run]) => Ok(last_versions(run, last as usize)?),
        (Some(_), _) => usage("`last` counts versions of one run, so name only one run"),
        (None, [] | [_]) => usage(
            "there is only one model: name several, or name one run and set `last` to the number of its versions to combine",
        ),
        (None, _) => Ok(folders),
    }
}

/// Combines `models` into a checkpoint in folder `out`. `progress` receives the number of partitions read and their
/// total.
///
/// # Errors
/// As for [`pbg_query::combine`].
pub fn combine(
    combination: Combination,
    models: &[PathBuf],
    out: &Path,
    front: &dyn FrontEnd,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<ResolvedConfig> {
    let combined = pbg_query::combine(combination, models, out, progress)?;
    if combination == Combination::Average && combined.other_seeds {
        front.warn(
            &"these models began with different seeds, so the same element means something else in each, and their \
              mean is meaningless; combine them with `concatenate`",
        );
    }
    Ok(combined.resolved)
}
