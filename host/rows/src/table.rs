//! The embeddings of an entity type in one partition, with the state of their optimizer.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::Optimizer;

use crate::shared_rows::SharedRows;
use crate::vector;

/// The rows of one partition of an entity type, shared by all Hogwild workers.
#[derive(Debug)]
pub struct Table {
    /// Embeddings, `[n, dimension]`. The rows of a featurized type belong to its features.
    pub embeddings: SharedRows,
    /// Optimizer of the embeddings.
    pub optimizer: Optimizer,
    /// State of the optimizer: accumulated squared gradients, `[n, 1]` with row-Adagrad and `[n, dimension]` with
    /// Adagrad; with Adam `[n, 2 dimension + 1]`, in each row the moving averages of the gradient, then those of its
    /// square, then the number of updates.
    pub state: SharedRows,
    /// Features of each entity, for a featurized type.
    pub features: Option<FeatureBags>,
    /// Whether training leaves the rows as they are.
    pub frozen: bool,
    /// The rows on a device, if they are trained there.
    pub resident: Option<Box<dyn ResidentRows>>,
}

impl Table {
    /// Creates a table of embeddings for row-Adagrad, whose accumulators are zero.
    ///
    /// # Panics
    /// If `embeddings` is not a whole number of rows.
    #[must_use]
    pub fn new(embeddings: Vec<f32>, dimension: usize) -> Self {
        let state = vec![0.0; embeddings.len() / dimension];
        Self::with_optimizer(embeddings, (Optimizer::RowAdagrad, state), dimension)
    }

    /// Creates a table of embeddings with an optimizer and its state.
    ///
    /// # Panics
    /// If the two do not have the same number of rows.
    #[must_use]
    pub fn with_optimizer(
        embeddings: Vec<f32>,
        (optimizer, state): (Optimizer, Vec<f32>),
        dimension: usize,
    ) -> Self {
        let embeddings = SharedRows::from_vec(embeddings, dimension);
        let state = SharedRows::from_vec(state, optimizer.state_width(dimension));
        assert_eq!(
            embeddings.rows(),
            state.rows(),
            "optimizer state of every row"
        );
        Self {
            embeddings,
            optimizer,
            state,
            features: None,
            frozen: false,
            resident: None,
        }
    }

    /// Rounds the embeddings of consecutive rows to the values that `storage = "bf16"` stores. No worker may train the
    /// rows meanwhile.
    ///
    /// # Panics
    /// If the rows do not exist.
    pub fn round(&self, rows: Range<usize>, rounding: StochasticRounding) {
        let mut values = vec![0.0; self.embeddings.width()];
        for row in rows {
            self.embeddings.read_row(row, &mut values);
            if rounding.round(row, &mut values) {
                self.embeddings.write_row(row, &values);
            }
        }
    }

    /// Copies the rows from the device to main memory, if the table is resident on one.
    ///
    /// # Errors
    /// When the device fails.
    pub fn download(&self) -> Result<(), TransferError> {
        match &self.resident {
            Some(resident) => resident.download(self),
            None => Ok(()),
        }
    }

    /// Returns the embeddings of the entities `offsets`, `[n, dimension]`: rows of the table, or for a featurized type
    /// the means of its features' rows, each of which is first scaled down to the length `max_norm`, as in training.
    #[must_use]
    pub fn gather(&self, offsets: &[u32], max_norm: Option<f32>) -> Vec<f32> {
        let width = self.embeddings.width();
        let mut rows = vec![0.0; offsets.len() * width];
        let mut scratch = Vec::new();
        let look_up = LookUp {
            max_norm,
            in_place: false,
        };
        for (&offset, out) in offsets.iter().zip(rows.chunks_exact_mut(width)) {
            match self.features {
                // The caller scales plain rows when it compares them.
                None => self.embeddings.read_row(offset as usize, out),
                Some(_) => look_up.row(self, offset, out, &mut scratch),
            }
        }
        rows
    }

    /// Returns the number of entities: rows, or for a featurized type bags of features.
    #[inline]
    #[must_use]
    pub fn entities(&self) -> usize {
        self.features
            .as_ref()
            .map_or(self.embeddings.rows(), FeatureBags::entities)
    }
}

/// The rows of a table on a device. While they are there, they are the valid ones: main memory holds the rows as they
/// were at the last transfer in either direction.
pub trait ResidentRows: fmt::Debug + Send + Sync + Any {
    /// Copies the rows from the device to `table`, to which they belong.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&self, table: &Table) -> Result<(), TransferError>;
}

/// Reason why rows were not copied from a device to main memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// libtorch failed.
    #[error("libtorch: {0}")]
    Tensor(String),
    /// The device has too little memory.
    #[error("{0}")]
    Memory(String),
}

/// Rules for looking up embeddings.
#[derive(Clone, Copy, Debug)]
pub struct LookUp {
    /// Greatest length of a row; a longer one is scaled down to it.
    pub max_norm: Option<f32>,
    /// Whether rows are scaled down in the table too, unless it is frozen: so in training, as in PBG.
    pub in_place: bool,
}

impl LookUp {
    /// Looks up the embedding of one entity of `table`.
    #[inline]
    pub fn row(self, table: &Table, entity: u32, out: &mut [f32], scratch: &mut Vec<f32>) {
        let Some(features) = &table.features else {
            return self.read(table, entity as usize, out);
        };
        out.fill(0.0);
        let ids = features.of(entity);
        scratch.resize(out.len(), 0.0);
        for &id in ids {
            self.read(table, id as usize, scratch);
            vector::axpy(out, 1.0 / ids.len() as f32, scratch);
        }
    }

    #[inline]
    fn read(self, table: &Table, row: usize, out: &mut [f32]) {
        table.embeddings.read_row(row, out);
        if let Some(max) = self.max_norm {
            let norm = vector::dot(out, out).sqrt();
            if norm > max {
                // The same formula as torch's, so that rounding does not leave the row slightly too long.
                vector::scale(out, max / (norm + 1e-7));
                if self.in_place && !table.frozen {
                    table.embeddings.write_row(row, out);
                }
            }
        }
    }
}

/// The features of each entity of a featurized type (compressed sparse rows). Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureBags {
    offsets: Arc<[u64]>,
    ids: Arc<[u32]>,
}

impl FeatureBags {
    /// Creates the features `ids[offsets[e]..offsets[e + 1]]` of each entity `e`.
    ///
    /// # Errors
    /// When the offsets do not ascend from 0 to the number of ids, or an id is not below `rows`.
    pub fn new(offsets: Vec<u64>, ids: Vec<u32>, rows: usize) -> Result<Self, FeatureBagsError> {
        let ends = offsets.first() == Some(&0) && offsets.last() == Some(&(ids.len() as u64));
        if !ends || !offsets.is_sorted() {
            return Err(FeatureBagsError::Offsets { ids: ids.len() });
        }
        if let Some(&id) = ids.iter().find(|&&id| id as usize >= rows) {
            return Err(FeatureBagsError::Id { id, rows });
        }
        Ok(Self {
            offsets: offsets.into(),
            ids: ids.into(),
        })
    }

    /// Returns the number of entities.
    #[inline]
    #[must_use]
    pub fn entities(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns the features of entity `entity`.
    ///
    /// # Panics
    /// If the entity does not exist.
    #[inline]
    #[must_use]
    pub fn of(&self, entity: u32) -> &[u32] {
        let entity = entity as usize;
        &self.ids[self.offsets[entity] as usize..self.offsets[entity + 1] as usize]
    }
}

/// Reason why offsets and ids do not describe the features of entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureBagsError {
    /// The offsets do not divide the ids.
    #[error("feature offsets must ascend from 0 to the number of feature ids, {ids}")]
    Offsets {
        /// Number of ids.
        ids: usize,
    },
    /// A feature id that does not exist.
    #[error("feature id {id} is out of range: the type has {rows} features")]
    Id {
        /// The id.
        id: u32,
        /// Features of the type.
        rows: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_checked() {
        let good = FeatureBags::new(vec![0, 2, 2, 3], vec![4, 0, 1], 5);
        assert_eq!(
            good.as_ref()
                .map(|f| (f.entities(), f.of(0).to_vec(), f.of(1).len())),
            Ok((3, vec![4, 0], 0))
        );
        let offsets = FeatureBagsError::Offsets { ids: 1 };
        assert_eq!(FeatureBags::new(vec![0, 2], vec![4], 5), Err(offsets));
        assert_eq!(FeatureBags::new(vec![], vec![4], 5), Err(offsets));
        assert_eq!(
            FeatureBags::new(vec![0, 1], vec![5], 5),
            Err(FeatureBagsError::Id { id: 5, rows: 5 })
        );
    }
}
