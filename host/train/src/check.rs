//! What a run will need, and whether everything is there, before it starts.

use std::path::Path;

use pbg_core::config::Config;
use pbg_core::graph::Side;
use pbg_core::plan::{self, PlanCost};
use pbg_core::schedule::PassId;
use pbg_core::strategy::BucketOrder;
use pbg_kernels::params::Params;
use pbg_kernels::spec::RelationSpec;
use pbg_store::dataset::{Dataset, EdgeSet};
use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::layout::Layout;
use crate::model::Blueprint;
use crate::run::{self, worker_count};

/// What libtorch and this program occupy before any data: measured, with some room.
const PROGRAM: u64 = 190 << 20;
/// Rows per record batch that a read decodes at once.
const READ_ROWS: u64 = 1 << 20;
/// What the buffers of a slice aim at, per worker.
const SLICE: u64 = 2 << 20;

/// Memory and disk that a run will need at most, by component, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Main memory.
    pub memory: Vec<(String, u64)>,
    /// Disk under `checkpoint_path`.
    pub disk: Vec<(String, u64)>,
}

/// Resolves `config` against its dataset and adds up what training will need.
///
/// # Errors
/// When the dataset is missing or the configuration does not fit it.
pub fn check(config: &Config) -> Result<CheckReport, RunError> {
    let dataset = Dataset::open(Path::new(&config.dataset))?;
    let blueprint = Blueprint::new(config, &dataset)?;
    let edge_sets = config
        .edge_sets
        .iter()
        .map(|name| dataset.edge_set(name))
        .collect::<Result<Vec<_>, _>>()?;
    let extent = run::extent(config, &blueprint, &edge_sets)?;
    let params = Params::new(&blueprint.spec);
    let parameters: u64 = params
        .tensors()
        .iter()
        .map(|t| 8 * t.shape.iter().product::<usize>() as u64)
        .sum();
    let workers = worker_count(config) as u64;
    let memory = vec![
        ("program and libtorch".to_owned(), PROGRAM),
        (
            "partitions in the buffer".to_owned(),
            resident_bytes(config, &blueprint.layout),
        ),
        (
            "edges of a bucket".to_owned(),
            edge_bytes(&blueprint, &edge_sets, extent.edge_chunks),
        ),
        ("relations and their optimizer".to_owned(), 2 * parameters),
        (
            format!("{workers} workers"),
            workers * worker_bytes(config, &blueprint),
        ),
        ("plugins".to_owned(), config.plugins.limits.memory_mib << 20),
    ];
    let tables: u64 = blueprint
        .layout
        .all_tables()
        .map(|(t, p)| blueprint.layout.types[t].bytes(p))
        .sum();
    let version = tables + parameters;
    let mut disk = vec![
        ("checkpoint".to_owned(), version),
        ("next version while it is written".to_owned(), version),
    ];
    if let Some(interval) = config.checkpoint_preservation_interval {
        let copies = u64::from(config.num_epochs / interval.max(1));
        disk.push((format!("{copies} preserved epochs"), copies * version));
    }
    Ok(CheckReport { memory, disk })
}

/// Reads every file that training will read and compares it with its checksum.
///
/// # Errors
/// The first file that is missing or damaged.
pub fn verify(config: &Config) -> Result<(), RunError> {
    let dataset = Dataset::open(Path::new(&config.dataset))?;
    let blueprint = Blueprint::new(config, &dataset)?;
    blueprint.features(&dataset)?;
    for name in config.entities.keys() {
        dataset.dictionary(name)?;
    }
    for name in &config.edge_sets {
        let set = dataset.edge_set(name)?;
        for bucket in blueprint.layout.grid() {
            for start in (0..set.bucket_len(bucket)).step_by(READ_ROWS as usize) {
                set.read(
                    bucket,
                    start..(start + READ_ROWS).min(set.bucket_len(bucket)),
                )?;
            }
        }
    }
    Ok(())
}

/// What the first pass of `order` will cost.
///
/// # Errors
/// When the order fails or its plan is no permutation of the grid.
pub fn first_plan(config: &Config, order: &mut dyn BucketOrder) -> Result<PlanCost, RunError> {
    let dataset = Dataset::open(Path::new(&config.dataset))?;
    let blueprint = Blueprint::new(config, &dataset)?;
    let set = dataset.edge_set(config.edge_sets.first().map_or("train", String::as_str))?;
    let edges = blueprint
        .layout
        .grid()
        .map(|bucket| set.bucket_len(bucket))
        .collect();
    let pass = blueprint
        .layout
        .pass(config, PassId::default(), edges, Vec::new());
    let buckets = order.plan(&pass)?;
    plan::check(&pass, &buckets).map_err(|source| RunError::Plan {
        strategy: order.id().clone(),
        source,
    })?;
    Ok(plan::cost(&pass, &buckets))
}

/// The fixed tables and as many of the largest groups as the buffer has slots.
fn resident_bytes(config: &Config, layout: &Layout) -> u64 {
    let fixed: u64 = layout
        .fixed_tables()
        .map(|(t, p)| layout.types[t].bytes(p))
        .sum();
    let rhs = if layout.shared {
        0
    } else {
        layout.rhs_partitions
    };
    let lhs_groups = (0..layout.lhs_partitions).map(|p| (Side::Lhs, p));
    let mut groups: Vec<u64> = lhs_groups
        .chain((0..rhs).map(|p| (Side::Rhs, p)))
        .map(|g| layout.group_bytes(g))
        .collect();
    groups.sort_unstable_by(|a, b| b.cmp(a));
    fixed
        + groups
            .iter()
            .take(config.buffer_partitions as usize)
            .sum::<u64>()
}

/// The largest chunk of a bucket: columns, the order of training, and the batch being decoded.
fn edge_bytes(blueprint: &Blueprint, edge_sets: &[EdgeSet], chunks: u32) -> u64 {
    let of = |set: &EdgeSet| {
        let largest = blueprint
            .layout
            .grid()
            .map(|bucket| set.bucket_len(bucket))
            .max()
            .unwrap_or(0);
        let rows = largest.div_ceil(u64::from(chunks.max(1)));
        let column_bytes = if set.has_weight() { 16 } else { 12 };
        rows * (column_bytes + 8) + 2 * rows.min(READ_ROWS) * column_bytes
    };
    edge_sets.iter().map(of).max().unwrap_or(0)
}

/// Buffers of one worker: a slice, and a gradient row per row that a batch touches.
fn worker_bytes(config: &Config, blueprint: &Blueprint) -> u64 {
    let relations = blueprint.spec.relations.iter();
    let training = relations
        .map(|r| relation_bytes(config, blueprint, r))
        .max()
        .unwrap_or(0);
    if config.eval_fraction > 0.0 {
        let chunk = u64::from(
            config
                .eval_num_batch_negs
                .max(config.eval_num_uniform_negs)
                .max(1),
        );
        let columns = u64::from(config.eval_num_batch_negs + config.eval_num_uniform_negs);
        let width = blueprint
            .layout
            .types
            .iter()
            .map(|t| t.dimension as u64)
            .max()
            .unwrap_or(0);
        return training + SLICE + slice_bytes(chunk, columns, width);
    }
    training
}

fn relation_bytes(config: &Config, blueprint: &Blueprint, relation: &RelationSpec) -> u64 {
    let batch = u64::from(config.batch_size);
    let chunk = blueprint
        .spec
        .chunk_size(relation, config.batch_size as usize) as u64;
    let mut total = 0;
    for side in Side::BOTH {
        let layout = &blueprint.layout.types[relation.entity(side)];
        let rows = layout.rows.iter().copied().max().unwrap_or(0);
        let uniform = blueprint.spec.uniform_negatives(relation, side) as u64;
        let touched = if relation.all_negs {
            rows
        } else {
            batch + batch.div_ceil(chunk) * uniform
        };
        let width = layout.dimension as u64;
        // Gradient rows grow by doubling; the map from rows to them is dense.
        total += 4 * rows + 2 * 4 * width * touched.min(rows);
        total += if relation.all_negs {
            2 * 4 * width * rows + slice_bytes(chunk.min(256), rows, 0)
        } else {
            let own = if config.num_batch_negs > 0 { chunk } else { 0 };
            slice_bytes(chunk, own + uniform, width)
        };
    }
    total + SLICE
}

/// Rows and gradients of a chunk of positives and its candidates, and their scores.
fn slice_bytes(chunk: u64, columns: u64, width: u64) -> u64 {
    4 * (3 * (chunk + columns) * width + 2 * chunk * columns)
}
