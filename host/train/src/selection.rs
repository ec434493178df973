//! Negatives that a plugin selects: draws the pools of a batch, scores them with the current model if the plugin requires
//! it, asks the plugin chunk by chunk, and draws by the weights that it returns.
//!
//! Every number that is drawn follows from the position of its batch, and the plugin's answers from its arguments. So a
//! resumed run selects what an uninterrupted one selects, whichever instance is asked.

mod scores;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use pbg_core::graph::{Bucket, Side};
use pbg_core::lock::lock;
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, StreamPurpose};
use pbg_core::strategy::{
    FaultCause, NegativeChunk, NegativeSelection, NegativeSelector, SelectionRequirements,
    SelectionWorker, StrategyError,
};
use pbg_core::weighted_draws::draw_by_weights;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{Batch, BatchRelations, BatchTables, Execution};
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use rand::RngExt as _;

use self::scores::PoolScorer;

pub(crate) use self::scores::{scoring_spec, selection_bytes};

/// A plugin that selects negatives, with the selectors that workers borrow.
pub(crate) struct ChunkSelectors {
    selector: Arc<dyn NegativeSelector>,
    spec: Arc<ModelSpec>,
    execution: Execution,
    free: Mutex<Vec<ChunkSelector>>,
    /// Whether negatives are uniform once the plugin has failed; otherwise a failure ends the run.
    recovers: bool,
    failed: AtomicBool,
    faults: Mutex<Vec<StrategyError>>,
    /// Time in which workers have selected negatives.
    time: Mutex<Duration>,
}

impl ChunkSelectors {
    /// Creates the selectors of a run; `recovers`: the plugin has a fallback.
    pub(crate) fn new(
        selector: Arc<dyn NegativeSelector>,
        spec: &ModelSpec,
        execution: Execution,
        recovers: bool,
    ) -> Self {
        Self {
            spec: Arc::new(scoring_spec(spec, selector.required())),
            selector,
            execution,
            free: Mutex::default(),
            recovers,
            failed: AtomicBool::new(false),
            faults: Mutex::default(),
            time: Mutex::default(),
        }
    }

    /// Returns the time in which workers have selected negatives: pools, their scores, and the calls of the plugin.
    pub(crate) fn time(&self) -> Duration {
        *lock(&self.time)
    }

    /// Returns the failures since the last call.
    pub(crate) fn take_faults(&self) -> Vec<StrategyError> {
        std::mem::take(&mut lock(&self.faults))
    }

    /// Returns a selector that no worker uses.
    ///
    /// # Errors
    /// When the model cannot be scored.
    pub(crate) fn borrow(&self) -> Result<ChunkSelector, RunError> {
        if let Some(free) = lock(&self.free).pop() {
            return Ok(free);
        }
        let required = self.selector.required();
        let scorer = match required.scores {
            true => Some(Box::new(PoolScorer::new(&self.spec, self.execution)?)),
            false => None,
        };
        Ok(ChunkSelector {
            worker: self.selector.worker(),
            required,
            scorer,
            pools: NegativeDraws::default(),
        })
    }

    /// Takes back a selector.
    pub(crate) fn give_back(&self, selector: ChunkSelector) {
        lock(&self.free).push(selector);
    }

    fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    /// Notes a failure after which negatives are uniform.
    ///
    /// # Errors
    /// The failure, if the plugin has no fallback or is not its cause.
    fn recover(&self, fault: StrategyError) -> Result<(), RunError> {
        if !self.recovers || fault.cause != FaultCause::Strategy {
            return Err(fault.into());
        }
        self.failed.store(true, Ordering::Relaxed);
        lock(&self.faults).push(fault);
        Ok(())
    }
}

/// A batch whose negatives are selected.
pub(crate) struct SelectionBatch<'a> {
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) batch: &'a Batch<'a>,
    pub(crate) tables: &'a BatchTables<'a>,
    pub(crate) params: &'a Params,
    /// Lock that is held while parameters are read, if another thread changes them.
    pub(crate) gate: Option<&'a RwLock<()>>,
    pub(crate) pass: PassId,
    pub(crate) bucket: Bucket,
    /// Number of the worker's share.
    pub(crate) worker: u64,
    /// Number of the batch in the share.
    pub(crate) number: u64,
    /// Seed of the batch.
    pub(crate) seed: u64,
}

/// Use of a random number of a chunk.
#[derive(Clone, Copy)]
enum ChunkSeed {
    /// The pool.
    Pool,
    /// The plugin's own draws.
    Plugin,
    /// Draws by the weights that it returns.
    Weights,
}

impl SelectionBatch<'_> {
    /// Returns the index of the relation's specification.
    fn relation(&self) -> u32 {
        self.batch.spec_index() as u32
    }

    fn spec(&self) -> &ModelSpec {
        &self.blueprint.spec
    }

    /// Returns the number of edges of a chunk.
    fn chunk_size(&self) -> usize {
        let spec = self.spec();
        spec.chunk_size(spec.relation(self.relation()), self.batch.len())
    }

    /// Returns the number of negatives that are selected for each chunk.
    fn negatives(&self, side: Side) -> usize {
        let spec = self.spec();
        spec.uniform_negatives(spec.relation(self.relation()), side)
    }

    fn seed_of(&self, side: Side, chunk: usize, purpose: ChunkSeed) -> u64 {
        let at = [side as u64, chunk as u64, purpose as u64];
        seed::derive(self.seed, StreamPurpose::Selection, &at)
    }

    fn partition(&self, side: Side) -> u32 {
        let entity = self.blueprint.type_of(self.relation(), side);
        self.blueprint.layout.partition(entity, side, self.bucket)
    }

    /// Returns the chunk of edges `first..end` that replaces `side`, without candidates.
    fn chunk(&self, side: Side, number: usize, first: usize, end: usize) -> NegativeChunk {
        let entity = self.blueprint.type_of(self.relation(), side);
        NegativeChunk {
            side,
            entity_type: self.blueprint.layout.types[entity].name.clone(),
            partition: self.partition(side),
            // The rows of a partition are counted in 32 bits in the dataset.
            entities: u32::try_from(self.tables.side(side).entities()).unwrap_or(u32::MAX),
            kept_partition: self.partition(side.other()),
            relations: match self.batch.relation {
                BatchRelations::One(relation) => vec![relation; end - first],
                BatchRelations::PerEdge(relations) => relations[first..end].to_vec(),
            },
            kept: self.batch.side(side.other())[first..end].to_vec(),
            replaced: self.batch.side(side)[first..end].to_vec(),
            candidates: Vec::new(),
            scores: None,
            negatives: self.negatives(side) as u32,
            pass: self.pass,
            seed: self.seed_of(side, number, ChunkSeed::Plugin),
        }
    }
}

/// Selector of one worker, with its buffers.
pub(crate) struct ChunkSelector {
    worker: Box<dyn SelectionWorker>,
    required: SelectionRequirements,
    /// `None` unless scores are required.
    scorer: Option<Box<PoolScorer>>,
    /// Candidates of the batch.
    pools: NegativeDraws,
}

impl ChunkSelector {
    /// Returns the candidates of the last batch.
    pub(crate) fn pools(&self) -> &NegativeDraws {
        &self.pools
    }

    /// Selects the negatives of a batch.
    ///
    /// # Errors
    /// When the plugin fails and has no fallback, or scores are not finite.
    pub(crate) fn select(
        &mut self,
        of: &ChunkSelectors,
        at: &SelectionBatch<'_>,
        draws: &mut NegativeDraws,
    ) -> Result<(), RunError> {
        let started = pbg_clock::now();
        let selected = self.select_chunks(of, at, draws);
        *lock(&of.time) += pbg_clock::elapsed(started);
        selected
    }

    fn select_chunks(
        &mut self,
        of: &ChunkSelectors,
        at: &SelectionBatch<'_>,
        draws: &mut NegativeDraws,
    ) -> Result<(), RunError> {
        self.draw_pools(at);
        draws.clear();
        if self.pools.lhs.is_empty() && self.pools.rhs.is_empty() {
            return Ok(());
        }
        if let Some(scorer) = &mut self.scorer
            && !of.has_failed()
        {
            scorer.score(at, &self.pools)?;
        }
        for side in Side::BOTH {
            let into = match side {
                Side::Lhs => &mut draws.lhs,
                Side::Rhs => &mut draws.rhs,
            };
            let negatives = at.negatives(side);
            if negatives == 0 {
                continue;
            }
            let (edges, size) = (at.batch.len(), at.chunk_size());
            into.reserve_exact(edges.div_ceil(size) * negatives);
            for (number, first) in (0..edges).step_by(size).enumerate() {
                let end = edges.min(first + size);
                let pool = self.required.pool(negatives);
                let candidates = &self.pools.side(side)[number * pool..(number + 1) * pool];
                let selected = match of.has_failed() {
                    true => None,
                    false => {
                        let mut chunk = at.chunk(side, number, first, end);
                        chunk.candidates.extend(candidates);
                        let scorer = self.scorer.as_ref();
                        chunk.scores = scorer.map(|of| of.scores(side, first..end, number, pool));
                        self.worker.select(&chunk).map(Some).or_else(|fault| {
                            of.recover(fault)?;
                            Ok::<_, RunError>(None)
                        })?
                    }
                };
                match selected {
                    // The candidates are uniform draws.
                    None => into.extend(&candidates[..negatives]),
                    Some(NegativeSelection::Entities(entities)) => into.extend(entities),
                    Some(NegativeSelection::Weights(weights)) => {
                        let seed = at.seed_of(side, number, ChunkSeed::Weights);
                        let mut rng = seed::stream(seed, StreamPurpose::Selection, &[]);
                        draw_by_weights(candidates, &weights, negatives, &mut rng, into);
                    }
                }
            }
        }
        Ok(())
    }

    /// Draws the candidates of all chunks of a batch, uniformly.
    fn draw_pools(&mut self, at: &SelectionBatch<'_>) {
        let chunks = at.batch.len().div_ceil(at.chunk_size());
        let sides = [
            (&mut self.pools.lhs, Side::Lhs),
            (&mut self.pools.rhs, Side::Rhs),
        ];
        for (pools, side) in sides {
            pools.clear();
            let entities = u32::try_from(at.tables.side(side).entities()).unwrap_or(u32::MAX);
            let pool = self.required.pool(at.negatives(side));
            if entities == 0 || pool == 0 {
                continue;
            }
            pools.reserve_exact(chunks * pool);
            for chunk in 0..chunks {
                let seed = at.seed_of(side, chunk, ChunkSeed::Pool);
                let mut rng = seed::stream(seed, StreamPurpose::Selection, &[]);
                pools.extend((0..pool).map(|_| rng.random_range(0..entities)));
            }
        }
    }
}
