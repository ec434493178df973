//! Description of a dataset.

use std::ops::ControlFlow;
use std::path::Path;

use pbg_dataset::Dataset;
use pbg_dataset::describe::DescribeOptions;
use pbg_model::RunError;
use pbg_session::Failure;
use pyo3::prelude::*;

use crate::config::{Config, json};
use crate::errors::raised;

/// Describes the dataset of a configuration, as JSON. A signal ends it.
#[pyfunction]
pub(crate) fn describe(
    py: Python<'_>,
    config: &Config,
    memory: Option<u64>,
    threads: Option<usize>,
) -> PyResult<String> {
    let config = &config.config;
    let mut raised_there = None;
    let described = py.detach(|| {
        let dataset = Dataset::open(Path::new(&config.dataset)).map_err(RunError::from)?;
        let options = DescribeOptions {
            trained: config.edge_sets.clone(),
            threads,
            memory: memory.or_else(pbg_model::memory::default_name_bytes),
        };
        let mut step = |_| match Python::attach(|py| py.check_signals()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                raised_there = Some(error);
                ControlFlow::Break(())
            }
        };
        let description = dataset.describe(&options, &mut step);
        json(&description.map_err(RunError::from)?)
    });
    match raised_there {
        Some(error) => Err(error),
        None => described.map_err(|failure: Failure| raised(py, failure)),
    }
}
