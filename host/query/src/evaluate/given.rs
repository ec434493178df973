//! Ranks of edges that the caller has, among all entities or a sample, as those of an edge set.

use pbg_core::graph::{Bucket, Side};
use pbg_model::error::{RunError, SettingError};
use pbg_model::memory;
use pbg_model::name_lookup;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::settings::cores;
use pbg_model::trained::TrainedModel;

use super::breakdown::Breakdown;
use super::edges::{EDGES, EdgeCounts};
use super::entity_names::EntityNames;
use super::memory_needs::given_needs;
use super::options::EvalOptions;
use super::predict::Unanswerable;
use super::rank::EdgeRanker;
use super::ranked_edge::RankedEdge;
use super::stats::RankSums;
use super::view::{CommittedTables, ModelView};
use super::{EvalReport, report};

/// Names of an edge: left entity, relation, right entity.
pub type NamedEdge = (String, String, String);

/// Ranks `edges`, which need not be in the dataset, as [`evaluate`](super::evaluate) ranks the edges of a set. Of
/// `options`, the edge set only names the edges in the report, all edges are ranked, and `seen` has no effect. Known
/// edges are those of the edge sets of the filter.
///
/// # Errors
/// For the first edge with an unknown name; when there are none, the model or an edge set cannot be read, there is too
/// little memory, or a score is not finite.
pub fn evaluate_given(
    resolved: &ResolvedConfig,
    edges: &[NamedEdge],
    options: &EvalOptions,
) -> Result<EvalReport, Unanswerable> {
    let started = pbg_clock::now();
    let general = |error: RunError| Unanswerable {
        question: 0,
        error: Box::new(error),
    };
    let trained = open(resolved, edges.len() as u64, options).map_err(general)?;
    let view = ModelView::of(&trained);
    let ranker = EdgeRanker::new(view, options, resolved.config().seed).map_err(general)?;
    let mut breakdown = options.by.map(Breakdown::new);
    let mut sums = [RankSums::default(), RankSums::default()];
    let tables = &mut CommittedTables::new(&trained);
    for (first, block) in (0..)
        .step_by(EDGES as usize)
        .zip(edges.chunks(EDGES as usize))
    {
        let ranked = resolve(&trained, block, first)?;
        let mut each = |side, edge: &RankedEdge, counts| {
            if let Some(breakdown) = &mut breakdown {
                breakdown.add(&view, side, edge, counts);
            }
        };
        let found = ranker.sums(tables, &ranked, &mut |_| (), &mut each);
        let found = found.map_err(general)?;
        for side in Side::BOTH {
            sums[side as usize].add(&found[side as usize]);
        }
    }
    let counts = EdgeCounts {
        ranked: edges.len() as u64,
        ..EdgeCounts::default()
    };
    let mut report = report(options, &view, counts, &sums, breakdown);
    report.version = trained.checkpoint.version();
    report.missing = trained.missing.clone();
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Opens the model if there are edges, and enough memory to rank them.
fn open<'a>(
    resolved: &'a ResolvedConfig,
    count: u64,
    options: &EvalOptions,
) -> Result<TrainedModel<'a>, RunError> {
    if count == 0 {
        let edge_set = options.edges.clone();
        return Err(SettingError::NoEdges {
            edge_set,
            untrained: 0,
        }
        .into());
    }
    let needs = memory::total(&given_needs(resolved, count, options)?);
    let threads = options.threads.unwrap_or_else(cores).max(1);
    memory::require("evaluation", needs, threads)?;
    TrainedModel::open(resolved)
}

/// Looks up the names of edges, of which the first one has the number `first`.
fn resolve(
    trained: &TrainedModel<'_>,
    edges: &[NamedEdge],
    first: usize,
) -> Result<Vec<RankedEdge>, Unanswerable> {
    let mut names = EntityNames::new(trained);
    let of = |relation, side| trained.blueprint.type_of(relation, side);
    let failed = |at: usize, error: RunError| Unanswerable {
        question: first + at,
        error: Box::new(error),
    };
    let relations = edges.iter().enumerate().map(|(at, (_, relation, _))| {
        name_lookup::relation(trained, relation).map_err(|error| failed(at, error.into()))
    });
    let relations: Vec<u32> = relations.collect::<Result<_, _>>()?;
    for ((head, _, tail), &relation) in edges.iter().zip(&relations) {
        names.add(of(relation, Side::Lhs), head);
        names.add(of(relation, Side::Rhs), tail);
    }
    names.find(trained).map_err(|error| failed(0, error))?;
    let found = edges.iter().zip(&relations).enumerate();
    let found = found.map(|(at, ((head, _, tail), &rel))| {
        let id = |side, name: &str| {
            let id = names.trained(trained, of(rel, side), name);
            id.map_err(|error| failed(at, error))
        };
        let (lhs, rhs) = (id(Side::Lhs, head)?, id(Side::Rhs, tail)?);
        Ok(RankedEdge {
            bucket: Bucket {
                lhs: lhs.partition,
                rhs: rhs.partition,
            },
            lhs: lhs.offset,
            rel,
            rhs: rhs.offset,
        })
    });
    found.collect()
}
