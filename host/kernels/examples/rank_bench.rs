//! Speed of filtered ranking on data shaped like FB15k-237's test set: both sides of 20,466 edges
//! against 14,541 entities of dimension 400, on one thread.
//!
//! `cargo run --release -p pbg-kernels --example rank_bench`

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may stop"
)]

use std::sync::Arc;

use pbg_core::config::{Comparator, Operator};
use pbg_core::graph::Side;
use pbg_kernels::params::Params;
use pbg_kernels::rank::{BLOCK, Candidates, Queries, RankCounts, Ranker, Replacement};
use pbg_kernels::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_kernels::step::Relations;
use pbg_kernels::table::Table;
use pbg_kernels::throughput::thread_cpu_seconds;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const ENTITIES: usize = 14_541;
const RELATIONS: usize = 237;
const EDGES: usize = 20_466;
const DIMENSION: usize = 400;

fn main() {
    let operator = Operator::ComplexDiagonal;
    let spec = Arc::new(ModelSpec {
        entities: vec![EntitySpec {
            name: "e".to_owned(),
            dimension: DIMENSION,
            featurized: false,
        }],
        relations: vec![RelationSpec {
            lhs: 0,
            rhs: 0,
            operator,
            weight: 1.0,
            all_negs: false,
        }],
        dynamic_relations: Some(RELATIONS),
        comparator: Comparator::Dot,
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
    });
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let values = (0..ENTITIES * DIMENSION)
        .map(|_| rng.random::<f32>() - 0.5)
        .collect();
    let table = Table::new(values, DIMENSION);
    let params = Params::new(&spec);
    let mut ids = |limit: usize| {
        (0..EDGES)
            .map(|_| rng.random_range(0..limit as u32))
            .collect::<Vec<_>>()
    };
    let (known, truth, relations) = (ids(ENTITIES), ids(ENTITIES), ids(RELATIONS));
    let mut ranker = Ranker::new(Arc::clone(&spec)).unwrap();
    let (mut queries, mut candidates) = (Queries::default(), Candidates::default());
    let mut counts = vec![RankCounts::default(); EDGES];
    let start = thread_cpu_seconds();
    for side in Side::BOTH {
        let replacement = Replacement {
            side,
            relation: 0,
            params: &params,
        };
        ranker.queries(
            side,
            &known,
            Relations::PerEdge(&relations),
            &table,
            &params,
            &mut queries,
        );
        let positives = ranker.pair_scores(replacement, &queries, &truth, &table);
        for first in (0..ENTITIES).step_by(BLOCK) {
            let entities = first..(first + BLOCK).min(ENTITIES);
            ranker.candidates(replacement, entities, &table, &mut candidates);
            ranker.count(
                &queries,
                &candidates,
                &positives,
                |i| &truth[i..=i],
                &mut counts,
            );
        }
    }
    let seconds = thread_cpu_seconds() - start;
    let operations = 4.0 * (EDGES * ENTITIES) as f64 * DIMENSION as f64;
    println!(
        "{seconds:.2} CPU-seconds, {:.1} GFLOP/s",
        operations / seconds / 1e9
    );
    let mean: f64 = counts.iter().map(RankCounts::rank).sum::<f64>() / EDGES as f64;
    println!("mean of summed ranks {mean:.1}");
}
