//! Selects a model of a run: the last one, or the one with the highest validation MRR.

use std::path::{Path, PathBuf};

use pbg_checkpoint::find_best;

use crate::failure::{Failure, Result};
use crate::front::FrontEnd;
use crate::kind::FailureKind;

/// Returns the folder of the model to use of the run in `folder`: with `best`, the model with the highest validation
/// MRR; otherwise the last one, with a warning if it is another model.
///
/// # Errors
/// When the best model is requested and the run has not kept one.
pub(super) fn model_folder(folder: &Path, best: bool, front: &dyn FrontEnd) -> Result<PathBuf> {
    match (find_best(folder), best) {
        (Some(kept), true) => Ok(kept.path),
        (None, true) => {
            let text = format!("{} has kept no best model", folder.display());
            let help = "a run keeps the model with the highest validation MRR, in the folder `best`, if its \
                        configuration sets `validation.edges` and `validation.early_stop`; without `--best` the last model \
                        is used";
            Err(Failure::message(FailureKind::Checkpoint, text).help(help))
        }
        (Some(kept), false) if !kept.is_last && kept.last_version > 0 => {
            front.warn(&format_args!(
                "this is the last model of {}, version {}, and not the one with the highest validation MRR, version {} in {}; \
                 `--best` uses that one",
                folder.display(),
                kept.last_version,
                kept.version,
                kept.path.display()
            ));
            Ok(folder.to_owned())
        }
        _ => Ok(folder.to_owned()),
    }
}
