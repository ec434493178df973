//! Link prediction: the rank of each true side of an edge among all entities, or a sample of them.
//!
//! Both sides are ranked. Raw ranks count every other candidate, filtered ones leave out the
//! candidates that make another known edge (Bordes et al. 2013). Ties count as the average rank.

mod known;
mod ranks;

use pbg_core::event::RankStats;
use pbg_core::graph::{Bucket, Side};
use pbg_store::dataset::EntityId;
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::resolved::Resolved;
use crate::settings::cores;
use crate::trained::{Missing, Trained};
use known::Known;
use ranks::{Job, RankSums};

/// Edges ranked together: bounds what their embeddings occupy.
const BLOCK: usize = 1 << 16;

/// Which entities a positive is ranked among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidates {
    /// All of the type.
    All,
    /// As many, drawn uniformly once for the whole evaluation.
    Sample(u32),
}

/// What to evaluate.
#[derive(Clone, Debug)]
pub struct EvalOptions {
    /// Edge set to rank.
    pub edges: String,
    /// Edge sets whose edges are no wrong answers.
    pub filter: Vec<String>,
    /// Whom to rank among.
    pub candidates: Candidates,
    /// Threads; all cores if `None`.
    pub threads: Option<usize>,
    /// Ranks at most this many edges, a uniform sample of the set.
    pub limit: Option<usize>,
}

/// Quality of a model on an edge set. `loss` is not computed here and is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EvalReport {
    /// Edge set.
    pub edges: String,
    /// Edge sets that were filtered out.
    pub filter: Vec<String>,
    /// Version of the checkpoint.
    pub version: u64,
    /// Candidates per edge and side, if sampled.
    pub sampled: Option<u32>,
    /// Ranks of left sides, raw.
    pub raw_lhs: RankStats,
    /// Ranks of right sides, raw.
    pub raw_rhs: RankStats,
    /// Both sides, raw.
    pub raw: RankStats,
    /// Ranks of left sides, filtered.
    pub filtered_lhs: RankStats,
    /// Ranks of right sides, filtered.
    pub filtered_rhs: RankStats,
    /// Both sides, filtered.
    pub filtered: RankStats,
    /// What the dataset has and the checkpoint has no embedding of: it is no candidate.
    #[serde(default, skip_serializing_if = "Missing::is_empty")]
    pub missing: Missing,
    /// Edges of the set that were left out for it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub without_embedding: u64,
    /// Seconds.
    pub seconds: f64,
}

impl Resolved {
    /// Ranks the edges of a set; `progress` hears of rankings done and to do.
    ///
    /// # Errors
    /// When the model or an edge set cannot be read, or a score is not finite.
    pub fn evaluate(
        &self,
        options: &EvalOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<EvalReport, RunError> {
        let started = std::time::Instant::now();
        let seed = self.config().seed;
        let model = Trained::open(self)?;
        let (mut edges, without_embedding) = read_edges(&model, &options.edges)?;
        if let Some(limit) = options.limit {
            sample(&mut edges, limit, seed);
        }
        if edges.is_empty() {
            let why = match without_embedding {
                0 => "",
                _ => "; those that it has are of entities or relations that were not trained yet",
            };
            return Err(RunError::Config(format!(
                "the edge set `{}` has no edges to rank{why}",
                options.edges
            )));
        }
        let known = Known::read(&model, &edges, &options.filter)?;
        let job = Job::new(
            &model,
            &known,
            options,
            seed,
            options.threads.unwrap_or_else(cores),
        )?;
        let mut sums = [RankSums::default(), RankSums::default()];
        let total = 2 * edges.len() as u64;
        let mut done = 0;
        for block in edges.chunks(BLOCK) {
            for side in Side::BOTH {
                let mut step = |n: u64| {
                    done += n;
                    progress(done, total);
                };
                sums[side as usize].add(&job.rank(block, side, &mut step)?);
            }
        }
        let [lhs, rhs] = &sums;
        let halves = |a: RankStats, b: RankStats| RankStats {
            count: a.count,
            ..a.merge(&b)
        };
        Ok(EvalReport {
            edges: options.edges.clone(),
            filter: options.filter.clone(),
            version: model.checkpoint.version(),
            sampled: match options.candidates {
                Candidates::All => None,
                Candidates::Sample(n) => Some(n),
            },
            raw_lhs: lhs.raw.means(),
            raw_rhs: rhs.raw.means(),
            raw: halves(lhs.raw.means(), rhs.raw.means()),
            filtered_lhs: lhs.filtered.means(),
            filtered_rhs: rhs.filtered.means(),
            filtered: halves(lhs.filtered.means(), rhs.filtered.means()),
            missing: model.missing.clone(),
            without_embedding,
            seconds: started.elapsed().as_secs_f64(),
        })
    }
}

/// Serde passes what it may leave out by reference.
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An edge with the partitions of its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) bucket: Bucket,
    pub(crate) lhs: u32,
    pub(crate) rel: u32,
    pub(crate) rhs: u32,
}

impl Edge {
    /// Offset of the entity on `side`.
    pub(crate) fn offset(&self, side: Side) -> u32 {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }
}

/// The edges of a set of which both entities and the relation have been trained, and how many have
/// not.
fn read_edges(model: &Trained<'_>, name: &str) -> Result<(Vec<Edge>, u64), RunError> {
    let set = model.dataset.edge_set(name)?;
    let mut edges = Vec::with_capacity(set.len() as usize);
    for bucket in model.blueprint.layout.grid() {
        let read = set.read(bucket, 0..set.bucket_len(bucket))?;
        let all = (0..read.len()).map(|i| Edge {
            bucket,
            lhs: read.lhs[i],
            rel: read.rel[i],
            rhs: read.rhs[i],
        });
        edges.extend(all.filter(|edge| model.missing.is_empty() || is_trained(model, edge)));
    }
    let left_out = set.len() - edges.len() as u64;
    Ok((edges, left_out))
}

fn is_trained(model: &Trained<'_>, edge: &Edge) -> bool {
    let known = model.blueprint.relation_names.len();
    edge.rel < known as u32
        && Side::BOTH.into_iter().all(|side| {
            let entity_type = model.blueprint.type_of(edge.rel, side);
            let partition = model
                .blueprint
                .layout
                .partition(entity_type, side, edge.bucket);
            let offset = edge.offset(side);
            model.has(entity_type, EntityId { partition, offset })
        })
}

/// Keeps a uniform sample of `limit` edges, in their order.
fn sample(edges: &mut Vec<Edge>, limit: usize, seed: u64) {
    use pbg_core::seed::{Purpose, stream};
    if limit >= edges.len() {
        return;
    }
    let mut order: Vec<u32> = (0..edges.len() as u32).collect();
    pbg_core::batching::shuffle(&mut order, &mut stream(seed, Purpose::Candidates, &[1]));
    order.truncate(limit);
    order.sort_unstable();
    *edges = order.into_iter().map(|i| edges[i as usize]).collect();
}
