//! One model of several, as the program and the Python package are asked for it.

use std::path::{Path, PathBuf};

use pbg_train::{Combination, Resolved, last_versions};

use crate::failure::{Failure, Result};
use crate::front::Front;
use crate::kind::FailureKind;

/// The checkpoints that are meant: those in `folders`, or with `last` as many versions that the run in the only one of them
/// has kept.
///
/// # Errors
/// When there is only one, or the run has not kept as many.
pub fn models(folders: Vec<PathBuf>, last: Option<u32>) -> Result<Vec<PathBuf>> {
    let usage = |text| Err(Failure::message(FailureKind::Usage, text));
    match (last, &folders[..]) {
        (Some(last), [run]) => Ok(last_versions(run, last as usize)?),
        (Some(_), _) => usage("`last` counts versions of one run, and needs its folder alone"),
        (None, [] | [_]) => usage(
            "one model stays as it is: name several, or with `last` how many versions of a run",
        ),
        (None, _) => Ok(folders),
    }
}

/// Makes the checkpoint in folder `out` of `models`; `progress` hears how many partitions of how many were read.
///
/// # Errors
/// As [`pbg_train::combine`].
pub fn combine(
    combination: Combination,
    models: &[PathBuf],
    out: &Path,
    front: &dyn Front,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Resolved> {
    let combined = pbg_train::combine(combination, models, out, progress)?;
    if combination == Combination::Average && combined.other_seeds {
        front.warn(
            &"these models began with different seeds, so the same number means something else in each, and their mean \
              nothing; `concatenate` is for them",
        );
    }
    Ok(combined.resolved)
}
