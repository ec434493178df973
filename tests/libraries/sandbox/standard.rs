//! The standard plugins give the same answers in the sandbox as natively.

use crate::sandbox::support::{Guest, list, load, pass, sandbox};
use pbg_core::graph::{Bucket, Side};
use pbg_core::schedule::PassId;
use pbg_core::strategy::{
    BucketOrder as _, CandidateScores, NegativeCandidates, NegativeChunk, NegativeSampler as _,
    NegativeSelection, NegativeSelector as _, Pass, RateSchedule as _, SamplerFactory as _,
    SchedulePosition,
};
use pbg_plugin_sdk as sdk;
use pbg_wasm::{Limits, LoadError, PluginSource, Sandbox, standard_plugins};
use serde_json::{Value, json};

fn native_pass(pass: &Pass) -> sdk::Pass {
    let side = |side| match side {
        Side::Lhs => sdk::Side::Lhs,
        Side::Rhs => sdk::Side::Rhs,
    };
    sdk::Pass {
        lhs_partitions: pass.lhs_partitions,
        rhs_partitions: pass.rhs_partitions,
        shared: pass.shared,
        edges: pass.edges.clone(),
        lhs_bytes: pass.lhs_bytes.clone(),
        rhs_bytes: pass.rhs_bytes.clone(),
        buffer_partitions: pass.buffer_partitions,
        resident: pass.resident.iter().map(|&(s, p)| (side(s), p)).collect(),
        epoch: pass.epoch,
        edge_set: pass.edge_set,
        edge_chunk: pass.edge_chunk,
        seed: pass.seed,
    }
}

fn native(bucket: Bucket) -> sdk::Bucket {
    sdk::Bucket::new(bucket.lhs, bucket.rhs)
}

/// Compares plan and pick over several grids and seeds.
fn assert_equal<O: sdk::Order>(sandbox: &Sandbox, name: &str) {
    let source = PluginSource::resolve(name).expect("a standard plugin");
    let mut order = sandbox.load_order(source, &Value::Null).expect("it loads");
    assert_eq!(order.id().name, name);
    let mut twin: O = sdk::testing::with_defaults();
    for (lhs, rhs) in [(1, 1), (1, 6), (6, 1), (3, 5), (4, 4), (32, 32)] {
        for seed in [0, 1, u64::MAX] {
            let mut pass = pass(lhs, rhs);
            pass.seed = seed;
            pass.resident = vec![(Side::Lhs, 0), (Side::Rhs, rhs - 1)];
            let plan = order.plan(&pass).expect("it plans");
            let expected = twin.plan(&native_pass(&pass)).expect("it plans natively");
            let found: Vec<_> = plan.iter().copied().map(native).collect();
            assert_eq!(found, expected, "{name} on {lhs} x {rhs}, seed {seed}");

            let (held, free) = plan.split_at(plan.len() / 2);
            let picked = order.pick(&pass, held, free).expect("it picks");
            let [held, free] =
                [held, free].map(|b| b.iter().copied().map(native).collect::<Vec<_>>());
            assert_eq!(
                twin.pick(&native_pass(&pass), &held, &free),
                Ok(picked),
                "{name}"
            );
        }
    }
}

#[test]
fn the_sandbox_changes_no_answer() {
    let sandbox = sandbox();
    assert_equal::<affinity::Affinity>(&sandbox, "affinity");
    assert_equal::<beta::Beta>(&sandbox, "beta");
    assert_equal::<chained_symmetric_pairs::ChainedSymmetricPairs>(
        &sandbox,
        "chained_symmetric_pairs",
    );
    assert_equal::<comet::Comet>(&sandbox, "comet");
    assert_equal::<cover::Cover>(&sandbox, "cover");
    assert_equal::<hilbert::Hilbert>(&sandbox, "hilbert");
    assert_equal::<hilbert_symmetric::HilbertSymmetric>(&sandbox, "hilbert_symmetric");
    assert_equal::<inside_out::InsideOut>(&sandbox, "inside_out");
    assert_equal::<legend::Legend>(&sandbox, "legend");
    assert_equal::<lexicographic::Lexicographic>(&sandbox, "lexicographic");
    assert_equal::<optimal::Optimal>(&sandbox, "optimal");
    assert_equal::<outside_in::OutsideIn>(&sandbox, "outside_in");
    assert_equal::<overlap::Overlap>(&sandbox, "overlap");
    assert_equal::<random::Random>(&sandbox, "random");
    assert_equal::<random_symmetric::RandomSymmetric>(&sandbox, "random_symmetric");
    assert_equal::<snake::Snake>(&sandbox, "snake");
    assert_equal::<stratified::Stratified>(&sandbox, "stratified");
    assert_same_draws::<hard_first::HardFirst>(&sandbox, "hard_first");
    assert_same_draws::<proportional::Proportional>(&sandbox, "proportional");
    assert_same_draws::<round_robin::RoundRobin>(&sandbox, "round_robin");
    assert_same_draws::<uniform::Uniform>(&sandbox, "uniform");
    assert_same_distributions::<bernoulli::Bernoulli>(&sandbox, "bernoulli");
    assert_same_distributions::<degree::Degree>(&sandbox, "degree");
    assert_same_distributions::<types_seen::TypesSeen>(&sandbox, "types_seen");
    assert_same_selections::<hard_negatives::HardNegatives>(&sandbox, "hard_negatives");
    assert_same_factors::<step_decay::StepDecay>(&sandbox, "step_decay");
    assert_same_factors::<warm_restarts::WarmRestarts>(&sandbox, "warm_restarts");
}

/// Compares the factors of a run with those of the native twin, to 15 digits: the cosine of the machine's library may
/// differ in the last bit.
fn assert_same_factors<S: sdk::RateSchedule>(sandbox: &Sandbox, name: &str) {
    let source = PluginSource::resolve(name).expect("a standard plugin");
    let plugin = sandbox.open(source).expect("it loads");
    let mut schedule = plugin.into_schedule(&Value::Null).expect("a schedule");
    assert_eq!(schedule.id().name, name);
    let (start, end) = (1.5, 40.0);
    for n in 2..40 {
        let epoch = f64::from(n) - 0.5;
        let found = schedule.factor(SchedulePosition { epoch, start, end });
        let found = found.expect("a factor");
        let expected =
            sdk::testing::assert_factor::<S>(sdk::SchedulePosition { epoch, start, end });
        assert!(
            (found - expected).abs() < 1e-15,
            "{name} at {epoch}: {found}, {expected}"
        );
    }
}

/// Compares the distributions of several candidates with those of the native twin.
fn assert_same_distributions<S: sdk::NegativeSampler>(sandbox: &Sandbox, name: &str) {
    let source = PluginSource::resolve(name).expect("a standard plugin");
    let plugin = sandbox.open(source).expect("it loads");
    let mut sampler = plugin.into_negatives(&Value::Null).expect("a sampler");
    for (entities, edges, seen) in [(1, 0, 0), (100, 50, 20)] {
        let candidates = sdk::NegativeCandidates {
            entities,
            edges,
            seen,
            ..sdk::NegativeCandidates::example()
        };
        let answer = sampler.distribution(&NegativeCandidates {
            relation: candidates.relation,
            relation_name: candidates.relation_name.clone(),
            side: Side::Rhs,
            entity_type: candidates.entity_type.clone(),
            partition: candidates.partition,
            entities,
            edges,
            seen,
            replaced_entities: candidates.replaced_entities,
            kept_entities: candidates.kept_entities,
            pass: PassId::default(),
        });
        let expected = sdk::testing::assert_distribution::<S>(&candidates);
        // The host and the SDK show equal parts alike.
        let shown = format!("{:?}", answer.expect("a distribution"));
        assert_eq!(shown, format!("{expected:?}"), "{name}");
    }
}

/// Compares the selections of several chunks with those of the native twin, to 6 digits: the exponential of the machine's
/// library may differ in the last bits.
fn assert_same_selections<S: sdk::NegativeSelector>(sandbox: &Sandbox, name: &str) {
    let source = PluginSource::resolve(name).expect("a standard plugin");
    let plugin = sandbox.open(source).expect("it loads");
    let selector = plugin.into_selector(&Value::Null).expect("a selector");
    assert_eq!(selector.id().name, name);
    let mut worker = selector.worker();
    for seed in 0..10 {
        // As many candidates as it requires, so that the twin gets the same chunk.
        let chunk = sdk::NegativeChunk::example(seed);
        let scores = chunk.scores.clone().expect("scores");
        let found = worker.select(&NegativeChunk {
            side: Side::Rhs,
            entity_type: chunk.entity_type.clone(),
            partition: chunk.partition,
            entities: chunk.entities,
            kept_partition: chunk.kept_partition,
            relations: chunk.relations.clone(),
            kept: chunk.kept.clone(),
            replaced: chunk.replaced.clone(),
            candidates: chunk.candidates.clone(),
            scores: Some(CandidateScores {
                positives: scores.positives,
                means: scores.means,
                highest: scores.highest,
            }),
            negatives: chunk.negatives,
            pass: PassId::default(),
            seed: chunk.seed,
        });
        let expected = sdk::testing::assert_selection::<S>(&chunk);
        match (found.expect("a selection"), expected) {
            (NegativeSelection::Weights(found), sdk::NegativeSelection::Weights(expected)) => {
                assert_eq!(found.len(), expected.len(), "{name}");
                for (found, expected) in found.into_iter().zip(expected) {
                    assert!(
                        (found - expected).abs() <= 1e-6 * expected,
                        "{found} {expected}"
                    );
                }
            }
            other => panic!("{name} selects {other:?}"),
        }
    }
}

/// Compares the draws of several shares; batch number `i` has the loss `1 / (1 + i)`, as in the native twin.
fn assert_same_draws<S: sdk::Sampler>(sandbox: &Sandbox, name: &str) {
    let source = PluginSource::resolve(name).expect("a standard plugin");
    let plugin = sandbox.open(source).expect("it loads");
    let factory = plugin.into_sampler(&Value::Null).expect("a sampler");
    assert_eq!(factory.id().name, name);
    for counts in [vec![], vec![0, 0], vec![100, 0, 300, 600], vec![3; 200]] {
        for (batch_size, seed) in [(1, 0), (50, 1), (1000, u64::MAX)] {
            let share = sdk::Share {
                counts: counts.clone(),
                batch_size,
                seed,
            };
            let mut walk = factory
                .create(&counts, batch_size, seed)
                .expect("it begins");
            let mut drawn = Vec::new();
            while let Some(draw) = walk.next().expect("it draws") {
                walk.observe(draw.relation, 1.0 / (1.0 + drawn.len() as f32))
                    .expect("it observes");
                drawn.push(sdk::Draw {
                    relation: draw.relation,
                    edges: draw.edges,
                });
            }
            let expected = sdk::testing::assert_draws::<S>(&share);
            assert_eq!(drawn, expected, "{name} draws {share:?}");
        }
    }
}

#[test]
fn every_standard_plugin_introduces_itself_by_its_name() {
    let sandbox = sandbox();
    for plugin in standard_plugins() {
        let opened = sandbox
            .open(PluginSource::Standard(plugin))
            .expect("it loads");
        let inspection = opened.inspection();
        assert_eq!(inspection.metadata.name, plugin.name);
        assert_eq!(inspection.kind, plugin.kind);
        assert_eq!(inspection.wit, "pbg:plugin@0.1.0");
        assert_eq!(inspection.size, plugin.bytes.len() as u64);
        assert_eq!(inspection.sha256.len(), 64);
        assert!(
            inspection
                .imports
                .iter()
                .all(|import| import.starts_with("pbg:plugin/"))
        );
        assert!(!inspection.metadata.summary.is_empty());
    }
}

#[test]
fn a_parameter_that_a_plugin_does_not_take_is_named() {
    let source = PluginSource::resolve("random").expect("a standard plugin");
    let error = sandbox()
        .load_order(source, &json!({"margin": 0.1}))
        .err()
        .expect("it takes none");
    assert!(matches!(error, LoadError::Parameters { .. }));
    assert_eq!(
        error.to_string(),
        "plugin random: has no parameter margin; it takes none"
    );
}

#[test]
fn a_plan_for_a_million_buckets_fits_the_limits() {
    let source = PluginSource::resolve("inside_out").expect("a standard plugin");
    // Long enough for a busy machine.
    let patient = Limits {
        deadline_ms: 60_000,
        ..Limits::default()
    };
    let mut order = Sandbox::new(patient)
        .expect("the sandbox starts")
        .load_order(source, &Value::Null)
        .expect("it loads");
    assert_eq!(
        order.plan(&pass(1000, 1000)).expect("it plans").len(),
        1_000_000
    );

    let error = order
        .plan(&pass(2000, 2000))
        .expect_err("four million are too many")
        .to_string();
    for part in ["a plan of 4000000 buckets", "plugins.limits.result_mib"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_order_hears_which_partitions_are_resident() {
    // Begins with the bucket of the first resident partition of each side.
    let lhs = "(i32.load (i32.load offset=40 (local.get 0)))";
    let rhs = "(i32.load (i32.load offset=48 (local.get 0)))";
    let other = |partition: &str| format!("(i32.sub (i32.const 1) {partition})");
    let (not_lhs, not_rhs) = (other(lhs), other(rhs));
    let buckets = [
        (lhs, rhs),
        (lhs, &not_rhs),
        (&not_lhs, rhs),
        (&not_lhs, &not_rhs),
    ];
    let stores = buckets.iter().enumerate().map(|(i, (lhs, rhs))| {
        let at = 4096 + 8 * i;
        format!(
            "(i32.store (i32.const {at}) {lhs}) (i32.store (i32.const {}) {rhs})",
            at + 4
        )
    });
    let guest = Guest {
        plan: stores.collect::<String>() + &list(4096, 4),
        ..Guest::default()
    };
    let mut order = load(&sandbox(), guest.component()).expect("it loads");
    for (lhs, rhs) in [(0, 1), (1, 0), (1, 1)] {
        let mut pass = pass(2, 2);
        pass.shared = false;
        pass.resident = vec![(Side::Rhs, rhs), (Side::Lhs, lhs)];
        let plan = order.plan(&pass).expect("it plans");
        assert_eq!(plan[0], Bucket::new(lhs, rhs));
    }
}
