//! The memory of a worker's buffers, computed in advance from the buffers of the sliced graphs.

use std::sync::Arc;

use pbg_core::batch_graph::pipeline::SlicePlan;
use pbg_core::batch_graph::{Buffer, ElementType, TensorName};
use pbg_core::graph::Side;
use pbg_core::model::Precision;
use pbg_gemm::pages::HUGE_PAGE;
use pbg_rows::spec::{ModelSpec, SpecError, step_plan};

use crate::operators;
use crate::step::Execution;
use crate::step::common_products;
use crate::step::plan::BatchPlan;
use crate::step::relation_products;

/// Buffers of sums of gradients, which only training has.
const SUMS: [&str; 6] = [
    "gradient rows",
    "touched rows",
    "place of each row",
    "parameter gradients",
    "touched relations",
    "place of each relation",
];

/// Sizes of the tables of one entity type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableSizes {
    /// Rows of the largest partition (for a featurized type, features).
    pub largest: usize,
    /// Whether the type has more than one partition.
    pub partitioned: bool,
}

/// Returns an upper bound of the bytes of one [`StepWorker`](super::StepWorker)'s buffers for batches of `batch_size`
/// edges, with the settings `execution`, where the tables of entity type `t` have the sizes `rows[t]`.
///
/// Every buffer is counted at the size that it has for the relation that needs most of it.
///
/// # Errors
/// When a relation cannot be trained.
pub fn worker_bytes(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[TableSizes],
) -> Result<u64, SpecError> {
    buffer_bytes(spec, batch_size, execution, rows, &[])
}

/// Returns an upper bound of the bytes of the buffers of a worker that only scores batches
/// ([`StepWorker::score`](super::StepWorker::score)), for the arguments of [`worker_bytes`].
///
/// # Errors
/// When a relation cannot be trained.
pub fn scoring_bytes(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[TableSizes],
) -> Result<u64, SpecError> {
    buffer_bytes(spec, batch_size, execution, rows, &SUMS)
}

/// Returns an upper bound of the bytes of a worker's buffers except those `without`.
fn buffer_bytes(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[TableSizes],
    without: &[&str],
) -> Result<u64, SpecError> {
    // A worker keeps one buffer of each name, which grows to the largest size that any relation needs.
    let mut needs: Vec<((TensorName, ElementType, usize), usize)> = Vec::new();
    let mut common = 0;
    let [mut rows_of_relation, mut parameters] = [0; 2];
    for plan in plans(spec, batch_size, execution, rows)? {
        let chunks = chunks_per_slice(&plan);
        common = common_products::buffer_bytes(&plan).max(common);
        let [of_rows, of_parameters] = relation_products::buffer_bytes(&plan);
        rows_of_relation = of_rows.max(rows_of_relation);
        parameters = of_parameters.max(parameters);
        let mut before: Vec<(TensorName, ElementType)> = Vec::new();
        let counted = |buffer: &&Buffer| !without.contains(&buffer.name.what);
        for buffer in plan.step.buffers.iter().filter(counted) {
            let kind = (buffer.name, buffer.element);
            let nth = before.iter().filter(|other| **other == kind).count();
            before.push(kind);
            let (key, bytes) = ((kind.0, kind.1, nth), buffer.bytes_of(&plan.sizes, chunks));
            match needs.iter_mut().find(|(known, _)| *known == key) {
                Some((_, most)) => *most = bytes.max(*most),
                None => needs.push((key, bytes)),
            }
        }
    }
    // The last huge page of a large buffer may be only partly used.
    let pages = |bytes: usize| match bytes >= HUGE_PAGE / 2 {
        true => bytes.saturating_add(HUGE_PAGE),
        false => bytes,
    };
    let others = [
        common,
        common,
        rows_of_relation,
        rows_of_relation,
        rows_of_relation,
        parameters,
    ];
    let buffers = needs.iter().map(|&(_, bytes)| bytes).chain(others);
    let buffers = buffers.map(|bytes| pages(bytes) as u64);
    let formulas = operators::formula::worker_bytes(spec) as u64;
    Ok(buffers.fold(formulas, u64::saturating_add))
}

/// Returns how a full batch is cut into slices, and their buffers, for the relation whose slices need most memory.
///
/// # Errors
/// When a relation cannot be trained.
pub fn slice_plan(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[TableSizes],
) -> Result<SlicePlan, SpecError> {
    let plans = plans(spec, batch_size, execution, rows)?;
    let reports = plans
        .iter()
        .map(|plan| SlicePlan::new(&plan.step, &plan.sizes, chunks_per_slice(plan)));
    Ok(reports
        .max_by_key(|plan| plan.slice_bytes() + plan.batch_bytes)
        .unwrap_or_default())
}

/// Returns the greatest number of negatives in a row of scores, for the arguments of [`worker_bytes`].
///
/// # Errors
/// When a relation cannot be trained.
pub fn max_negatives(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[TableSizes],
) -> Result<usize, SpecError> {
    let plans = plans(spec, batch_size, execution, rows)?;
    let of = |plan: &BatchPlan| {
        let on = |side: Side| match plan.step.step_spec.all(side) {
            true => plan.sizes.entities[side as usize],
            false => plan.columns(side),
        };
        Side::BOTH.into_iter().map(on).max().unwrap_or(0)
    };
    Ok(plans.iter().map(of).max().unwrap_or(0))
}

/// Returns the number of the graph's chunks per slice.
fn chunks_per_slice(plan: &BatchPlan) -> usize {
    plan.chunks_per_slice * plan.chunk / plan.sizes.chunk.max(1)
}

/// Returns the plans of all batches that differ in step or tables: for each relation with another step, and for buckets
/// with one or with two partitions.
fn plans(
    spec: &ModelSpec,
    batch_size: usize,
    execution: &Execution,
    rows: &[TableSizes],
) -> Result<Vec<BatchPlan>, SpecError> {
    let mut plans: Vec<BatchPlan> = Vec::new();
    for (index, relation) in spec.relations.iter().enumerate() {
        let step_spec = spec.step_spec(index, execution.precision == Precision::Bf16);
        let types = Side::BOTH.map(|side| rows.get(relation.entity(side)));
        let largest = types.map(|rows| rows.map_or(0, |rows| rows.largest));
        let partitioned = types.iter().flatten().any(|rows| rows.partitioned);
        let all = Side::BOTH.iter().any(|&side| step_spec.all(side));
        for (shared, entities) in [
            (true, largest),
            (false, largest),
            // Where all entities are negatives, a small partition leads to long slices.
            (false, [1; 2]),
        ] {
            let happens = match shared {
                true => step_spec.one_type,
                false => !step_spec.one_type || partitioned,
            };
            let sizes = step_spec.sizes(batch_size.max(1), entities, largest, shared);
            let same =
                |plan: &BatchPlan| (&plan.step.step_spec, &plan.sizes) == (&step_spec, &sizes);
            let wanted = happens && (entities == largest || (all && partitioned));
            if wanted && !plans.iter().any(same) {
                let step = Arc::new(step_plan(index, &step_spec, execution.update)?);
                plans.push(BatchPlan::new(step, sizes, execution.slice_bytes.max(1)));
            }
        }
    }
    Ok(plans)
}
