//! Losses in the sandbox: the standard losses give the results of native code, and parameters arrive.

use pbg_core::loss::TracedLoss;
use pbg_core::strategy::{Loss as _, LossWorker, MASKED, ScoreBlock};
use pbg_formula::loss::{DerivedLoss, LossGraph};
use pbg_plugin_sdk as sdk;
use pbg_wasm::{ComputedLossPlugin, LoadError, LoadedLoss, PluginSource};
use sdk::loss as native;
use serde_json::{Value, json};

use crate::sandbox::reverse_mode;
use crate::sandbox::support::sandbox;

fn load(name: &str, parameters: &Value) -> Result<LoadedLoss, LoadError> {
    let source = PluginSource::resolve(name).expect("a standard plugin");
    sandbox().open(source)?.into_loss(parameters)
}

fn traced(name: &str, parameters: &Value) -> TracedLoss {
    match load(name, parameters).expect("it loads") {
        LoadedLoss::Traced(loss) => loss,
        LoadedLoss::Computed(_) => panic!("{name} is computed"),
    }
}

fn computed(name: &str, parameters: &Value) -> ComputedLossPlugin {
    match load(name, parameters).expect("it loads") {
        LoadedLoss::Computed(loss) => loss,
        LoadedLoss::Traced(_) => panic!("{name} is traced"),
    }
}

/// Asserts that the graph from the sandbox equals the natively traced one, and that the host's gradient equals that of
/// a second method.
fn assert_same(graph: &LossGraph, expected: &native::Graph) {
    let expected = expected.clone().check(graph.nodes().len());
    assert_eq!(Ok(graph), expected.as_ref());
    let derived = DerivedLoss::of(graph);
    let values: Vec<f32> = graph.parameters().iter().map(|p| p.value).collect();
    let negatives = [0.3, -1.2, MASKED.into(), 2.0, 0.4];
    for positive in [-2.0, 0.1, 3.0] {
        let found = derived.row(&values, positive, &negatives);
        let expected = reverse_mode::row(graph, &values, positive, &negatives);
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * (1.0 + b.abs());
        assert!(close(found.loss, expected.loss), "{found:?} {expected:?}");
        assert!(
            close(found.positive, expected.positive),
            "{found:?} {expected:?}"
        );
        for (&a, &b) in found.negative.iter().zip(&expected.negative) {
            assert!(close(a, b), "{found:?} {expected:?}");
        }
    }
}

#[test]
fn traced_losses_are_the_same_graphs_as_natively() {
    use sdk::testing::traced_with_defaults as expected;
    for (name, expected) in [
        ("softmax", expected::<softmax::Softmax>()),
        ("logistic", expected::<logistic::Logistic>()),
        ("ranking", expected::<ranking::Ranking>()),
        (
            "self_adversarial",
            expected::<self_adversarial::SelfAdversarial>(),
        ),
        ("bce", expected::<bce::Bce>()),
        (
            "sampled_softmax_temperature",
            expected::<sampled_softmax_temperature::SampledSoftmax>(),
        ),
    ] {
        let loss = traced(name, &Value::Null);
        assert_eq!(loss.id.name, name);
        assert!(loss.schedule.is_none());
        assert_same(&loss.graph, &expected);
    }
}

#[test]
fn parameters_reach_the_formula() {
    let loss = traced("ranking", &json!({"margin": 0.75}));
    assert_eq!(loss.graph.loss_of(&[], 0.5, &[0.25]), 0.5);
    let refused = load("ranking", &json!({"margins": 1}))
        .err()
        .expect("unknown");
    assert_eq!(
        refused.to_string(),
        "plugin ranking: has no parameter margins (did you mean margin?)"
    );
    let refused = load("bce", &json!({"label_smoothing": 2}))
        .err()
        .expect("too much");
    assert_eq!(
        refused.to_string(),
        "plugin bce: parameter label_smoothing is 2, must be a number from 0 to 1"
    );
}

#[test]
fn an_order_is_no_loss_and_a_loss_no_order() {
    let refused = load("inside_out", &Value::Null).err().expect("an order");
    assert_eq!(
        refused.to_string(),
        "plugin inside_out: is a bucket order, but a traced loss is needed; `--plugin` takes one of any kind"
    );
    let source = PluginSource::resolve("softmax").expect("a standard plugin");
    let refused = sandbox().load_order(source, &Value::Null).err();
    assert!(matches!(refused, Some(LoadError::WrongKind { .. })));
}

/// Returns scores, some of them masked.
fn scores(rows: usize, columns: usize) -> (Vec<f32>, Vec<f32>) {
    let number = |i: usize| ((i * 7919) % 1013) as f32 / 101.3 - 5.0;
    let positives = (0..rows).map(number).collect();
    let mut negatives: Vec<f32> = (0..rows * columns).map(|i| number(i + 31)).collect();
    negatives
        .iter_mut()
        .skip(2)
        .step_by(13)
        .for_each(|t| *t = MASKED);
    (positives, negatives)
}

fn run(
    loss: &mut dyn LossWorker,
    positive: &[f32],
    negative: &[f32],
    columns: usize,
) -> native::Evaluation {
    let mut found = native::Evaluation {
        loss: vec![0.0; positive.len()],
        positive_gradient: vec![0.0; positive.len()],
        negative_gradient: negative.to_vec(),
    };
    loss.evaluate(&mut ScoreBlock {
        positive,
        negative: &mut found.negative_gradient,
        columns,
        positive_gradient: &mut found.positive_gradient,
        loss: &mut found.loss,
    })
    .expect("it evaluates");
    found
}

fn assert_bits<L: sdk::ComputedLoss>(name: &str) {
    let mut loss = computed(name, &Value::Null).worker();
    let twin: L = sdk::testing::computed_with_defaults();
    // The last case takes several calls.
    for (rows, columns) in [(0, 3), (1, 1), (3, 0), (5, 16), (7, 101), (150, 1050)] {
        let (positive, negative) = scores(rows, columns);
        let found = run(loss.as_mut(), &positive, &negative, columns);
        let expected = native::evaluate(&twin, &positive, negative, columns).expect("it evaluates");
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&found.loss), bits(&expected.loss), "{name}");
        assert_eq!(
            bits(&found.positive_gradient),
            bits(&expected.positive_gradient)
        );
        assert_eq!(
            bits(&found.negative_gradient),
            bits(&expected.negative_gradient)
        );
    }
}

/// Equal bits transfer the accuracy that is tested natively to the sandbox.
#[test]
fn computed_losses_give_the_same_bits_as_natively() {
    assert_bits::<softmax_computed::SoftmaxComputed>("softmax_computed");
    assert_bits::<logistic_computed::LogisticComputed>("logistic_computed");
    assert_bits::<ranking_computed::RankingComputed>("ranking_computed");
}

#[test]
fn computed_and_traced_losses_agree() {
    let (positive, negative) = scores(9, 33);
    for name in ["softmax", "logistic", "ranking"] {
        let derived = DerivedLoss::of(&traced(name, &Value::Null).graph);
        let mut loss = computed(&format!("{name}_computed"), &Value::Null).worker();
        let found = run(loss.as_mut(), &positive, &negative, 33);
        for (i, &score) in positive.iter().enumerate() {
            let range = i * 33..(i + 1) * 33;
            let wide: Vec<f64> = negative[range.clone()].iter().map(|&t| t.into()).collect();
            let row = derived.row(&[], score.into(), &wide);
            let close = |a: f32, b: f64| (f64::from(a) - b).abs() <= 1e-5 * (1.0 + b.abs());
            assert!(close(found.loss[i], row.loss), "{name}");
            assert!(close(found.positive_gradient[i], row.positive), "{name}");
            let gradients = found.negative_gradient[range].iter().zip(&row.negative);
            for (&a, &b) in gradients {
                assert!(close(a, b), "{name}: {a} {b}");
            }
        }
    }
}

#[test]
fn workers_evaluate_at_the_same_time() {
    let loss = computed("softmax_computed", &Value::Null);
    let (positive, negative) = scores(40, 200);
    let expected = run(loss.worker().as_mut(), &positive, &negative, 200);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut worker = loss.worker();
            let (positive, negative, expected) = (&positive, &negative, &expected);
            scope.spawn(move || {
                for _ in 0..5 {
                    assert_eq!(&run(worker.as_mut(), positive, negative, 200), expected);
                }
            });
        }
    });
}

/// Computed losses are many times slower if the compiler does not vectorize the SDK's loops.
#[test]
fn the_functions_of_the_sdk_are_vectors() {
    let mut config = wasmtime::Config::new();
    config.wasm_relaxed_simd(false).wasm_simd(false);
    let engine = wasmtime::Engine::new(&config).expect("an engine without vectors");
    for name in ["logistic_computed", "softmax_computed"] {
        let standard = pbg_wasm::standard_plugins();
        let plugin = standard.iter().find(|plugin| plugin.name == name);
        let bytes = plugin.expect("a standard plugin").bytes;
        let refused = wasmtime::component::Component::new(&engine, bytes).err();
        let reason = format!("{:?}", refused.expect("it has vectors"));
        assert!(reason.contains("SIMD"), "{reason}");
    }
}
