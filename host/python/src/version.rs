//! One version of a trained model, held open: its parameters, and the places of its embeddings.

use std::collections::BTreeSet;

use pbg_checkpoint::{ReadCheckpoint, Tensor};
use pbg_core::model::EmbeddingFormat;
use pbg_model::RunError;
use pbg_session::{Failure, FailureKind};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::front::work;

/// A version of a checkpoint. Its files are not removed while it lives.
#[pyclass(frozen)]
pub(crate) struct Version {
    pub(crate) checkpoint: ReadCheckpoint,
    /// Entity types of the dataset.
    pub(crate) types: BTreeSet<String>,
}

/// Place of a partition's numbers: file, number of rows, dimension; whether embeddings are bfloat16, and their offset
/// in bytes; the offset of the accumulators in bytes, and their number per row.
type Place = (String, usize, usize, (bool, u64), (u64, usize));

#[pymethods]
impl Version {
    /// Returns the places of an entity type's partitions. Partitions without embeddings are omitted.
    fn places(&self, py: Python<'_>, entity_type: &str) -> PyResult<Vec<Place>> {
        work(py, |_| {
            if !self.types.contains(entity_type) {
                let what = format!("there is no entity type {entity_type:?}");
                return Err(Failure::message(FailureKind::Data, what));
            }
            let partitions = self.checkpoint.manifest().partitions();
            let of_type = partitions.iter().filter(|(name, _)| name == entity_type);
            let mut places = Vec::new();
            for (_, partition) in of_type {
                let place = self.checkpoint.embedding_location(entity_type, *partition);
                let place = place.map_err(RunError::from)?;
                places.extend(place.map(|place| {
                    let path = place.path.display().to_string();
                    let embeddings = (place.storage == EmbeddingFormat::Bf16, place.embeddings);
                    let width = place.optimizer.state_width(place.dim);
                    let adagrad = (place.state, width);
                    (path, place.rows, place.dim, embeddings, adagrad)
                }));
            }
            Ok(places)
        })
    }

    /// Returns the parameters of operators and global embeddings: name, shape and bytes of `float32`.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Tensors<'py>> {
        let model = work(py, |_| {
            Ok(self.checkpoint.model().map_err(RunError::from)?)
        })?;
        Ok(handed(py, model))
    }
}

/// Names, shapes and bytes of `float32`.
pub(crate) type Tensors<'py> = Vec<(String, Vec<usize>, Bound<'py, PyBytes>)>;

/// Converts tensors for Python.
pub(crate) fn handed(py: Python<'_>, tensors: Vec<Tensor>) -> Tensors<'_> {
    let bytes = |values: &[f32]| -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    };
    let tensors = tensors.into_iter();
    let handed = tensors.map(|t| (t.name, t.shape, PyBytes::new(py, &bytes(&t.values))));
    handed.collect()
}
