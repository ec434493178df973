//! Reports of runs.

use std::path::PathBuf;

use pbg_report::{pages, trace};
use pbg_session::stored_run::StoredRun;
use pbg_session::{Failure, FailureKind};
use pyo3::prelude::*;

use crate::config::json;
use crate::front::{Listener, work};

/// Returns the report of the run in a checkpoint's folder as JSON, its page if `html`, and its trace if `spans`.
#[pyfunction]
pub(crate) fn report(
    py: Python<'_>,
    checkpoint: PathBuf,
    html: bool,
    spans: bool,
) -> PyResult<(String, Option<String>, Option<String>)> {
    work(py, |listener: &Listener| {
        let run = StoredRun::read(&checkpoint, None, listener)?;
        let page = html.then(|| {
            pages::run::page(&run.report, run.first_pass.as_ref(), &Default::default())
                .map_err(|error| Failure::message(FailureKind::Internal, error))
        });
        let spans = spans.then(|| json(&trace::trace(&run.report)));
        Ok((json(&run.report)?, page.transpose()?, spans.transpose()?))
    })
}
