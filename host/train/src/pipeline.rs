//! The pipeline of a run: what `check` prints, and what training makes its threads and pipes from.

use pbg_config::Config;
use pbg_core::batch_graph::pipeline::{Machine, Pipeline, SlicePlan};
use pbg_core::graph::Side;
use pbg_core::model::Device;
use pbg_core::schedule::Extent;
use pbg_kernels::step;
use pbg_store::dataset::EdgeSet;

use crate::check::{READ_ROWS, rows};
use crate::error::RunError;
use crate::layout::Layout;
use crate::memory;
use crate::model::Blueprint;
use crate::resolved::Resolved;

impl Resolved {
    /// The groups that train `edge_sets` and the pipes between them; and how they cut a full batch, for the
    /// relation that needs most memory.
    ///
    /// # Errors
    /// When the model cannot be trained.
    pub(crate) fn pipeline(
        &self,
        edge_sets: &[EdgeSet],
        extent: Extent,
    ) -> Result<(Pipeline, SlicePlan), RunError> {
        let (config, blueprint, settings) = (self.config(), self.blueprint(), self.settings());
        let batch = config.batch_size as usize;
        let execution = &settings.training_execution;
        let slices = step::slice_plan(&blueprint.spec, batch, execution, &rows(blueprint))?;
        let (_, swapped) = partition_bytes(config, &blueprint.layout);
        let machine = Machine {
            partitions_ahead: config.execution.partitions_ahead(),
            swapped: swapped.len(),
            partition_bytes: swapped.iter().sum(),
            buckets_ahead: config.execution.buckets_ahead(),
            edge_bytes: edge_bytes(edge_sets, extent.edge_chunks).bucket,
            batches_ahead: match blueprint.spec.is_dynamic() {
                true => config.execution.batches_ahead(),
                // The sampler hears of every loss before it draws the next batch.
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
}

/// Bytes of the plan of a batch of `edges` edges: columns and draws, and their offsets in 8 bytes each, those of the
/// rows that it touches included.
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
        // 4 bytes of each draw, and four offsets of it.
        let of_draws = drawn.saturating_mul(4 + 8 * 4);
        let others = 16 * edges + 8 * (8 * edges + spec.relation_count() as u64 + all);
        of_draws.saturating_add(others)
    });
    most.max().unwrap_or(0)
}

/// Rows of the largest partition of a type.
fn largest(blueprint: &Blueprint, entity: usize) -> u64 {
    let rows = blueprint.layout.types[entity].rows.iter();
    rows.copied().max().unwrap_or(0)
}

/// Bytes of the fixed tables and as many of the largest groups as the buffer has slots; and of each of those
/// that may be on their way besides.
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

/// What the edges of the largest chunk of a bucket take.
#[derive(Default)]
pub(crate) struct EdgeBytes {
    /// How many they are.
    pub(crate) edges: u64,
    /// Their columns and the order of training.
    pub(crate) bucket: u64,
    /// The batch that is being decoded.
    pub(crate) decoded: u64,
}

/// Bytes of the edges of the largest of `chunks` chunks of a bucket, in any edge set.
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
