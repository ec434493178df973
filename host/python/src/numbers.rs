//! Creation of a checkpoint from the embeddings and parameters of another program.

use std::path::Path;

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{Checkpoint, PartitionData, TensorRef};
use pbg_core::model::Optimizer;
use pbg_model::{ResolvedConfig, RunError, commit};
use pbg_session::plugins;
use pbg_session::{Failure, FailureKind};
use pyo3::prelude::*;

use crate::config::Config;
use crate::errors::usage;
use crate::front::work;
use crate::model::manifest;
use crate::version::{Tensors, handed};

/// A checkpoint that has no version yet, and is filled with numbers from another program.
#[pyclass(frozen)]
pub(crate) struct Numbers {
    checkpoint: Checkpoint,
    run: RunInfo,
    resolved: ResolvedConfig,
}

/// A tensor from Python: name, shape and bytes of `float32`.
type Given = (String, Vec<usize>, Vec<u8>);

#[pymethods]
impl Numbers {
    #[new]
    fn new(py: Python<'_>, config: &Config) -> PyResult<Self> {
        work(py, |front| {
            let config = &config.config;
            let own = plugins::StrategyOverrides::default();
            let filled = plugins::fill(config, own, None, None, front)?;
            let resolved = ResolvedConfig::new(config.clone())?;
            let run = commit::beginning(&resolved, filled.strategies.ids())?;
            let folder = Path::new(&config.checkpoint_path);
            let checkpoint = Checkpoint::open_or_create(folder).map_err(RunError::from)?;
            if checkpoint.run().is_some() {
                let text = format!("{} already contains a checkpoint", folder.display());
                let help = "choose another checkpoint_path";
                return Err(Failure::message(FailureKind::Checkpoint, text).help(help));
            }
            Ok(Self {
                checkpoint,
                run,
                resolved,
            })
        })
    }

    /// Returns the dataset's folder and manifest, as JSON.
    fn manifest(&self, py: Python<'_>) -> PyResult<String> {
        work(py, |_| manifest(&self.resolved))
    }

    /// Returns the parameters that have to be written, with their initial values: name, shape and bytes of `float32`.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Tensors<'py>> {
        let parameters = work(py, |_| Ok(self.resolved.first_parameters()?))?;
        Ok(handed(py, parameters))
    }

    /// Writes a partition: embeddings of `dim` numbers, and an accumulator for each.
    fn write_partition(
        &self,
        py: Python<'_>,
        entity_type: &str,
        partition: u32,
        dim: usize,
        embeddings: &[u8],
        row_adagrad: &[u8],
    ) -> PyResult<()> {
        work(py, |_| {
            let (rows, sums) = (floats(embeddings), floats(row_adagrad));
            if rows.len() != dim * sums.len() {
                return Err(usage("a partition must have as many accumulators as rows"));
            }
            let data = PartitionData {
                rows: sums.len(),
                dim,
                embeddings: rows,
                optimizer: Optimizer::RowAdagrad,
                state: sums,
            };
            let written = self.resolved.write_imported_partition(
                &self.checkpoint,
                (entity_type, partition),
                data,
            );
            Ok(written?)
        })
    }

    /// Writes all parameters.
    fn write_parameters(&self, py: Python<'_>, tensors: Vec<Given>) -> PyResult<()> {
        work(py, |_| {
            let values: Vec<_> = tensors.iter().map(|(_, _, bytes)| floats(bytes)).collect();
            let tensors = tensors.iter().zip(&values);
            let tensors = tensors.map(|((name, shape, _), values)| TensorRef {
                name,
                shape,
                values,
            });
            let written = self.checkpoint.write_model(&tensors.collect::<Vec<_>>());
            Ok(written.map_err(RunError::from)?)
        })
    }

    /// Commits the first version, and returns its number.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        work(py, |_| {
            let version = self.checkpoint.commit(self.run.clone());
            Ok(version.map_err(RunError::from)?)
        })
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let chunks = bytes.as_chunks().0.iter();
    chunks.map(|chunk| f32::from_le_bytes(*chunk)).collect()
}
