//! One model of several.

use std::path::PathBuf;

use pbg_session::combine as models_as_one;
use pbg_train::Combination;
use pyo3::prelude::*;

use crate::front::work;

/// Makes the checkpoint `out` of `checkpoints`, or of the `last` versions that the only one of them has kept.
#[pyfunction]
pub(crate) fn combine(
    py: Python<'_>,
    average: bool,
    checkpoints: Vec<PathBuf>,
    last: Option<u32>,
    out: PathBuf,
) -> PyResult<()> {
    let combination = match average {
        true => Combination::Average,
        false => Combination::Concatenate,
    };
    work(py, |front| {
        let models = models_as_one::models(checkpoints, last)?;
        models_as_one::combine(combination, &models, &out, front, &mut |_, _| {})?;
        Ok(())
    })
}
