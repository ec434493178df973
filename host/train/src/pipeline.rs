//! The pipeline of a run: `check` prints it, and training creates its threads and pipes from it.

use pbg_config::Config;
use pbg_core::batch_graph::pipeline::{Pipeline, PipelineParameters, SlicePlan};
use pbg_core::graph::Side;
use pbg_core::model::Device;
use pbg_core::schedule::RunExtent;
use pbg_dataset::EdgeSet;
use pbg_kernels::step;
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_model::layout::Layout;
use pbg_model::memory;
use pbg_model::model_bytes::READ_ROWS;
use pbg_model::resolved::ResolvedConfig;

use crate::check::rows;

/// Returns the groups that train `edge_sets` with the pipes between them, and the slices of a full batch for the
/// relation that needs the most memory.
///
/// # Errors
/// When the model cannot be trained.
pub(crate) fn of_run(
    resolved: &ResolvedConfig,
    edge_sets: &[EdgeSet],
    extent: RunExtent,
) -> Result<(Pipeline, SlicePlan), RunError> {
    let (config, blueprint, settings) =
        (resolved.config(), resolved.blueprint(), resolved.settings());
    let batch = config.batch_size as usize;
    let execution = &settings.training_execution;
    let slices = step::slice_plan(&blueprint.spec, batch, execution, &rows(blueprint))?;
    let (_, swapped) = partition_bytes(config, &blueprint.layout);
    let machine = PipelineParameters {
        partitions_ahead: config.execution.partitions_ahead(),
        swapped: swapped.len(),
        partition_bytes: swapped.iter().sum(),
        buckets_ahead: config.execution.buckets_ahead(),
        edge_bytes: edge_bytes(edge_sets, extent.edge_chunks).bucket,
        batches_ahead: match blueprint.spec.is_dynamic() {
            true => config.execution.batches_ahead(),
            // The sampler receives every loss before it draws the next batch, so no batch can be planned ahead.
            false => 0,
        },
        planned_bytes: planned_bytes(blueprint, batch),
        threads: settings.training_threads(),
        gpu: match settings.device {
            Device::Cpu => None,
            Device::Cuda(index) => Some(index),
        },
    };
    let pipeline = Pipeline::new(&machine, &slices, config.execution.update);
    Ok((pipeline, slices))
}

/// Returns the bytes of the plan of a batch of `edges` edges: columns, draws, and 8 bytes for each offset, including
/// the offsets of the rows that the batch uses.
fn planned_bytes(blueprint: &Blueprint, edges: usize) -> u64 {
    let spec = &blueprint.spec;
    let most = spec.relations.iter().map(|relation| {
        let chunks = edges.div_ceil(spec.chunk_size(relation, edges));
        let draws = |side| chunks.saturating_mul(spec.uniform_negatives(relation, side)) as u64;
        let drawn = memory::sum(Side::BOTH.into_iter().map(draws));
        let all: u64 = match relation.all_negs {
            true => Side::BOTH
                .map(|side| largest(blueprint, relation.entity(side)))
                .iter()
                .sum(),
            false => 0,
        };
        let edges = edges as u64;
        // 4 bytes for each draw, and four offsets.
        let of_draws = drawn.saturating_mul(4 + 8 * 4);
        // Columns, and the number of draws of each side.
        let others = (16 + 2 * 4) * edges + 8 * (8 * edges + spec.relation_count() as u64 + all);
        of_draws.saturating_add(others)
    });
    most.max().unwrap_or(0)
}

/// Returns the number of rows in the largest partition of a type.
fn largest(blueprint: &Blueprint, entity: usize) -> u64 {
    let rows = blueprint.layout.types[entity].rows.iter();
    rows.copied().max().unwrap_or(0)
}

/// Returns the bytes of the resident tables (the fixed ones, and the largest groups in all slots), and the bytes of
/// each further group that may be in flight.
pub(crate) fn partition_bytes(config: &Config, layout: &Layout) -> (u64, Vec<u64>) {
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
    let slots = (config.buffer_partitions as usize).min(groups.len());
    let mut swapped = groups.split_off(slots);
    swapped.truncate(config.execution.partitions_ahead());
    (fixed + groups.iter().sum::<u64>(), swapped)
}

/// Memory of the edges in the largest chunk of a bucket.
#[derive(Default)]
pub(crate) struct EdgeBytes {
    /// Number of edges.
    pub(crate) edges: u64,
    /// Bytes of their columns and of the training order.
    pub(crate) bucket: u64,
    /// Bytes of the record batch that is being decoded.
    pub(crate) decoded: u64,
}

/// Returns the memory of the edges in the largest of `chunks` chunks of a bucket, over all edge sets.
pub(crate) fn edge_bytes(edge_sets: &[EdgeSet], chunks: u32) -> EdgeBytes {
    let of = |set: &EdgeSet| {
        let rows = set.largest_bucket().div_ceil(u64::from(chunks.max(1)));
        let column_bytes = if set.has_weight() { 16 } else { 12 };
        EdgeBytes {
            edges: rows,
            bucket: rows * (column_bytes + 8),
            decoded: 2 * rows.min(READ_ROWS) * column_bytes,
        }
    };
    let (sets, none) = (edge_sets.iter().map(of), EdgeBytes::default());
    sets.fold(none, |most, set| EdgeBytes {
        edges: most.edges.max(set.edges),
        bucket: most.bucket.max(set.bucket),
        decoded: most.decoded.max(set.decoded),
    })
}
