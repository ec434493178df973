//! The standard plugins in the sandbox answer what the same code answers natively.

use crate::support::{pass, sandbox};
use pbg_core::graph::{Bucket, Side};
use pbg_core::strategy::{BucketOrder as _, Pass};
use pbg_plugin_sdk as sdk;
use pbg_wasm::{Kind, LoadError, PluginSource, Sandbox, standard};
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
    assert_equal::<outside_in::OutsideIn>(&sandbox, "outside_in");
    assert_equal::<random::Random>(&sandbox, "random");
    assert_equal::<random_symmetric::RandomSymmetric>(&sandbox, "random_symmetric");
    assert_equal::<snake::Snake>(&sandbox, "snake");
    assert_equal::<stratified::Stratified>(&sandbox, "stratified");
}

#[test]
fn every_standard_plugin_introduces_itself_by_its_name() {
    let sandbox = sandbox();
    let names: Vec<_> = standard().iter().map(|plugin| plugin.name).collect();
    let mut configurable = pbg_core::config::STANDARD_ORDERS.to_vec();
    configurable.sort_unstable();
    assert_eq!(names, configurable);
    for plugin in standard() {
        let opened = sandbox
            .open(PluginSource::Standard(plugin))
            .expect("it loads");
        let inspection = opened.inspection();
        assert_eq!(inspection.metadata.name, plugin.name);
        assert_eq!(
            (inspection.kind, plugin.kind),
            (Kind::BucketOrder, Kind::BucketOrder)
        );
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
    let mut order = sandbox()
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
    assert!(
        error.contains("a plan of 4000000 buckets exceeds"),
        "{error}"
    );
}
