//! The steps of PBG's own configurations, measured.

use std::time::Duration;

use pbg_core::model::{Comparator, Operator, Precision, Regularizer};
use pbg_core::strategy::Loss;
use pbg_kernels::losses::direct::{Ranking, Softmax};
use pbg_kernels::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_kernels::step::{Cluster, Execution};
use pbg_train::RunError;
use serde::Serialize;

use crate::steps::Steps;
use crate::throughput;

/// Speed of one training step, beside what its matrix products alone would allow.
#[derive(Clone, Debug, Serialize)]
pub struct StepReport {
    /// What was measured.
    pub name: String,
    /// Precision of the products.
    pub precision: Precision,
    /// Edges per CPU-second.
    pub edges_per_cpu_second: f64,
    /// Edges per CPU-second if a step were its matrix products.
    pub ceiling: f64,
    /// CPU microseconds per edge of each stage.
    pub stages: Vec<(&'static str, f64)>,
    /// What the stage of the loss takes where the same loss is written by hand instead of traced.
    pub loss_by_hand: f64,
    /// Bytes of the buffers.
    pub buffer_bytes: usize,
    /// Pages per batch that the kernel hands out then, where it says.
    pub page_faults_per_batch: Option<f64>,
    /// Why it was left out, if it was.
    pub left_out: Option<String>,
}

/// A training step to measure.
pub struct StepCase {
    /// What it is called.
    pub name: &'static str,
    /// The standard loss to measure it with.
    pub loss: &'static str,
    by_hand: Box<dyn Loss>,
    spec: ModelSpec,
}

impl StepCase {
    /// Steps with `loss`, which is the case's, on this thread.
    ///
    /// # Errors
    /// When they cannot be trained so, or libtorch or the loss fails.
    pub fn steps(&self, loss: &dyn Loss, execution: Execution) -> Result<Steps, RunError> {
        Steps::new(&self.spec, [ENTITIES, BATCH], loss, execution)
    }
}

/// The steps that PBG's own configurations take, on edges shaped like FB15k-237.
#[must_use]
pub fn step_cases() -> Vec<StepCase> {
    let fb15k = ModelSpec {
        num_uniform_negs: 1000,
        operator_init_scale: None,
        regularizer: Regularizer::N3,
        regularization_coef: 1e-3,
        ..spec(true, 400, Operator::ComplexDiagonal, Comparator::Dot)
    };
    let shared = ModelSpec {
        num_batch_negs: 0,
        chunk_size: Some(BATCH),
        ..fb15k.clone()
    };
    let marius = ModelSpec {
        num_batch_negs: 0,
        num_uniform_negs: 500,
        chunk_size: Some(100),
        ..spec(true, 50, Operator::Diagonal, Comparator::Dot)
    };
    let default = spec(false, 100, Operator::None, Comparator::Cos);
    let softmax = |name, spec| StepCase {
        name,
        loss: "softmax",
        by_hand: Box::new(Softmax::new()),
        spec,
    };
    vec![
        softmax(
            "FB15k: ComplEx, D=400, 50 + 1000 negatives per 50 edges",
            fb15k,
        ),
        softmax("the same, 1000 edges share 1000 negatives", shared),
        softmax("DistMult, D=50, 100 edges share 500 negatives", marius),
        StepCase {
            name: "PBG's defaults: cos, D=100, 50 + 50 negatives",
            loss: "ranking",
            by_hand: Box::new(Ranking::new(0.1)),
            spec: default.clone(),
        },
        softmax("the same, softmax", default),
    ]
}

const ENTITIES: usize = 14_541;
const RELATIONS: usize = 237;
const BATCH: usize = 1000;

fn spec(dynamic: bool, dimension: usize, operator: Operator, comparator: Comparator) -> ModelSpec {
    let relation = RelationSpec {
        lhs: 0,
        rhs: 0,
        operator,
        weight: 1.0,
        all_negs: false,
    };
    ModelSpec {
        entities: vec![EntitySpec {
            name: "entity".to_owned(),
            dimension,
            featurized: false,
        }],
        relations: vec![relation; if dynamic { 1 } else { RELATIONS }],
        dynamic_relations: dynamic.then_some(RELATIONS),
        comparator,
        bias: false,
        global_emb: false,
        max_norm: None,
        operator_init_scale: None,
        regularizer: Regularizer::N3,
        regularization_coef: 0.0,
        relation_prediction: 0.0,
        lr: 0.1,
        relation_lr: 0.1,
        num_batch_negs: 50,
        num_uniform_negs: 50,
        chunk_size: None,
        disable_lhs_negs: false,
        disable_rhs_negs: false,
    }
}

/// Measures one step on this thread for about `duration`; `loss` is the case's.
///
/// # Errors
/// When libtorch or the loss fails.
pub fn step(
    case: &StepCase,
    loss: &dyn Loss,
    precision: Precision,
    duration: Duration,
) -> Result<StepReport, RunError> {
    let execution = Execution::with_precision(precision);
    let mut report = StepReport {
        name: case.name.to_owned(),
        precision,
        edges_per_cpu_second: 0.0,
        ceiling: 0.0,
        stages: Vec::new(),
        loss_by_hand: 0.0,
        buffer_bytes: 0,
        page_faults_per_batch: None,
        left_out: execution.refusal(&case.spec).map(str::to_owned),
    };
    if report.left_out.is_some() {
        return Ok(report);
    }
    let rate = case.steps(loss, execution)?.rate(duration)?;
    let by_hand = case.steps(case.by_hand.as_ref(), execution)?;
    let by_hand = by_hand.rate(duration / 3)?;
    let of_loss = by_hand.stages.iter().find(|(s, _)| *s == Cluster::Loss);
    report.loss_by_hand = of_loss.map_or(0.0, |&(_, us)| us);
    report.edges_per_cpu_second = rate.edges;
    report.ceiling = throughput::ceiling(&case.spec, BATCH, ENTITIES, precision)?;
    report.stages = rate.stages.iter().map(|&(s, us)| (s.name(), us)).collect();
    report.buffer_bytes = rate.bytes;
    report.page_faults_per_batch = rate.page_faults;
    Ok(report)
}
