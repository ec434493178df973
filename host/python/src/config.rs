//! Configurations.

use std::path::PathBuf;

use pbg_core::model::Precision;
use pbg_core::nearest::nearest;
use pbg_session::load::{self, overrides};
use pbg_session::{Failure, FailureKind, Result};
use pyo3::prelude::*;

use crate::errors::usage;
use crate::front::work;

/// A configuration that was read and checked; its paths are relative to the working folder.
#[pyclass(frozen)]
pub(crate) struct Config {
    pub(crate) config: pbg_config::Config,
}

/// Keys and values as JSON.
pub(crate) fn changes(json: &str) -> Result<Vec<(String, String)>> {
    overrides(&serde_json::from_str(json).map_err(usage)?)
}

#[pymethods]
impl Config {
    /// From a file or the folder of a checkpoint, changed by `values`; from `values` alone, or the file of the working
    /// folder, where no path is given.
    #[staticmethod]
    fn read(py: Python<'_>, path: Option<PathBuf>, values: &str, alone: bool) -> PyResult<Self> {
        let config = work(py, |front| match alone {
            true => load::of_values(&changes(values)?, front),
            false => load::config(path.as_deref(), &changes(values)?, front),
        })?;
        Ok(Self { config })
    }

    /// As `read`, of a model that was trained: what is left open is as it was trained. With `best` it is the model that
    /// validation found best.
    #[staticmethod]
    fn trained(
        py: Python<'_>,
        path: Option<PathBuf>,
        checkpoint: Option<PathBuf>,
        best: bool,
        values: &str,
        alone: bool,
    ) -> PyResult<Self> {
        let asked = work(py, |front| {
            let (path, checkpoint) = (path.as_deref(), checkpoint.as_deref());
            match alone && checkpoint.is_none() {
                true => load::trained_of_values(best, &changes(values)?, front),
                false => load::trained(path, checkpoint, best, &changes(values)?, front),
            }
        })?;
        // Python opens the version that is current when the model is asked.
        let config = asked.config;
        Ok(Self { config })
    }

    /// From what `to_toml` gave.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: &str) -> PyResult<Self> {
        let config = work(py, |_| {
            Ok(pbg_config::Config::parse(text, "configuration", &[])?)
        })?;
        Ok(Self { config })
    }

    /// One of a well-known model, as text.
    #[staticmethod]
    fn preset(py: Python<'_>, name: &str) -> PyResult<&'static str> {
        work(py, |_| match pbg_config::Preset::named(name) {
            Some(preset) => Ok(preset.text()),
            None => Err(no_preset(name)),
        })
    }

    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        work(py, |_| {
            self.config
                .to_toml()
                .map_err(|e| Failure::new(FailureKind::Internal, e))
        })
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        work(py, |_| json(&self.config))
    }

    /// Whether it asks for what libtorch computes.
    #[getter]
    fn needs_libtorch(&self) -> bool {
        let execution = &self.config.execution;
        execution.precision == Precision::Bf16 || execution.device != "cpu"
    }
}

/// That there is no preset of this name, and which there are.
fn no_preset(name: &str) -> Failure {
    let known = pbg_config::Preset::ALL.map(pbg_config::Preset::name);
    let lower = name.to_lowercase();
    let meant = match nearest(&lower, known.into_iter()) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    let text = format!("there is no preset {name:?}");
    let help = format!("{meant}there are {}", known.join(", "));
    Failure::message(FailureKind::Usage, text).help(help)
}

/// A value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Failure::new(FailureKind::Internal, error))
}
