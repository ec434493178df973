//! One model of several.

use std::path::PathBuf;

use pbg_session::{Failure, FailureKind};
use pbg_train::{Combination, last_versions};
use pyo3::prelude::*;

use crate::front::work;

/// Makes the checkpoint `out` of `checkpoints`, or of the `last` versions that the only one of them has kept.
#[pyfunction]
pub(crate) fn combine(
    py: Python<'_>,
    average: bool,
    mut checkpoints: Vec<PathBuf>,
    last: Option<u32>,
    out: PathBuf,
) -> PyResult<()> {
    work(py, |_| {
        if let (Some(last), [run]) = (last, &checkpoints[..]) {
            checkpoints = last_versions(run, last as usize)?;
        }
        if checkpoints.len() < 2 {
            let text = "one model stays as it is: name several, or last=N versions of a run";
            return Err(Failure::message(FailureKind::Usage, text));
        }
        let combination = match average {
            true => Combination::Average,
            false => Combination::Concatenate,
        };
        pbg_train::combine(combination, &checkpoints, &out, &mut |_, _| {})?;
        Ok(())
    })
}
