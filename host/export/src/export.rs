//! Access of an export to the checkpoint, its names and the target folder.

use std::fs;
use std::path::{Path, PathBuf};

use pbg_checkpoint::{PartitionData, ReadCheckpoint, Tensor};
use pbg_dataset::manifest::EntityType;
use pbg_dataset::{Dataset, IdSpace};

use super::{ExportError, ExportOptions};

/// Export in progress.
pub(super) struct Export<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) checkpoint: &'a ReadCheckpoint,
    /// Ids of the checkpoint's rows, if the dataset has more rows.
    pub(super) earlier: Option<&'a IdSpace>,
    pub(super) out: &'a Path,
    pub(super) options: &'a ExportOptions,
    /// Parameters of the model, including optimizer accumulators.
    pub(super) model: Vec<Tensor>,
}

impl Export<'_> {
    /// Writes the file `name` with `write`, which must create it only when it is complete.
    pub(super) fn write(
        &self,
        name: &str,
        write: impl FnOnce(&Path) -> Result<(), ExportError>,
    ) -> Result<PathBuf, ExportError> {
        let path = self.out.join(name);
        if fs::symlink_metadata(&path).is_ok() && !self.options.overwrite {
            return Err(ExportError::Exists(path));
        }
        write(&path)?;
        Ok(path)
    }

    /// Returns the number of rows of a partition that the checkpoint has.
    pub(super) fn rows(&self, entity_type: &str, info: &EntityType, partition: u32) -> usize {
        let earlier = self.earlier.and_then(|ids| ids.rows.get(entity_type));
        let all = info.table_rows(partition);
        earlier.map_or(all, |names| names.count(partition)) as usize
    }

    /// Calls `with` for the names of a type's rows that the checkpoint has, in global order, until it returns an error.
    pub(super) fn visit_names(
        &self,
        entity_type: &str,
        info: &EntityType,
        with: &mut dyn FnMut(u32, &str) -> Result<(), ExportError>,
    ) -> Result<(), ExportError> {
        let mut result = Ok(());
        let mut visit = |partition: u32, offset: u32, name: &str| {
            if result.is_ok() && (offset as usize) < self.rows(entity_type, info, partition) {
                result = with(partition, name);
            }
        };
        self.dataset.visit_rows(entity_type, &mut visit)?;
        result
    }

    /// Returns the global embedding of a type, if it has one.
    fn global(&self, entity_type: &str, dim: usize) -> Result<Option<&[f32]>, ExportError> {
        let name = format!("entities/{entity_type}/global_embedding");
        let Some(global) = self.model.iter().find(|tensor| tensor.name == name) else {
            return Ok(None);
        };
        let count = global.values.len();
        if count != dim {
            let what = format!("`{name}` has {count} numbers, but rows have {dim}");
            return Err(self.mismatch(what));
        }
        Ok(Some(&global.values))
    }

    /// Reads a partition and adds the global embedding. `reuse` is the previous partition, whose memory is reused and
    /// whose dimension must be the same.
    pub(super) fn partition(
        &self,
        entity_type: &str,
        info: &EntityType,
        partition: u32,
        reuse: Option<PartitionData>,
    ) -> Result<PartitionData, ExportError> {
        let dim = reuse.as_ref().map(|data| data.dim);
        let mut data = reuse.unwrap_or_default();
        if !self
            .checkpoint
            .read_partition_into(entity_type, partition, &mut data)?
        {
            let what = format!("it does not have partition {partition} of `{entity_type}`");
            return Err(self.mismatch(what));
        }
        let rows = self.rows(entity_type, info, partition);
        if data.rows != rows || dim.is_some_and(|dim| dim != data.dim) || data.dim == 0 {
            let what = format!(
                "partition {partition} of `{entity_type}` has the shape [{}, {}] instead of [{rows}, {}]",
                data.rows,
                data.dim,
                dim.unwrap_or(data.dim)
            );
            return Err(self.mismatch(what));
        }
        if let Some(global) = self.global(entity_type, data.dim)? {
            for row in data.embeddings.chunks_exact_mut(data.dim) {
                let terms = row.iter_mut().zip(global);
                terms.for_each(|(value, term)| *value += term);
            }
        }
        Ok(data)
    }

    pub(super) fn mismatch(&self, what: String) -> ExportError {
        ExportError::Mismatch {
            path: self.checkpoint.path().to_owned(),
            what,
        }
    }
}
