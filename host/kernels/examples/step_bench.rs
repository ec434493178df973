//! Speed of the training step on synthetic data shaped like FB15k-237, beside what libtorch's own
//! batched product allows on the same shapes.
//!
//! `cargo run --release -p pbg-kernels --example step_bench [slice_bytes]`

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may stop"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use pbg_core::config::{Comparator, Operator, Precision};
use pbg_core::strategy::Loss;
use pbg_kernels::losses::{Ranking, Softmax};
use pbg_kernels::negatives::Draws;
use pbg_kernels::params::Params;
use pbg_kernels::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_kernels::step::{Batch, Execution, Relations, Stage, Tables, Trainer};
use pbg_kernels::table::Table;
use pbg_kernels::throughput::{ProductShape, bmm_rate};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

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
            name: "e".to_owned(),
            dimension,
            featurized: false,
        }],
        relations: vec![relation; if dynamic { 1 } else { RELATIONS }],
        dynamic_relations: dynamic.then_some(RELATIONS),
        comparator,
        bias: false,
        global_emb: false,
        max_norm: None,
        regularization_coef: 0.0,
        lr: 0.1,
        relation_lr: 0.1,
        num_batch_negs: 50,
        num_uniform_negs: 50,
        chunk_size: None,
        disable_lhs_negs: false,
        disable_rhs_negs: false,
    }
}

/// CPU time of this thread, so that other work on the machine does not count.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// The three products of a direction, per edge: scores and both gradients.
fn ceiling(spec: &ModelSpec, slices: i64) -> f64 {
    let chunk = spec.chunk_size(&spec.relations[0], BATCH);
    let (p, d) = (chunk as i64, spec.entities[0].dimension as i64);
    let own = if spec.num_batch_negs > 0 { p } else { 0 };
    let n = own + spec.num_uniform_negs as i64;
    let shapes = [(p, d, n), (p, n, d), (n, p, d)];
    let seconds: f64 = shapes
        .iter()
        .map(|&(rows, inner, columns)| {
            let shape = ProductShape { batch: slices, rows, inner, columns };
            let rate = bmm_rate(shape, Duration::from_millis(700), cpu_seconds).unwrap();
            println!("    bmm [{slices}, {rows}, {inner}] x [{slices}, {inner}, {columns}]: {:.1} GFLOP/s", rate / 1e9);
            2.0 * shape.operations() / rate
        })
        .sum();
    (p * slices) as f64 / seconds
}

fn run(name: &str, spec: ModelSpec, loss: &dyn Loss, execution: Execution) {
    let dynamic = spec.is_dynamic();
    let (dimension, spec) = (spec.entities[0].dimension, Arc::new(spec));
    println!("{name}");
    let limit = [20, 1]
        .map(|slices| ceiling(&spec, slices))
        .into_iter()
        .fold(0.0, f64::max);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let values = (0..ENTITIES * dimension)
        .map(|_| rng.random::<f32>() * 0.02 - 0.01)
        .collect();
    let table = Table::new(values, dimension);
    let tables = Tables {
        lhs: &table,
        rhs: &table,
    };
    let params = Params::new(&spec);
    let mut trainer = Trainer::new(Arc::clone(&spec)).unwrap();
    if let Some(reason) = execution.refusal(&spec) {
        return println!("  left out: {reason}");
    }
    trainer = trainer.with_execution(execution);
    let mut draws = Draws::default();
    let mut trained = 0;
    let (mut start, mut cpu) = (Instant::now(), cpu_seconds());
    let mut before = *trainer.stage_times();
    let mut drawing = Duration::ZERO;
    for round in 0.. {
        // The first batches grow the buffers.
        if round == 5 {
            (start, cpu) = (Instant::now(), cpu_seconds());
            (trained, before, drawing) = (0, *trainer.stage_times(), Duration::ZERO);
        }
        if round > 20 && start.elapsed() > Duration::from_secs(5) {
            break;
        }
        let mut ids = |limit: usize| {
            (0..BATCH)
                .map(|_| rng.random_range(0..limit as u32))
                .collect::<Vec<_>>()
        };
        let (lhs, rhs, relations) = (ids(ENTITIES), ids(ENTITIES), ids(RELATIONS));
        let relation = if dynamic {
            Relations::PerEdge(&relations)
        } else {
            Relations::One(relations[0])
        };
        let begin = Instant::now();
        draws.draw(&spec, &spec.relations[0], BATCH, [ENTITIES; 2], &mut rng);
        drawing += begin.elapsed();
        let batch = Batch {
            lhs: &lhs,
            rhs: &rhs,
            relation,
            weight: None,
        };
        trainer
            .train(&batch, &tables, &params, loss, &draws)
            .unwrap();
        trained += BATCH;
    }
    let elapsed = start.elapsed().as_secs_f64();
    let rate = trained as f64 / (cpu_seconds() - cpu);
    println!(
        "  {rate:.0} edges per CPU-second, {:.0} % of the {limit:.0} that bmm alone allows",
        100.0 * rate / limit
    );
    let share = |time: Duration| 100.0 * time.as_secs_f64() / elapsed;
    for stage in Stage::ALL {
        let time = trainer.stage_times().of(stage) - before.of(stage);
        println!(
            "    {stage:?}: {:.1} %, {:.2} us/edge",
            share(time),
            1e6 * time.as_secs_f64() / trained as f64
        );
    }
    println!(
        "    drawing negatives: {:.1} %; buffers: {:.1} MB",
        share(drawing),
        trainer.bytes() as f64 / 1e6
    );
}

fn main() {
    pbg_kernels::use_one_torch_thread();
    let mut execution = Execution::default();
    if let Some(text) = std::env::args().nth(1) {
        execution.slice_bytes = text.parse().unwrap();
    }
    let bf16 = Execution {
        precision: Precision::Bf16,
        ..execution
    };
    let fb15k = ModelSpec {
        num_uniform_negs: 1000,
        regularization_coef: 1e-3,
        ..spec(true, 400, Operator::ComplexDiagonal, Comparator::Dot)
    };
    let shared = ModelSpec {
        num_batch_negs: 0,
        chunk_size: Some(BATCH),
        ..fb15k.clone()
    };
    for (how, execution) in [("fp32", execution), ("bf16", bf16)] {
        let name = format!("PBG's FB15k configuration, {how}");
        run(&name, fb15k.clone(), &Softmax::new(), execution);
        let name = format!("the same with 1000 positives sharing 1000 negatives, {how}");
        run(&name, shared.clone(), &Softmax::new(), execution);
    }
    let default = spec(false, 100, Operator::None, Comparator::Cos);
    run(
        "PBG's default configuration",
        default,
        &Ranking::new(0.1),
        execution,
    );
}
