//! Speed of training steps in the configurations that PyTorch-BigGraph publishes.

use std::time::Duration;

use pbg_core::model::{Comparator, Operator, Precision, Regularizer};
use pbg_core::strategy::Loss;
use pbg_kernels::losses::handwritten::HandwrittenLoss;
use pbg_kernels::step::{Execution, Stage};
use pbg_model::RunError;
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use serde::Serialize;

use crate::steps::{StepBench, StepSizes};
use crate::throughput;
/// Speed of one training step, compared with what its matrix products alone would allow.
#[derive(Clone, Debug, Serialize)]
pub struct StepReport {
    /// Name of the case.
    pub name: String,
    /// Precision of the matrix products.
    pub precision: Precision,
    /// Edges per CPU-second.
    pub edges_per_cpu_second: f64,
    /// Edges per CPU-second if a step consisted only of its matrix products.
    pub ceiling: f64,
    /// Name and CPU time of each stage, in microseconds per edge.
    pub stages: Vec<(&'static str, f64)>,
    /// CPU time of the loss stage, in microseconds per edge, with a handwritten loss instead of the traced formula.
    pub loss_by_hand: f64,
    /// Size of the worker's buffers in bytes.
    pub buffer_bytes: usize,
    /// Minor page faults per batch once the buffers have grown, or `None` if the system does not report them.
    pub page_faults_per_batch: Option<f64>,
    /// Reason why the case was not measured, if it was not.
    pub left_out: Option<String>,
}

/// A training step to measure.
pub struct StepCase {
    /// Name of the case.
    pub name: &'static str,
    /// Name of the standard loss to measure with.
    pub loss: &'static str,
    by_hand: Box<dyn Loss>,
    spec: ModelSpec,
}

impl StepCase {
    /// Prepares steps with `loss`, which must be the loss named by [`StepCase::loss`], on this thread.
    ///
    /// # Errors
    /// When the configuration cannot be trained with `execution`, or libtorch or the loss fails.
    pub fn steps(&self, loss: &dyn Loss, execution: Execution) -> Result<StepBench, RunError> {
        let sizes = StepSizes {
            entities: ENTITIES,
            edges: BATCH,
        };
        let mut steps = self.steps_of(sizes, loss, execution)?;
        // Buffers grow in the first steps.
        steps.train(5)?;
        Ok(steps)
    }

    /// Prepares steps of other sizes, as [`StepCase::steps`] does, but trains none of them.
    ///
    /// # Errors
    /// As [`StepCase::steps`].
    pub fn steps_of(
        &self,
        sizes: StepSizes,
        loss: &dyn Loss,
        execution: Execution,
    ) -> Result<StepBench, RunError> {
        StepBench::new(&self.spec, sizes, loss, execution)
    }
}

/// Returns the steps of PyTorch-BigGraph's own configurations, on edges with the sizes of FB15k-237.
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
        by_hand: Box::new(HandwrittenLoss::softmax()),
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
            by_hand: Box::new(HandwrittenLoss::ranking(0.1)),
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
            frozen: false,
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

/// Measures one step on this thread for about `duration`. `loss` must be the loss named by [`StepCase::loss`].
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
    let of_loss = by_hand.stages.iter().find(|(s, _)| *s == Stage::Loss);
    report.loss_by_hand = of_loss.map_or(0.0, |&(_, us)| us);
    report.edges_per_cpu_second = rate.edges;
    report.ceiling = throughput::ceiling(&case.spec, BATCH, ENTITIES, precision)?;
    report.stages = rate.stages.iter().map(|&(s, us)| (s.name(), us)).collect();
    report.buffer_bytes = rate.bytes;
    report.page_faults_per_batch = rate.page_faults;
    Ok(report)
}
