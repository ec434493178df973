//! Configurations.

use std::path::PathBuf;

use pbg_core::model::Precision;
use pbg_core::nearest::nearest;
use pbg_session::load::{self, overrides};
use pbg_session::{Failure, FailureKind, Result, plugins};
use pyo3::prelude::*;

use crate::errors::usage;
use crate::front::work;

/// A configuration that was read and checked. Its paths are relative to the working folder.
#[pyclass(frozen)]
pub(crate) struct Config {
    pub(crate) config: pbg_config::Config,
}

/// Reads keys and values from JSON.
pub(crate) fn changes(json: &str) -> Result<Vec<(String, String)>> {
    overrides(&serde_json::from_str(json).map_err(usage)?)
}

#[pymethods]
impl Config {
    /// Reads a configuration from a file or the folder of a checkpoint, changed by `values`. Without a path it consists
    /// of `values`, if `alone`, or of the file in the working folder changed by them. If plugins are `given`, which may
    /// replace formulas, the run checks that parameters have an effect, once they are replaced.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        path: Option<PathBuf>,
        values: &str,
        alone: bool,
        given: bool,
    ) -> PyResult<Self> {
        let config = work(py, |front| {
            let (path, values) = (path.as_deref(), changes(values)?);
            let mut config = match (alone, given) {
                (true, false) => return load::of_values(&values, front),
                (false, false) => return load::config(path, &values, front),
                (true, true) => load::of_values_without_formulas(&values, front)?,
                (false, true) => load::without_formulas(path, &values, front)?,
            };
            plugins::load_formulas(&mut config, front)?;
            Ok(config)
        })?;
        Ok(Self { config })
    }

    /// Reads the configuration of a trained model: values that are not set are those of its training. With `best` it is
    /// the model with the best validation.
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
        // The version that is current when the model is asked is opened, not this one.
        let config = asked.config;
        Ok(Self { config })
    }

    /// Reads the output of `to_toml`.
    #[staticmethod]
    fn from_toml(py: Python<'_>, text: &str) -> PyResult<Self> {
        let config = work(py, |_| {
            Ok(pbg_config::Config::parse(text, "configuration", &[])?)
        })?;
        Ok(Self { config })
    }

    /// Returns the text of a preset.
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

    /// Whether the configuration needs libtorch.
    #[getter]
    fn needs_libtorch(&self) -> bool {
        let execution = &self.config.execution;
        execution.precision == Precision::Bf16 || execution.device != "cpu"
    }
}

/// Returns the error for an unknown preset, with the names of the known ones.
fn no_preset(name: &str) -> Failure {
    let known = pbg_config::Preset::ALL.map(pbg_config::Preset::name);
    let lower = name.to_lowercase();
    let meant = match nearest(&lower, known.into_iter()) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    let text = format!("unknown preset {name:?}");
    let help = format!("{meant}the presets are {}", known.join(", "));
    Failure::message(FailureKind::Usage, text).help(help)
}

/// Writes a value as JSON.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Failure::new(FailureKind::Internal, error))
}
