//! Memory and disk space that a run needs, and verification of its inputs before it starts.

mod verify;

use std::borrow::Cow;

use pbg_checkpoint::CONVERSION_BYTES;
use pbg_core::batch_graph::pipeline::{EDGES, PLANNING, Pipeline, STORAGE, SlicePlan};
use pbg_core::model::{Device, EmbeddingFormat, NegativesFrom};
use pbg_core::strategy::{Loss as _, SelectionRequirements};
use pbg_dataset::EdgeSet;
use pbg_gemm::PACKED_BYTES;
use pbg_kernels::step::{self, TableSizes};
use pbg_model::blueprint::Blueprint;
use pbg_model::error::{RunError, SettingError};
use pbg_model::layout::Layout;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::resume_point::{self, stops_within_buckets};
use pbg_model::{memory, model_bytes};
use pbg_query::evaluate;
use pbg_rows::params::Params;
use pbg_rows::spec::{ModelSpec, SpecError};
use serde::{Deserialize, Serialize};

pub use self::verify::{
    CheckpointVerification, first_pass, first_plan, too_large_to_plan, verify, verify_checkpoint,
};
use crate::pipeline::{self, EdgeBytes};
use crate::strategies::Strategies;
use crate::{negatives, own_vectors, scheduled_factors, selection, validation};
/// Number of tensors that libtorch allocates between rows and gradients for each tensor that the graph keeps.
const INTERMEDIATE: u64 = 4;
/// Bytes of a row's version at the owner of shared parameters.
const VERSION: u64 = 8;
/// Bytes that a row in a map occupies in addition to its values.
const SPARSE_ROW: u64 = 64;

/// Bytes of a bucket in the plan of a pass while a run trains by it: measured, with a margin.
const PLANNED_BUCKET: u64 = 3 << 10;
/// Bytes of a bucket while an order is asked for a plan: measured, with a margin.
const ASKED_BUCKET: u64 = 1 << 10;
/// Largest plan, in bytes, that `check` asks an order for.
const CHECKED_PLAN: u64 = 32 << 20;
/// A smaller plan, in bytes, is covered by the program's own margin.
const SMALL_PLAN: u64 = 1 << 20;

/// Name of the component for the memory of plugins.
const PLUGINS: &str = "plugins";

/// GPU memory that CUDA and libtorch's kernels occupy before any data: an assumption, not measured.
const CUDA: u64 = 700 << 20;

/// Memory that training needs on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceMemory {
    /// Name of the device.
    pub device: String,
    /// Bytes by component. The component for libtorch's intermediate results is an estimate.
    pub parts: Vec<(String, u64)>,
}

/// Upper bounds of the memory and disk space of a run, by component, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Main memory.
    pub memory: Vec<(String, u64)>,
    /// Memory of the training device; `None` for the processor cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_memory: Option<DeviceMemory>,
    /// Disk under `checkpoint_path`.
    pub disk: Vec<(String, u64)>,
    /// Groups of threads, their devices, and the pipes between them.
    pub execution: Pipeline,
    /// Slices of a full batch, for the relation that needs the most memory.
    pub slices: SlicePlan,
}

impl CheckReport {
    /// Returns the main memory of the host alone, in bytes, without the memory that plugins are allowed, since few
    /// plugins use it.
    #[must_use]
    pub fn taken(&self) -> u64 {
        let parts = self.memory.iter().filter(|(name, _)| name != PLUGINS);
        memory::sum(parts.map(|(_, bytes)| *bytes))
    }

    /// Returns the number of threads of all groups.
    #[must_use]
    pub fn threads(&self) -> usize {
        let groups = self.execution.groups.iter();
        groups.map(|group| group.threads).sum()
    }
}

/// Returns the memory needed to exchange shared parameters, in addition to the parameters themselves. This is an upper
/// bound: a single trainer that owns all of them.
fn exchange_bytes(blueprint: &Blueprint) -> u64 {
    let layout = &blueprint.layout;
    let fixed = || layout.fixed_tables().map(|(t, p)| (&layout.types[t], p));
    let tables: u64 = fixed().map(|(layout, p)| layout.bytes(p)).sum();
    let of_params = Params::sizes(&blueprint.spec).map(|size| 2 * size.rows);
    let rows = of_params.sum::<u64>()
        + fixed()
            .map(|(layout, p)| layout.rows[p as usize])
            .sum::<u64>();
    let shared = tables.saturating_add(model_bytes::parameter_bytes(&blueprint.spec));
    // Four copies: the values seen last, the sums of changes, the unsettled changes of the settlement under way, and
    // those of the next one.
    let copies = shared.saturating_mul(4);
    copies.saturating_add(2 * (VERSION + SPARSE_ROW) * rows)
}

/// Returns the bytes of the plan of a pass, with the edge count of each bucket and the copy in a checkpoint; 0 if the
/// program's own margin covers it.
fn plan_bytes(layout: &Layout) -> u64 {
    let bytes = layout.buckets().saturating_mul(PLANNED_BUCKET);
    match bytes < SMALL_PLAN {
        true => 0,
        false => bytes,
    }
}

/// Refuses to plan `passes` passes over a grid of `lhs` x `rhs` partitions if there is too little memory.
///
/// # Errors
/// When the available memory is too small.
pub fn require_plans([lhs, rhs]: [u32; 2], passes: u64) -> Result<(), RunError> {
    let buckets = u64::from(lhs) * u64::from(rhs);
    // The edge counts of all passes are in memory at once; plans are made one after the other.
    let passes = passes.saturating_mul(size_of::<u64>() as u64);
    let bytes = buckets.saturating_mul(passes.saturating_add(ASKED_BUCKET));
    Ok(memory::require_more(
        "planning passes over the grid",
        bytes,
        "use fewer partitions, or plan fewer passes at once",
    )?)
}

/// Returns the bytes that asking an order for a plan takes, if they are too many for `check`.
fn too_large_to_ask(layout: &Layout) -> Option<u64> {
    let bytes = layout.buckets().saturating_mul(ASKED_BUCKET);
    (bytes > CHECKED_PLAN).then_some(bytes)
}

/// Returns a component, or `None` if its size is 0.
fn if_any(name: &str, bytes: u64) -> Option<(String, u64)> {
    (bytes > 0).then(|| (name.to_owned(), bytes))
}

/// Adds up the needs of training with `strategies`; without them, the buffers of the loss and the tables of negatives are
/// not counted.
///
/// # Errors
/// When the dataset lacks an edge set, or the model cannot be trained with these strategies.
pub fn check(
    resolved: &ResolvedConfig,
    strategies: Option<&Strategies>,
) -> Result<CheckReport, RunError> {
    if let Some(strategies) = strategies {
        check_negatives(resolved, strategies)?;
    }
    let edge_sets = resolved.edge_sets()?;
    let extent = resolved.extent(&edge_sets)?;
    let (execution, slices) = pipeline::of_run(resolved, &edge_sets, extent)?;
    let edges = pipeline::edge_bytes(&edge_sets, extent.edge_chunks);
    Ok(CheckReport {
        memory: main_memory(resolved, &execution, &edges, &edge_sets, strategies)?,
        device_memory: device_memory(resolved, &slices),
        disk: disk(resolved),
        execution,
        slices,
    })
}

/// Checks that the negative sampler or selector can choose the negatives that the configuration asks for.
fn check_negatives(resolved: &ResolvedConfig, strategies: &Strategies) -> Result<(), SettingError> {
    let Some(chosen) = strategies.negatives.as_ref().filter(|it| !it.is_uniform()) else {
        return Ok(());
    };
    let (kind, chosen) = (chosen.kind(), chosen.id().to_string());
    if resolved.config().negatives_from == NegativesFrom::Bucket {
        return Err(SettingError::NegativesFrom { kind, chosen });
    }
    if resolved.config().num_uniform_negs == 0 {
        return Err(SettingError::NoChosenNegatives { kind, chosen });
    }
    let scores = strategies.required_selection();
    let scores = scores.is_some_and(|required| required.scores);
    match scores && resolved.settings().device != Device::Cpu {
        true => Err(SettingError::CandidateScores {
            selector: chosen,
            device: resolved.config().execution.device.clone(),
        }),
        false => Ok(()),
    }
}

/// Returns the components of main memory. `edges` is the size of a bucket's edges.
fn main_memory(
    resolved: &ResolvedConfig,
    execution: &Pipeline,
    edges: &EdgeBytes,
    edge_sets: &[EdgeSet],
    strategies: Option<&Strategies>,
) -> Result<Vec<(String, u64)>, RunError> {
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let workers = resolved.settings().workers as u64;
    let worker = worker_bytes(resolved)?;
    let piped = |group| execution.pipe(group).map_or(0, |pipe| pipe.bytes);
    let (resident, _) = pipeline::partition_bytes(config, &blueprint.layout);
    let mut memory = vec![
        model_bytes::program(),
        ("partitions in the buffer".to_owned(), resident),
    ];
    memory.extend(if_any("partitions in flight", piped(STORAGE)));
    let copies = commit_bytes(&blueprint.layout, execution.pipe(STORAGE).is_some());
    memory.extend(if_any("copies for commits", copies));
    if config.storage == EmbeddingFormat::Bf16 {
        memory.push(("conversion to bf16".to_owned(), CONVERSION_BYTES));
    }
    let buckets = 1 + config.execution.buckets_ahead();
    let required = strategies
        .map(Strategies::required_data)
        .unwrap_or_default();
    let selection = strategies.and_then(Strategies::required_selection);
    memory.extend([
        (
            edges_of(buckets),
            memory::sum([edges.bucket, edges.decoded, piped(EDGES)]),
        ),
        (
            "relations and their optimizer".to_owned(),
            model_bytes::parameter_bytes(&blueprint.spec).saturating_mul(2),
        ),
        (
            match workers {
                1 => "1 worker".to_owned(),
                several => format!("{several} workers"),
            },
            worker
                .saturating_add(PACKED_BYTES as u64)
                .saturating_mul(workers),
        ),
        // The bucket order, the loss's instance that updates its parameters, the sampler of each worker, the negative
        // sampler, the negative selector of each worker and the learning rate schedule.
        (
            PLUGINS.to_owned(),
            (2 + workers
                + u64::from(!required.is_nothing())
                + selection.map_or(0, |_| workers)
                + u64::from(config.lr_schedule.plugin().is_some()))
                * (config.plugins.limits.memory_mib << 20),
        ),
    ]);
    memory.extend(if_any("plan of a pass", plan_bytes(&blueprint.layout)));
    memory.extend(if_any("planned batches", piped(PLANNING)));
    memory.extend(if_any("learning rates of passes", {
        let bytes = scheduled_factors::table_bytes(config, resolved.extent(edge_sets)?);
        // A smaller table is covered by the program's own margin, as a small plan is.
        if bytes > SMALL_PLAN { bytes } else { 0 }
    }));
    let slots = config.buffer_partitions;
    let tables = negatives::table_bytes(required, blueprint, edge_sets, slots);
    memory.extend(if_any("tables of negatives", tables));
    if let Some(required) = selection {
        let bytes = candidate_bytes(resolved, required)?.saturating_mul(workers);
        memory.extend(if_any("candidates for negatives", bytes));
    }
    memory.extend(if_any(
        "record of trained batches",
        recorded(resolved, edges),
    ));
    if config.is_distributed() {
        let bytes = exchange_bytes(blueprint);
        memory.extend(if_any("exchange with other trainers", bytes));
    }
    memory.extend(if_any("vectors from files", own_vectors::bytes(resolved)));
    let features = model_bytes::feature_bytes(blueprint, resolved.dataset());
    memory.extend(if_any("features", features));
    if let Some(edges) = &config.validation.edges {
        let options = validation::options(resolved, edges);
        let bytes = evaluate::validation_bytes(resolved, &options)?;
        memory.push(("validation".to_owned(), bytes));
    }
    if let Some(Strategies { loss, .. }) = strategies {
        let columns = most_negatives(resolved)?;
        let bytes = (loss.worker_bytes(columns) as u64).saturating_mul(workers);
        memory.push((format!("loss {}", loss.id()), bytes));
    }
    Ok(memory)
}

/// Returns the bytes that one worker needs to select negatives.
fn candidate_bytes(
    resolved: &ResolvedConfig,
    required: SelectionRequirements,
) -> Result<u64, SpecError> {
    let (spec, rows) = (&resolved.blueprint().spec, rows(resolved.blueprint()));
    let edges = resolved.config().batch_size as usize;
    let execution = &resolved.settings().execution;
    selection::selection_bytes(spec, edges, required, execution, &rows)
}

/// Returns the bytes of the record of trained batches, for a bucket that can be interrupted.
fn recorded(resolved: &ResolvedConfig, edges: &EdgeBytes) -> u64 {
    let draws = !resolved.blueprint().spec.is_dynamic();
    match draws && stops_within_buckets(resolved.config()) {
        true => resume_point::draw_bytes(edges.edges),
        false => 0,
    }
}

/// Returns the memory needed on a GPU, if training uses one.
fn device_memory(resolved: &ResolvedConfig, slices: &SlicePlan) -> Option<DeviceMemory> {
    if resolved.settings().device == Device::Cpu {
        return None;
    }
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let (resident, swapped) = pipeline::partition_bytes(config, &blueprint.layout);
    let tables = resident + swapped.iter().sum::<u64>();
    let parameters = model_bytes::parameter_bytes(&blueprint.spec);
    Some(DeviceMemory {
        device: config.execution.device.clone(),
        parts: vec![
            ("CUDA and libtorch".to_owned(), CUDA),
            ("partitions".to_owned(), tables),
            ("relations and their optimizer".to_owned(), parameters),
            // Copies of the rows in the batch, and their gradients before and after scaling.
            ("a batch".to_owned(), slices.batch_bytes.saturating_mul(3)),
            (
                "a slice, about".to_owned(),
                slices.slice_bytes().saturating_mul(INTERMEDIATE),
            ),
        ],
    })
}

/// Returns the components of disk space for the checkpoint.
fn disk(resolved: &ResolvedConfig) -> Vec<(String, u64)> {
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let tables: u64 = blueprint
        .layout
        .all_tables()
        .map(|(t, p)| blueprint.layout.types[t].stored_bytes(p))
        .sum();
    let version = tables.saturating_add(model_bytes::parameter_bytes(&blueprint.spec));
    let mut disk = vec![
        ("checkpoint".to_owned(), version),
        // Partitions that are evicted during a commit belong to the next version.
        (
            "next two versions while written".to_owned(),
            version.saturating_mul(2),
        ),
    ];
    if let Some(interval) = config.checkpoint_preservation_interval {
        let copies = u64::from(config.num_epochs / interval.max(1));
        disk.push((
            format!("{copies} preserved epochs"),
            version.saturating_mul(copies),
        ));
    }
    disk
}

/// Returns the bytes of the copies trained while a commit writes the originals, and of one partition that no bucket has
/// touched before the first commit, which therefore has to be initialized.
fn commit_bytes(layout: &Layout, beside: bool) -> u64 {
    let tables = layout
        .all_tables()
        .map(|(t, p)| (t, layout.types[t].bytes(p)));
    let swapped = tables.filter(|&(t, _)| layout.types[t].partitioned());
    let drawn = swapped.map(|(_, bytes)| bytes).max().unwrap_or(0);
    layout.copies(beside) + drawn
}

/// Names the memory of edges: those of the bucket in training and of the buckets prepared ahead.
fn edges_of(buckets: usize) -> String {
    match buckets {
        1 => "edges of a bucket".to_owned(),
        2 => "edges of two buckets".to_owned(),
        n => format!("edges of {n} buckets"),
    }
}

/// Returns the bytes of the buffers of one worker.
fn worker_bytes(resolved: &ResolvedConfig) -> Result<u64, SpecError> {
    let rows = rows(resolved.blueprint());
    let mut bytes: u64 = 0;
    for (spec, batch) in batches(resolved) {
        let of_step = step::worker_bytes(&spec, batch, &resolved.settings().execution, &rows)?;
        bytes = bytes.saturating_add(of_step);
    }
    if resolved.config().eval_fraction > 0.0 {
        let (settings, spec) = (resolved.settings(), resolved.eval_spec());
        let batch = settings.eval_batch_size;
        let columns = step::max_negatives(&spec, batch, &settings.execution, &rows)?;
        bytes = bytes.saturating_add(step::ranking_bytes(columns, batch));
    }
    Ok(bytes)
}

/// Returns the largest number of negatives in a row of scores.
fn most_negatives(resolved: &ResolvedConfig) -> Result<usize, SpecError> {
    let blueprint = resolved.blueprint();
    let rows = rows(blueprint);
    let execution = &resolved.settings().execution;
    // A loss plugin also evaluates scores of a device, in blocks of as many rows as on a core.
    let batch = resolved.config().batch_size as usize;
    let mut most = step::max_negatives(&blueprint.spec, batch, execution, &rows)?;
    for (spec, batch) in batches(resolved) {
        most = step::max_negatives(&spec, batch, execution, &rows)?.max(most);
    }
    Ok(most)
}

/// Returns the table size of each entity type.
pub(crate) fn rows(blueprint: &Blueprint) -> Vec<TableSizes> {
    let types = blueprint.layout.types.iter();
    types
        .map(|t| TableSizes {
            largest: t.rows.iter().copied().max().unwrap_or(0) as usize,
            partitioned: t.partitioned(),
        })
        .collect()
}

/// Returns the models and batch sizes for which a worker has buffers: training, and evaluation if edges are held out.
fn batches(resolved: &ResolvedConfig) -> Vec<(Cow<'_, ModelSpec>, usize)> {
    let (config, settings) = (resolved.config(), resolved.settings());
    let mut batches = Vec::new();
    if settings.device == Device::Cpu {
        let spec = &resolved.blueprint().spec;
        batches.push((Cow::Borrowed(spec), config.batch_size as usize));
    }
    if config.eval_fraction > 0.0 {
        let spec = resolved.eval_spec();
        batches.push((Cow::Owned(spec), settings.eval_batch_size));
    }
    batches
}
