//! The inputs of training a bucket, and its batches: columns and negatives.

use std::sync::RwLock;

use pbg_core::graph::{Bucket, EdgeColumns, Side};
use pbg_core::model::NegativesFrom;
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, StreamPurpose};
use pbg_core::strategy::Loss;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{Batch, BatchRelations, BatchTables, StepError};
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_rows::params::Params;
use pbg_rows::spec::RelationSpec;
use pbg_rows::table::Table;
use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::negatives::BucketNegatives;
use crate::selection::{ChunkSelector, ChunkSelectors, SelectionBatch};
use crate::stage_threads::StageClock;

/// Edges of a batch, as far as their negatives depend on them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BatchEdges<'a> {
    /// Edges of one relation, with their number.
    OfRelation(u32, usize),
    /// Indices of edges of any relation.
    Mixed(&'a [u32]),
}

/// Source of the negatives of a share's batches, in order.
pub(crate) enum NegativeSource<'a> {
    /// Random numbers, with which the host draws.
    Stream(Xoshiro256PlusPlus),
    /// A plugin, which selects.
    Selector(SelectedNegatives<'a>),
}

impl NegativeSource<'_> {
    /// Returns the candidates from which a plugin was to select the negatives of the last batch.
    pub(crate) fn pools(&self) -> Option<&NegativeDraws> {
        match self {
            Self::Stream(_) => None,
            Self::Selector(selected) => selected.borrowed.as_ref().map(ChunkSelector::pools),
        }
    }

    /// Returns a source that goes on from the same batch.
    pub(crate) fn fork(&self) -> Self {
        match self {
            Self::Stream(rng) => Self::Stream(rng.clone()),
            Self::Selector(selected) => Self::Selector(SelectedNegatives {
                borrowed: None,
                ..*selected
            }),
        }
    }
}

/// Negatives that a plugin selects for the batches of a share.
pub(crate) struct SelectedNegatives<'a> {
    selectors: &'a ChunkSelectors,
    /// Selector of the thread, from its first batch on.
    borrowed: Option<ChunkSelector>,
    /// Number of the share.
    worker: u64,
    /// Number of the next batch.
    batch: u64,
}

impl Drop for SelectedNegatives<'_> {
    fn drop(&mut self) {
        if let Some(borrowed) = self.borrowed.take() {
            self.selectors.give_back(borrowed);
        }
    }
}

/// Bucket that is ready to be trained or evaluated.
pub(crate) struct BucketInputs<'a> {
    /// The model.
    pub(crate) blueprint: &'a Blueprint,
    /// Looks up a table that the bucket needs, by entity type and partition.
    pub(crate) table: &'a (dyn Fn(usize, u32) -> Option<&'a Table> + Sync),
    /// Shared parameters.
    pub(crate) params: &'a Params,
    /// Loss, which observes every batch.
    pub(crate) loss: &'a dyn Loss,
    /// Edges of the bucket's chunk.
    pub(crate) edges: &'a EdgeColumns,
    /// Source of uniform negatives.
    pub(crate) negatives_from: NegativesFrom,
    /// Distributions of the negatives; `None` if they are uniform.
    pub(crate) negatives: Option<&'a BucketNegatives<'a>>,
    /// Selectors of the negatives, if a plugin selects them.
    pub(crate) selectors: Option<&'a ChunkSelectors>,
    /// The pass.
    pub(crate) pass: PassId,
    /// The bucket.
    pub(crate) bucket: Bucket,
    /// Seed of the run.
    pub(crate) seed: u64,
    /// Lock that is held while a batch is trained, if another thread changes parameters in parallel with the workers.
    pub(crate) gate: Option<&'a RwLock<()>>,
    /// Clock of training.
    pub(crate) training: &'a StageClock,
}

impl<'a> BucketInputs<'a> {
    /// Returns the tables of the entity types that edges of `relation` join.
    pub(crate) fn tables(&self, relation: u32) -> Result<BatchTables<'a>, RunError> {
        let side = |side| {
            let entity = self.blueprint.type_of(relation, side);
            let partition = self.blueprint.layout.partition(entity, side, self.bucket);
            (self.table)(entity, partition).ok_or_else(|| {
                let name = &self.blueprint.layout.types[entity].name;
                RunError::Step(StepError::Batch(format!(
                    "partition {partition} of {name} is not in memory"
                )))
            })
        };
        Ok(BatchTables {
            lhs: side(Side::Lhs)?,
            rhs: side(Side::Rhs)?,
        })
    }

    /// Returns the numbers of entities that may replace the left and the right side.
    fn candidates(&self, tables: &BatchTables<'_>, relation: &RelationSpec) -> [usize; 2] {
        let [lhs, rhs] = [tables.lhs.entities(), tables.rhs.entities()];
        let both = relation.lhs == relation.rhs && !tables.shared();
        match self.negatives_from {
            NegativesFrom::Bucket if both => [lhs + rhs; 2],
            _ => [lhs, rhs],
        }
    }

    /// Returns the source of the negatives of share `worker`, of which no batch is trained yet.
    pub(crate) fn negative_source(&self, worker: u64) -> NegativeSource<'a> {
        match self.selectors {
            None => NegativeSource::Stream(self.stream(StreamPurpose::Negatives, worker)),
            Some(selectors) => NegativeSource::Selector(SelectedNegatives {
                selectors,
                borrowed: None,
                worker,
                batch: 0,
            }),
        }
    }

    /// Copies the edges of a batch and chooses its negatives. `relation` is set if all edges have the same one.
    pub(crate) fn prepare(
        &self,
        indices: &[u32],
        relation: Option<u32>,
        columns: &mut BatchColumns,
        draws: &mut NegativeDraws,
        source: &mut NegativeSource<'_>,
    ) -> Result<(), RunError> {
        columns.fill(self.edges, indices);
        let edges = match relation {
            Some(relation) => BatchEdges::OfRelation(relation, indices.len()),
            None => BatchEdges::Mixed(indices),
        };
        match source {
            NegativeSource::Stream(rng) => self.draw(edges, draws, rng),
            NegativeSource::Selector(selected) => {
                self.select(&columns.batch(relation), selected, draws)
            }
        }
    }

    /// Advances `source` past a batch that is trained already.
    pub(crate) fn skip(
        &self,
        edges: BatchEdges<'_>,
        draws: &mut NegativeDraws,
        source: &mut NegativeSource<'_>,
    ) -> Result<(), RunError> {
        match source {
            NegativeSource::Stream(rng) => self.draw(edges, draws, rng),
            NegativeSource::Selector(selected) => {
                selected.batch += 1;
                Ok(())
            }
        }
    }

    /// Has the plugin select the negatives of a batch.
    fn select(
        &self,
        batch: &Batch<'_>,
        selected: &mut SelectedNegatives<'_>,
        draws: &mut NegativeDraws,
    ) -> Result<(), RunError> {
        let (worker, number) = (selected.worker, selected.batch);
        let share = seed::derive(
            self.seed,
            StreamPurpose::Selection,
            &self.coordinates(worker),
        );
        let at = SelectionBatch {
            blueprint: self.blueprint,
            batch,
            tables: &self.tables(batch.spec_index() as u32)?,
            params: self.params,
            gate: self.gate,
            pass: self.pass,
            bucket: self.bucket,
            worker,
            number,
            seed: seed::derive(share, StreamPurpose::Selection, &[number]),
        };
        selected.batch += 1;
        let selector = match &mut selected.borrowed {
            Some(borrowed) => borrowed,
            none => none.insert(selected.selectors.borrow()?),
        };
        selector.select(selected.selectors, &at, draws)
    }

    /// Draws the negatives of a batch. Drawing is all that is needed to advance `rng` past a batch that is trained
    /// already.
    fn draw(
        &self,
        edges: BatchEdges<'_>,
        draws: &mut NegativeDraws,
        rng: &mut Xoshiro256PlusPlus,
    ) -> Result<(), RunError> {
        let (relation, len) = match edges {
            BatchEdges::OfRelation(relation, len) => (relation, len),
            BatchEdges::Mixed(indices) => (0, indices.len()),
        };
        let spec = &self.blueprint.spec;
        let template = spec.relation(relation);
        let Some(negatives) = self.negatives else {
            let candidates = self.candidates(&self.tables(relation)?, template);
            draws.draw(spec, template, len, candidates, rng);
            return Ok(());
        };
        draws.draw_chunks(
            spec,
            template,
            len,
            |side, chunk, wanted, into| match edges {
                BatchEdges::OfRelation(relation, _) => {
                    let mixture = negatives.mixture(side, relation);
                    into.extend((0..wanted).filter_map(|_| Some(mixture?.draw(rng))));
                }
                // Each draw is for one positive of the chunk, from the distribution of its relation.
                BatchEdges::Mixed(indices) => into.extend((0..wanted).filter_map(|_| {
                    let edge = indices[rng.random_range(chunk.clone())];
                    let mixture = negatives.mixture(side, self.edges.rel[edge as usize]);
                    Some(mixture?.draw(rng))
                })),
            },
        );
        if negatives.leave_out() {
            draws.leave_out(spec, template, len, |side, edge, drawn| {
                let relation = match edges {
                    BatchEdges::OfRelation(relation, _) => relation,
                    BatchEdges::Mixed(indices) => self.edges.rel[indices[edge] as usize],
                };
                let mixture = negatives.mixture(side, relation);
                mixture.map_or(drawn, |mixture| mixture.drawn(drawn, rng))
            });
        }
        Ok(())
    }

    /// Returns a random stream of this bucket; `last` distinguishes its streams.
    pub(crate) fn stream(&self, purpose: StreamPurpose, last: u64) -> Xoshiro256PlusPlus {
        seed::stream(self.seed, purpose, &self.coordinates(last))
    }

    pub(crate) fn coordinates(&self, last: u64) -> [u64; 6] {
        let PassId {
            epoch,
            edge_set,
            edge_chunk,
        } = self.pass;
        let Bucket { lhs, rhs } = self.bucket;
        let wide = u64::from;
        [
            wide(epoch),
            wide(edge_set),
            wide(edge_chunk),
            wide(lhs),
            wide(rhs),
            last,
        ]
    }
}

/// Columns of one batch, reused for the next.
#[derive(Debug, Default)]
pub(crate) struct BatchColumns {
    edges: EdgeColumns,
}

impl BatchColumns {
    /// Copies the edges at `indices`.
    pub(crate) fn fill(&mut self, from: &EdgeColumns, indices: &[u32]) {
        let copy = |into: &mut Vec<u32>, column: &[u32]| {
            into.clear();
            into.extend(indices.iter().map(|&i| column[i as usize]));
        };
        copy(&mut self.edges.lhs, &from.lhs);
        copy(&mut self.edges.rhs, &from.rhs);
        copy(&mut self.edges.rel, &from.rel);
        match &from.weight {
            Some(weight) => {
                let into = self.edges.weight.get_or_insert_default();
                into.clear();
                into.extend(indices.iter().map(|&i| weight[i as usize]));
            }
            None => self.edges.weight = None,
        }
    }

    /// Returns the batch. `relation` is set if all edges have the same one.
    pub(crate) fn batch(&self, relation: Option<u32>) -> Batch<'_> {
        Batch {
            lhs: &self.edges.lhs,
            rhs: &self.edges.rhs,
            relation: relation.map_or(
                BatchRelations::PerEdge(&self.edges.rel),
                BatchRelations::One,
            ),
            weight: self.edges.weight.as_deref(),
        }
    }
}
