//! Entities and relations that occur in trained edges, and the edges of other sets with entities or relations that do
//! not.
//!
//! A model has never been trained on the latter, so their ranks say nothing about what it has learned.

use std::sync::atomic::{AtomicU64, Ordering};

use pbg_core::graph::{Bucket, EdgeColumns};
use serde::{Deserialize, Serialize};

use super::bits::AtomicBitSet;
use super::error::DescribeError;
use super::numbering::{EntityNumbering, NumberedEdge};
use super::reading::UNLIMITED;
use super::reading::{self, EdgeProgress, ReadingThreads};
use crate::{Dataset, EdgeSet};

/// Set of the entities and relations of the trained edges, one bit each.
#[derive(Debug)]
pub struct TrainedVocabulary {
    numbering: EntityNumbering,
    entities: AtomicBitSet,
    relations: AtomicBitSet,
    threads: ReadingThreads,
}

/// Entities and relations of an edge set that no trained edge has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnseenCounts {
    /// Number of edges with an entity or a relation that no trained edge has.
    pub edges: u64,
    /// Number of distinct such entities.
    pub entities: u64,
    /// Number of distinct such relations.
    pub relations: u64,
}

impl UnseenCounts {
    /// Returns whether every edge has only entities and relations of trained edges.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.edges == 0
    }
}

impl TrainedVocabulary {
    /// Returns the memory in bytes that [`TrainedVocabulary::of`] and a [`TrainedVocabulary::unseen`] after it take,
    /// besides the buffers for reading edges.
    #[must_use]
    pub fn bytes(dataset: &Dataset) -> u64 {
        let numbering = EntityNumbering::new(dataset);
        let relations = dataset.relations().len() as u64;
        2 * (AtomicBitSet::bytes(numbering.total()) + AtomicBitSet::bytes(relations))
            + feature_bytes(dataset)
    }

    /// Returns the size in bytes of the buffers for reading edges on `threads` threads.
    #[must_use]
    pub fn reading_bytes(dataset: &Dataset, threads: Option<usize>) -> u64 {
        ReadingThreads::new(threads, UNLIMITED).count() as u64 * reading::bytes_per_thread(dataset)
    }

    /// Reads those edge sets of `trained` that the dataset has.
    ///
    /// An entity of a featurized type counts as seen if one of its features occurs in an entity of a trained edge.
    ///
    /// # Errors
    /// When the edges cannot be read, or `step` stops the work.
    pub fn of(
        dataset: &Dataset,
        trained: &[String],
        threads: Option<usize>,
        step: &mut EdgeProgress<'_>,
    ) -> Result<Self, DescribeError> {
        let threads = ReadingThreads::new(threads, UNLIMITED);
        Self::with_threads(dataset, trained, threads, step)
    }

    pub(super) fn with_threads(
        dataset: &Dataset,
        trained: &[String],
        threads: ReadingThreads,
        step: &mut EdgeProgress<'_>,
    ) -> Result<Self, DescribeError> {
        let numbering = EntityNumbering::new(dataset);
        let seen = Self {
            entities: AtomicBitSet::new(numbering.total()),
            relations: AtomicBitSet::new(dataset.relations().len() as u64),
            numbering,
            threads,
        };
        for name in reading::present(dataset, trained) {
            seen.read(&dataset.edge_set(name)?, step)?;
        }
        for (index, (name, info)) in dataset.manifest().entities.iter().enumerate() {
            if info.featurized {
                seen.add_by_features(dataset, index, name)?;
            }
        }
        Ok(seen)
    }

    /// Adds the entities and relations of the edges of `set`.
    fn read(&self, set: &EdgeSet, step: &mut EdgeProgress<'_>) -> Result<(), DescribeError> {
        reading::for_each_part(set, self.threads, step, |bucket, edges| {
            for NumberedEdge { lhs, rel, rhs } in self.numbering.of_bucket(bucket).all(edges) {
                self.entities.add(lhs);
                self.relations.add(u64::from(rel));
                self.entities.add(rhs);
            }
        })
    }

    /// Adds the entities of a featurized type that share a feature with an entity of a trained edge.
    fn add_by_features(
        &self,
        dataset: &Dataset,
        index: usize,
        name: &str,
    ) -> Result<(), DescribeError> {
        let features = dataset.features(name)?;
        let trained = AtomicBitSet::new(features.names().len() as u64);
        let first = self.numbering.first(index);
        let of = |entity: u32| features.of(entity).iter().copied().map(u64::from);
        let all = 0..features.len() as u32;
        for entity in all.clone() {
            if self.entities.has(first + u64::from(entity)) {
                of(entity).for_each(|feature| trained.add(feature));
            }
        }
        for entity in all {
            if of(entity).any(|feature| trained.has(feature)) {
                self.entities.add(first + u64::from(entity));
            }
        }
        Ok(())
    }

    /// Returns whether both entities and the relation of an edge read from `bucket` occur in trained edges.
    #[must_use]
    pub fn has(&self, bucket: Bucket, edge: (u32, u32, u32)) -> bool {
        self.has_ends(self.numbering.ends(bucket, edge))
    }

    fn has_ends(&self, NumberedEdge { lhs, rel, rhs }: NumberedEdge) -> bool {
        self.entities.has(lhs) && self.entities.has(rhs) && self.relations.has(u64::from(rel))
    }

    /// Counts the entities and relations of `set` that the trained edges do not have.
    ///
    /// # Errors
    /// When the edges cannot be read, or `step` stops the work.
    pub fn unseen(
        &self,
        set: &EdgeSet,
        step: &mut EdgeProgress<'_>,
    ) -> Result<UnseenCounts, DescribeError> {
        let entities = AtomicBitSet::new(self.numbering.total());
        let relations = AtomicBitSet::new(self.numbering.relations());
        let count = AtomicU64::new(0);
        let add = |bucket, edges: &EdgeColumns| {
            let mut unseen = 0;
            for ends in self.numbering.of_bucket(bucket).all(edges) {
                if self.has_ends(ends) {
                    continue;
                }
                unseen += 1;
                for entity in [ends.lhs, ends.rhs] {
                    if !self.entities.has(entity) {
                        entities.add(entity);
                    }
                }
                if !self.relations.has(u64::from(ends.rel)) {
                    relations.add(u64::from(ends.rel));
                }
            }
            count.fetch_add(unseen, Ordering::Relaxed);
        };
        reading::for_each_part(set, self.threads, step, add)?;
        Ok(UnseenCounts {
            edges: count.into_inner(),
            entities: entities.len(),
            relations: relations.len(),
        })
    }
}

/// Returns the memory in bytes that the features of the largest featurized type take while they are processed.
fn feature_bytes(dataset: &Dataset) -> u64 {
    let manifest = dataset.manifest();
    let infos = manifest.entities.values();
    let features = infos.filter_map(|info| info.features.as_ref());
    let bytes = features.map(|features| manifest.feature_bytes(features));
    bytes.max().unwrap_or(0)
}
