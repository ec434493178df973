//! Description of a dataset.

use std::path::Path;

use pbg_dataset::Dataset;
use pbg_dataset::describe::DescribeOptions;
use pbg_model::RunError;
use pyo3::prelude::*;

use crate::config::{Config, json};
use crate::front::interruptible;

/// Describes the dataset of a configuration, as JSON. A signal ends it.
#[pyfunction]
pub(crate) fn describe(
    py: Python<'_>,
    config: &Config,
    memory: Option<u64>,
    threads: Option<usize>,
) -> PyResult<String> {
    let config = &config.config;
    interruptible(py, |ask| {
        let dataset = Dataset::open(Path::new(&config.dataset)).map_err(RunError::from)?;
        let options = DescribeOptions {
            trained: config.edge_sets.clone(),
            threads,
            memory: memory.or_else(pbg_model::memory::default_name_bytes),
        };
        let description = dataset.describe(&options, &mut |_| ask(&|_| Ok(())));
        json(&description.map_err(RunError::from)?)
    })
}
