//! Tests of whole steps with the kernels for a GPU, run on the CPU, against the same steps with libtorch's operations.

use std::sync::Arc;

use pbg_core::loss::TracedLoss;
use pbg_core::model::{Comparator, Operator, Regularizer, Update};
use pbg_core::strategy::{Loss as _, StrategyId};
use pbg_formula::loss::LossDefinition;
use pbg_kernels::device::{DeviceWorker as _, OpenDevice as _};
use pbg_kernels::losses::GraphLoss;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{Batch, BatchJob, BatchRelations, BatchTables, Execution};
use pbg_rows::params::Params;
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_rows::table::Table;

use super::TorchWorker;
use crate::device::TorchDevice;
use crate::fused::CudaKernels;

const DIMENSION: usize = 6;
const ENTITIES: usize = 7;
/// Edges in chunks of 2; the last chunk is padded.
const LHS: [u32; 5] = [0, 3, 3, 6, 1];
const RHS: [u32; 5] = [2, 0, 5, 5, 4];
const RELATION: [u32; 5] = [1, 0, 1, 2, 1];
const WEIGHT: [f32; 5] = [1.0, 0.5, 2.0, 0.25, 1.5];

fn spec(operator: Operator, is_dynamic: bool) -> ModelSpec {
    ModelSpec {
        entities: vec![EntitySpec {
            name: "thing".to_owned(),
            dimension: DIMENSION,
            featurized: false,
            frozen: false,
        }],
        relations: vec![RelationSpec {
            lhs: 0,
            rhs: 0,
            operator,
            weight: 1.5,
            all_negs: false,
        }],
        dynamic_relations: is_dynamic.then_some(3),
        comparator: Comparator::Dot,
        bias: false,
        global_emb: false,
        max_norm: None,
        operator_init_scale: Some(0.5),
        regularizer: Regularizer::N3,
        // Matrices have no N3 regulariser.
        regularization_coef: if operator == Operator::Linear {
            0.0
        } else {
            0.05
        },
        relation_prediction: 0.0,
        lr: 0.1,
        relation_lr: 0.1,
        num_batch_negs: 2,
        num_uniform_negs: 3,
        chunk_size: Some(2),
        disable_lhs_negs: false,
        disable_rhs_negs: false,
    }
}

fn softmax() -> GraphLoss {
    let definition = LossDefinition {
        nodes: crate::fused::tests::softmax(),
        output: 4,
        ..LossDefinition::default()
    };
    let id = StrategyId {
        name: "softmax".to_owned(),
        version: "1".to_owned(),
        sha256: String::new(),
    };
    GraphLoss::new(TracedLoss {
        keep: None,
        id,
        graph: definition.check(100).expect("a valid graph"),
        schedule: None,
    })
}

fn table(seed: f32) -> Table {
    let values = (0..ENTITIES * DIMENSION).map(|i| (i as f32 * 0.7 + seed).sin());
    Table::new(values.collect(), DIMENSION)
}

/// Returns losses, rows and parameters with their accumulators after three steps, and the kernels.
fn trained(
    (spec, is_shared): (&ModelSpec, bool),
    update: Update,
    loss: &GraphLoss,
    kernels: Option<CudaKernels>,
) -> (Vec<f32>, Option<CudaKernels>) {
    let place = TorchDevice::MAIN_MEMORY;
    let execution = Execution {
        update,
        slice_bytes: 1,
        ..Execution::default()
    };
    let spec = Arc::new(spec.clone());
    let mut worker = TorchWorker::new(Arc::clone(&spec), execution, place).expect("a worker");
    worker.kernels = kernels;
    let mut tables = [table(0.0), table(1.0)];
    for table in &mut tables {
        place.upload(table).expect("room");
    }
    let params = Params::new(&spec, 3);
    let uniform = if spec.relations[0].all_negs { 0 } else { 3 * 3 };
    let draws = |from: u32| {
        (0..uniform)
            .map(|i| (from + 3 * i) % ENTITIES as u32)
            .collect()
    };
    let draws = NegativeDraws {
        lhs: draws(1),
        rhs: draws(2),
        ..NegativeDraws::default()
    };
    let batch = Batch {
        lhs: &LHS,
        rhs: &RHS,
        relation: match spec.dynamic_relations {
            Some(_) => BatchRelations::PerEdge(&RELATION),
            None => BatchRelations::One(0),
        },
        weight: Some(&WEIGHT),
    };
    let mut loss = loss.worker();
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let [lhs, rhs] = &tables;
        let job = BatchJob {
            batch: &batch,
            tables: &BatchTables {
                lhs,
                rhs: if is_shared { lhs } else { rhs },
            },
            params: &params,
            draws: &draws,
        };
        let stats = worker.train(&job, loss.as_mut()).expect("a step");
        numbers.extend([stats.loss_lhs, stats.loss_rhs, stats.reg].map(|x| x as f32));
    }
    worker.download(&params).expect("room");
    for table in &tables {
        table.download().expect("room");
        for rows in [&table.embeddings, &table.state] {
            let start = numbers.len();
            numbers.resize(start + rows.rows() * rows.width(), 0.0);
            rows.read_rows(0, &mut numbers[start..]);
        }
    }
    for tensor in params.tensors() {
        numbers.extend([tensor.to_vec(), tensor.adagrad_to_vec()].concat());
    }
    (numbers, worker.kernels)
}

/// Returns names, models, and whether both sides use the same table.
fn cases() -> Vec<(&'static str, ModelSpec, bool)> {
    let complex = || spec(Operator::ComplexDiagonal, true);
    let with = |change: &dyn Fn(&mut ModelSpec)| {
        let mut spec = complex();
        change(&mut spec);
        spec
    };
    vec![
        ("complex", complex(), true),
        ("two tables", complex(), false),
        ("none", spec(Operator::None, false), true),
        ("diagonal", spec(Operator::Diagonal, true), true),
        ("translation", spec(Operator::Translation, false), false),
        ("linear", spec(Operator::Linear, true), true),
        ("static", spec(Operator::ComplexDiagonal, false), true),
        ("cos", with(&|spec| spec.comparator = Comparator::Cos), true),
        ("l2", with(&|spec| spec.comparator = Comparator::L2), true),
        ("bias", with(&|spec| spec.bias = true), true),
        (
            "global",
            ModelSpec {
                global_emb: true,
                ..spec(Operator::ComplexDiagonal, false)
            },
            true,
        ),
        ("max norm", with(&|spec| spec.max_norm = Some(1.0)), true),
        (
            "N3 of rows as they are looked up",
            with(&|spec| spec.regularizer = Regularizer::N3Embeddings),
            true,
        ),
        ("uniform", with(&|spec| spec.num_batch_negs = 0), true),
        (
            "all, static",
            ModelSpec {
                num_batch_negs: 0,
                num_uniform_negs: 0,
                regularization_coef: 0.0,
                relations: vec![RelationSpec {
                    lhs: 0,
                    rhs: 0,
                    operator: Operator::ComplexDiagonal,
                    weight: 1.0,
                    all_negs: true,
                }],
                ..spec(Operator::ComplexDiagonal, false)
            },
            true,
        ),
        (
            "all",
            with(&|spec| {
                spec.relations[0].all_negs = true;
                (spec.num_batch_negs, spec.num_uniform_negs) = (0, 0);
            }),
            true,
        ),
    ]
}

#[test]
fn steps_with_kernels_are_those_with_libtorch() {
    crate::load_found();
    let loss = softmax();
    let mut kernels = Some(CudaKernels::on_core().expect("the kernels compile"));
    for (what, spec, is_shared) in cases() {
        for update in [Update::Batch, Update::Slice] {
            let of = (&spec, is_shared);
            let (expected, _) = trained(of, update, &loss, None);
            let (found, same) = trained(of, update, &loss, kernels);
            kernels = same;
            assert_eq!(found.len(), expected.len());
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let close = (found - expected).abs() <= 2e-4 * (1.0 + expected.abs());
                assert!(
                    close,
                    "{what}, {update:?}: {found} instead of {expected} at {index}"
                );
            }
        }
    }
}
