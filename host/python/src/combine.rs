//! Combination of several models into one.

use std::path::PathBuf;

use pbg_query::Combination;
use pbg_session::combine as models_as_one;
use pyo3::prelude::*;

use crate::front::work;

/// Combines `checkpoints` into the checkpoint `out`; or, if there is only one of them, the `last` versions that it has
/// preserved.
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
