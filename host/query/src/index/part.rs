//! One partition of an index, with access to single rows and links.

use pbg_checkpoint::EmbeddingRows;
use pbg_checkpoint::index::{GraphFile, Recall};
use pbg_index::{GraphSearcher, Space};
use pbg_kernels::rank::{CandidateBlock, PreparedQueries, Ranker, ReplacedSide};
use pbg_model::error::{CheckpointMismatch, RunError};
use pbg_rows::table::{FeatureBags, Table};
/// Purpose of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkKind {
    /// Neighbours of an entity.
    Neighbors,
    /// Entities that complete an edge.
    Predictions,
}

impl WalkKind {
    /// Returns the measured recall for this purpose.
    pub(super) const fn of(self, recall: &Recall) -> Option<f64> {
        match self {
            Self::Neighbors => recall.neighbors,
            Self::Predictions => recall.predictions,
        }
    }
}

/// Partition of an index.
pub(crate) struct IndexPartition<'t> {
    graph: GraphFile,
    /// Checksums of the rows.
    sums: Vec<u32>,
    rows: EmbeddingRows<'t>,
    features: Option<&'t FeatureBags>,
    /// All rows, if they are in memory.
    table: Option<&'t Table>,
}

impl<'t> IndexPartition<'t> {
    pub(super) fn new(
        graph: GraphFile,
        rows: EmbeddingRows<'t>,
        features: Option<&'t FeatureBags>,
    ) -> Result<Self, RunError> {
        let sums = graph.sums()?;
        Ok(Self {
            graph,
            sums,
            rows,
            features,
            table: None,
        })
    }

    /// Returns the same partition with all of its rows in memory.
    pub(crate) fn in_memory<'s>(self, table: &'s Table) -> IndexPartition<'s>
    where
        't: 's,
    {
        IndexPartition {
            table: Some(table),
            ..self
        }
    }

    /// Returns the number of entities.
    pub(crate) fn points(&self) -> u32 {
        self.graph.info().points
    }

    /// Gathers embeddings as [`Table::gather`] does. Reads only these rows, or none if the rows are in memory.
    ///
    /// # Errors
    /// When the rows cannot be read or are damaged.
    pub(crate) fn gather(
        &self,
        offsets: &[u32],
        max_norm: Option<f32>,
        bytes: &mut Vec<u8>,
    ) -> Result<Vec<f32>, RunError> {
        if let Some(table) = self.table {
            return Ok(table.gather(offsets, max_norm));
        }
        let dimension = self.rows.place().dim;
        let Some(features) = self.features else {
            return self.read(offsets.iter().copied(), dimension, bytes);
        };
        let bags = offsets.iter().map(|&offset| features.of(offset));
        let numbers = self.read(bags.clone().flatten().copied(), dimension, bytes)?;
        let (mut ends, mut end) = (vec![0], 0);
        for bag in bags {
            end += bag.len() as u64;
            ends.push(end);
        }
        let mut table = Table::new(numbers, dimension);
        let bags = FeatureBags::new(ends, (0..end as u32).collect(), end as usize);
        table.features = Some(bags.map_err(|source| CheckpointMismatch::Features {
            entity_type: String::new(),
            source,
        })?);
        let all: Vec<u32> = (0..offsets.len() as u32).collect();
        Ok(table.gather(&all, max_norm))
    }

    fn read(
        &self,
        rows: impl Iterator<Item = u32>,
        dimension: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<Vec<f32>, RunError> {
        let mut numbers = Vec::new();
        for row in rows {
            let at = numbers.len();
            numbers.resize(at + dimension, 0.0);
            // A row without a checksum does not exist; reading it returns an error.
            let sum = self.sums.get(row as usize).copied().unwrap_or_default();
            let row = row as usize;
            self.rows.read(row, sum, bytes, &mut numbers[at..])?;
        }
        Ok(numbers)
    }
}

/// Walks over partitions. One per thread, because it owns buffers.
pub(crate) struct IndexWalker {
    walker: GraphSearcher,
    ranker: Ranker,
    block: CandidateBlock,
    bytes: Vec<u8>,
    max_norm: Option<f32>,
}

impl IndexWalker {
    /// Creates walks that score with `ranker`.
    ///
    /// # Errors
    /// Never, as long as the library accepts its default options.
    pub(crate) fn new(ranker: Ranker, max_norm: Option<f32>) -> Result<Self, RunError> {
        Ok(Self {
            walker: GraphSearcher::new(LINKS)?,
            ranker,
            block: CandidateBlock::default(),
            bytes: Vec::new(),
            max_norm,
        })
    }

    /// Returns the ranker.
    pub(crate) const fn ranker(&mut self) -> &mut Ranker {
        &mut self.ranker
    }

    /// Returns the largest norm of rows.
    pub(crate) const fn max_norm(&self) -> Option<f32> {
        self.max_norm
    }

    /// Returns the best entities of a partition for the single query in `query`, as far as a walk finds them: offsets
    /// and scores, best first.
    ///
    /// # Errors
    /// When the partition cannot be read or is damaged, or a score is not finite; the error then names `question`.
    pub(crate) fn best(
        &mut self,
        part: &IndexPartition<'_>,
        replacement: ReplacedSide<'_>,
        query: &PreparedQueries,
        question: usize,
        width: u32,
    ) -> Result<Vec<(u32, f32)>, RunError> {
        if part.points() == 0 {
            return Ok(Vec::new());
        }
        let width = width.clamp(1, part.points());
        let mut candidates = QueryDistances {
            part,
            replacement,
            query,
            question,
            ranker: &mut self.ranker,
            block: &mut self.block,
            bytes: &mut self.bytes,
            max_norm: self.max_norm,
        };
        let found = self.walker.nearest(&mut candidates, width as usize)?;
        let scores = found.into_iter().map(|(id, distance)| (id, -distance));
        Ok(scores.collect())
    }
}

/// Initial capacity of the library's buffers. Longer lists are allowed.
const LINKS: usize = 64;

/// Partition with the distances of its entities from a query.
struct QueryDistances<'w, 'p, 't> {
    part: &'p IndexPartition<'t>,
    replacement: ReplacedSide<'p>,
    query: &'p PreparedQueries,
    question: usize,
    ranker: &'w mut Ranker,
    block: &'w mut CandidateBlock,
    bytes: &'w mut Vec<u8>,
    max_norm: Option<f32>,
}

impl Space for QueryDistances<'_, '_, '_> {
    type Error = RunError;

    fn entry(&self) -> u32 {
        self.part.graph.info().entry
    }

    fn links(&mut self, id: u32, out: &mut Vec<u32>) -> Result<(), RunError> {
        Ok(self.part.graph.links(id, self.bytes, out)?)
    }

    fn distances(&mut self, ids: &[u32], out: &mut Vec<f32>) -> Result<(), RunError> {
        out.clear();
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.part.gather(ids, self.max_norm, self.bytes)?;
        let rows = Table::new(rows, self.part.rows.place().dim);
        self.ranker
            .candidates(self.replacement, 0..ids.len(), &rows, self.block);
        let scores = self.ranker.scores(self.query, 0..1, self.block);
        if !scores.iter().all(|score| score.is_finite()) {
            let question = self.question;
            return Err(RunError::NotComparable { question });
        }
        out.extend(scores.iter().map(|score| -score));
        Ok(())
    }
}
