//! Samples of a calibration: held-out edges and random negatives, with their scores.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::seed::{self, StreamPurpose};
use pbg_dataset::EntityId;
use pbg_kernels::rank::{PreparedQueries, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::trained::TrainedModel;
use rand::RngExt;

use crate::evaluate::ModelView;
use crate::evaluate::calibration_parts::{
    BlockEmbeddings, CommittedTables, EntityKey, Filter, RankedEdgeReader, entity, from_tables,
    reading_needs, widest,
};

/// Number of samples that are scored together.
const BLOCK: usize = 1 << 13;
/// Number of attempts to draw an entity with an embedding.
const ATTEMPTS: usize = 32;

/// Options of a calibration.
#[derive(Clone, Debug)]
pub struct CalibrationOptions {
    /// Edge set that was not trained.
    pub edges: String,
    /// Number of random negatives for each edge.
    pub negatives: u32,
    /// Largest number of edges, as a uniform sample of the set.
    pub limit: u32,
    /// Edge sets whose edges are not negatives.
    pub filter: Vec<String>,
}

/// Sample of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sample {
    /// Number of the edge that it is, or from which it was drawn.
    edge: u32,
    relation: u32,
    head: EntityKey,
    tail: EntityKey,
    is_edge: bool,
}

/// Score of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LabelledScore {
    /// Number of the edge that it is, or from which it was drawn.
    pub(super) edge: u32,
    pub(super) score: f32,
    pub(super) is_edge: bool,
}

/// Samples of a calibration.
pub(super) struct Samples(Vec<Sample>);

/// Returns the largest memory needed to calibrate a model, by component, in bytes.
///
/// # Errors
/// When the dataset lacks an edge set.
pub fn calibration_needs(
    resolved: &ResolvedConfig,
    options: &CalibrationOptions,
) -> Result<Vec<(String, u64)>, RunError> {
    let edges = resolved.dataset().edge_set(&options.edges)?.len();
    let samples = edges.min(u64::from(options.limit)) * (1 + u64::from(options.negatives));
    let width = widest(&resolved.blueprint().layout) as u64;
    let mut needs = reading_needs(resolved);
    needs.extend([
        // A sample, its entry in the table of negatives, its two scores, and copies of them in four curves.
        (
            "samples".to_owned(),
            samples * (32 + 64 + 2 * 12 + 4 * 40) + 8 * edges,
        ),
        (
            "embeddings of samples".to_owned(),
            BLOCK as u64 * 4 * width * 10,
        ),
    ]);
    Ok(needs)
}

/// Opens the model if there is enough memory.
pub(super) fn open<'a>(
    resolved: &'a ResolvedConfig,
    options: &CalibrationOptions,
) -> Result<TrainedModel<'a>, RunError> {
    let needs = calibration_needs(resolved, options)?;
    memory::require("calibration", memory::total(&needs), 1)?;
    TrainedModel::open(resolved)
}

impl Samples {
    /// Draws held-out edges, and for each of them random negatives that replace its head or its tail.
    pub(super) fn draw(
        trained: &TrainedModel<'_>,
        options: &CalibrationOptions,
        seed: u64,
    ) -> Result<Self, RunError> {
        let view = ModelView::of(trained);
        let set = trained.dataset.edge_set(&options.edges)?;
        let limit = Some(options.limit as usize);
        let mut reader = RankedEdgeReader::new(view, &set, limit, seed)?;
        let mut rng = seed::stream(seed, StreamPurpose::Candidates, &[2]);
        let (mut samples, mut block) = (Vec::new(), Vec::new());
        let mut negatives: HashSet<(u32, EntityKey, EntityKey)> = HashSet::new();
        let mut edge = 0;
        loop {
            reader.next(BLOCK, &mut block)?;
            if block.is_empty() {
                break;
            }
            for held_out in &block {
                let [head, tail] = Side::BOTH.map(|side| entity(&view, held_out, side));
                let positive = Sample {
                    edge,
                    relation: held_out.rel,
                    head,
                    tail,
                    is_edge: true,
                };
                samples.push(positive);
                for _ in 0..options.negatives {
                    let side = Side::BOTH[rng.random_range(0..2_usize)];
                    let of = view.blueprint.type_of(held_out.rel, side);
                    let Some(drawn) = draw_entity(trained, of, &mut rng) else {
                        continue;
                    };
                    let negative = match side {
                        Side::Lhs => Sample {
                            head: drawn,
                            ..positive
                        },
                        Side::Rhs => Sample {
                            tail: drawn,
                            ..positive
                        },
                    };
                    negatives.insert((held_out.rel, negative.head, negative.tail));
                    samples.push(Sample {
                        is_edge: false,
                        ..negative
                    });
                }
                edge += 1;
            }
        }
        // Random edges that are known are no negatives.
        let filter = Filter::open(&view, &options.filter, 1)?;
        filter.visit(&view, &|_| true, &mut |known| {
            let [head, tail] = Side::BOTH.map(|side| entity(&view, known, side));
            negatives.remove(&(known.rel, head, tail));
        })?;
        let is_kept =
            |of: &Sample| of.is_edge || negatives.contains(&(of.relation, of.head, of.tail));
        samples.retain(is_kept);
        Ok(Self(samples))
    }

    pub(super) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(super) fn positives(&self) -> u64 {
        self.0.iter().filter(|sample| sample.is_edge).count() as u64
    }

    /// Returns the scores of all samples by which left sides are ranked, and those by which right sides are ranked.
    pub(super) fn scores(
        &self,
        trained: &TrainedModel<'_>,
    ) -> Result<[Vec<LabelledScore>; 2], RunError> {
        let view = ModelView::of(trained);
        let tables = &mut CommittedTables::new(trained);
        let mut ranker = Ranker::new(Arc::new(trained.blueprint.spec.clone()))?;
        let mut scores = [Vec::new(), Vec::new()];
        for block in self.0.chunks(BLOCK) {
            let mut wanted = vec![Vec::new(); view.blueprint.layout.types.len()];
            let mut by_relation: BTreeMap<u32, Vec<Sample>> = BTreeMap::new();
            for sample in block {
                let [left, right] =
                    Side::BOTH.map(|side| view.blueprint.type_of(sample.relation, side));
                wanted[left].push(sample.head);
                wanted[right].push(sample.tail);
                by_relation
                    .entry(sample.relation)
                    .or_default()
                    .push(*sample);
            }
            let rows = BlockEmbeddings::gather(&view, wanted, &mut from_tables(&view, tables))?;
            for (&relation, samples) in &by_relation {
                for side in Side::BOTH {
                    let of = |side: Side| {
                        let rows = &rows.types[view.blueprint.type_of(relation, side)];
                        let row = |of: &Sample| {
                            rows.row_of(match side {
                                Side::Lhs => of.head,
                                Side::Rhs => of.tail,
                            })
                        };
                        (&rows.table, samples.iter().map(row).collect::<Vec<u32>>())
                    };
                    let ((known, known_rows), (table, open_rows)) = (of(side.other()), of(side));
                    let mut queries = PreparedQueries::default();
                    let one = BatchRelations::One(relation);
                    ranker.queries(side, &known_rows, one, known, view.params, &mut queries);
                    let replacement = view.replaced(side, relation);
                    let found = ranker.pair_scores(replacement, &queries, &open_rows, table);
                    if !found.iter().all(|score| score.is_finite()) {
                        return Err(RunError::NotComparable { question: 0 });
                    }
                    let labelled = samples
                        .iter()
                        .zip(found)
                        .map(|(sample, score)| LabelledScore {
                            edge: sample.edge,
                            score,
                            is_edge: sample.is_edge,
                        });
                    scores[side as usize].extend(labelled);
                }
            }
        }
        Ok(scores)
    }
}

/// Draws an entity with an embedding uniformly; `None` if there is hardly any.
fn draw_entity(trained: &TrainedModel<'_>, of: usize, rng: &mut impl RngExt) -> Option<EntityKey> {
    let sizes = (0..trained.partitions(of)).map(|p| trained.entities(of, p));
    let total: u64 = sizes.clone().sum();
    for _ in 0..ATTEMPTS {
        let mut at = rng.random_range(0..total.max(1));
        for (partition, size) in (0..).zip(sizes.clone()) {
            if at < size {
                let offset = at as u32;
                if trained.has(of, EntityId { partition, offset }) {
                    return Some((partition, offset));
                }
                break;
            }
            at -= size;
        }
    }
    None
}
