//! Losses from files: formulas that change during training, and losses that fail.

use serde_json::Value;

use crate::support::loss::{ZEROS, computed, computed_with_fallback, margin, traced};
use crate::support::{Workplace, graph::CONFIG};

const EPOCH: [&str; 5] = ["train", "--set", "num_epochs=1", "--progress", "none"];
const FALLBACK: [&str; 2] = ["--set", "plugins.on_fault=fallback"];

/// Nine tenths of the margin plus a little of the mean loss, so that it depends on every argument of `update`.
const MOVING: &str = "(f32.add
    (f32.mul (f32.load (local.get $values)) (f32.const 0.9))
    (f32.mul (local.get $mean) (f32.const 0.001)))";

fn with_loss(bytes: &[u8]) -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.write("evil.wasm", bytes);
    place
}

fn train(place: &Workplace, epochs: u32) {
    let epochs = format!("num_epochs={epochs}");
    place
        .run([
            "train",
            "--plugin",
            "evil.wasm",
            "--set",
            &epochs,
            "--progress",
            "none",
        ])
        .succeeds();
}

/// Returns the state of the loss in the checkpoint.
fn remembered(place: &Workplace) -> Value {
    let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
    manifest["run"]["state"]["loss"].clone()
}

#[test]
fn parameters_move_and_a_resumed_run_goes_on_with_them() {
    let bytes = traced(&margin(MOVING));
    let (whole, parts) = (with_loss(&bytes), with_loss(&bytes));
    train(&whole, 4);
    for epochs in [1, 2, 4] {
        train(&parts, epochs);
    }
    assert_eq!(whole.committed("model"), parts.committed("model"));
    let state = remembered(&whole);
    assert_eq!(state, remembered(&parts));
    let steps = state["step"].as_u64().unwrap();
    assert!(
        steps > 20 && !steps.is_multiple_of(5),
        "an update must be pending: {state}"
    );
    let value = state["parameters"][0].as_f64().unwrap();
    assert!(value > 0.0 && value < 0.5, "{value}");

    let still = with_loss(&traced(&margin("(f32.const 0.5)")));
    train(&still, 4);
    assert_ne!(whole.committed("model"), still.committed("model"));
}

#[test]
fn a_run_says_which_loss_it_trains_with() {
    let place = with_loss(&traced(&margin("(f32.const 0.5)")));
    let run = ["train", "--plugin", "evil.wasm", "--progress", "plain"];
    let said = place.run(run).succeeds().stderr;
    assert!(said.contains("loss evil"), "{said}");
}

/// Asserts that a run ends for this reason, and that a replay of its fault file, which is returned, fails for the same
/// reason.
fn fails_again(function: &str, reason: &str, place: &Workplace) -> String {
    let failed = format!("evil 6.6.6: {function}");
    let file = format!("model/faults/evil-{function}-1.json");
    place
        .run(EPOCH.iter().chain(&["--plugin", "evil.wasm"]))
        .fails(6, &[&failed, reason, &file]);
    place
        .run(["plugin", "replay", &file])
        .fails(6, &[&failed, reason]);
    file
}

#[test]
fn an_update_that_fails_ends_the_run_and_can_be_replayed() {
    for (update, reason) in [
        ("unreachable", "unreachable"),
        (
            &margin("(f32.const nan)"),
            "returned NaN for the parameter `margin`, which is not finite",
        ),
    ] {
        let place = with_loss(&traced(update));
        let file = fails_again("update", reason, &place);
        place.write("mended.wasm", traced(&margin("(f32.const 0.25)")));
        let mended = place
            .run(["plugin", "replay", &file, "--plugin", "mended.wasm"])
            .succeeds();
        assert!(mended.stdout.contains("[0.25]"), "{}", mended.stdout);
    }
}

#[test]
fn the_check_of_a_loss_plays_its_updates() {
    // `plugin check` finds a value that is not a number, and one that is too large for a sum of losses.
    for (value, reason) in [
        ("(f32.const nan)", "returned NaN for the parameter `margin`"),
        ("(f32.const 3e38)", "`update` returned margin 3"),
    ] {
        let place = with_loss(&traced(&margin(value)));
        let checked = place.run(["plugin", "check", "evil.wasm"]);
        let found = "BROKEN  update         after 5 batches, with a mean loss of 3";
        assert!(checked.stdout.contains(found), "{}", checked.stdout);
        assert!(checked.stdout.contains(reason), "{}", checked.stdout);
        checked.fails(6, &["evil", "1 promise"]);
    }
    let place = with_loss(&traced(&margin(MOVING)));
    let kept = place.run(["plugin", "check", "evil.wasm"]).succeeds();
    assert!(
        kept.stdout.contains("from margin 0.5 to margin"),
        "{}",
        kept.stdout
    );
}

#[test]
fn a_formula_that_fails_can_be_replayed() {
    let looping = traced("unreachable");
    let place = with_loss(&looping);
    let limits = [
        "--set",
        "plugins.limits.graph_nodes=3",
        "--plugin",
        "evil.wasm",
    ];
    place
        .run(EPOCH.iter().chain(&limits))
        .fails(6, &["build", "more than the 3", "evil-build-1.json"]);
    place
        .run(["plugin", "replay", "model/faults/evil-build-1.json"])
        .fails(6, &["evil 6.6.6: build", "more than the 3"]);
    // The folder of faults does not prevent the next run.
    place.run(EPOCH).succeeds();
}

#[test]
fn an_evaluation_that_fails_can_be_replayed() {
    let nan = format!("(f32.store (i32.const 1048576) (f32.const nan)) {ZEROS}");
    for (evaluate, reason) in [
        ("unreachable", "unreachable"),
        (nan.as_str(), "returned NaN among the losses"),
        (
            &ZEROS.replace("(local.get $rows)", "(i32.const 3)"),
            "returned 3 losses for",
        ),
    ] {
        let place = with_loss(&computed(evaluate));
        let file = fails_again("evaluate", reason, &place);
        let mended = place
            .run(["plugin", "replay", &file, "--plugin", "softmax_computed"])
            .succeeds();
        assert!(mended.stdout.contains("on average"), "{}", mended.stdout);
    }
}

/// Trains an epoch in which the loss fails and `standard` replaces it.
fn falls_back(place: &Workplace, standard: &str) {
    let plugin = ["--plugin", "evil.wasm"];
    let said = place
        .run(EPOCH.iter().chain(&plugin).chain(&FALLBACK))
        .succeeds()
        .stderr;
    let expected = format!("{standard} replaces it");
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn the_standard_loss_takes_the_place_of_one_that_fails() {
    let place = with_loss(&computed("unreachable"));
    falls_back(&place, "ranking 0.1.0");
    let lines = place.read("model/metrics.jsonl");
    let faults: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &Value| event["event"] == "plugin_fault")
        .collect();
    assert_eq!(faults.len(), 1, "one fault, not one per slice: {faults:?}");
    assert_eq!(faults[0]["function"], "evaluate");
    // The standard loss replaces it from the very first rows on, so that nothing else was trained.
    let standard = Workplace::with_dataset(CONFIG);
    standard
        .run(EPOCH.iter().chain(&["--set", "loss_fn=ranking"]))
        .succeeds();
    assert_eq!(place.committed("model"), standard.committed("model"));
}

#[test]
fn a_loss_falls_back_to_what_it_names() {
    let place = with_loss(&computed_with_fallback("softmax", "unreachable"));
    falls_back(&place, "softmax 0.1.0");
    let standard = Workplace::with_dataset(CONFIG);
    standard
        .run(EPOCH.iter().chain(&["--set", "loss_fn=softmax"]))
        .succeeds();
    assert_eq!(place.committed("model"), standard.committed("model"));
}

#[test]
fn a_fallback_that_there_is_not_ends_the_run_before_it_begins() {
    for (fallback, words) in [
        (
            "softmacks",
            vec![
                "the fallback that evil 6.6.6 names",
                "softmacks",
                "did you mean softmax?",
            ],
        ),
        (
            "inside_out",
            vec![
                "the fallback that evil 6.6.6 names",
                "inside_out",
                "bucket order",
            ],
        ),
        ("../softmax", vec!["fallback \"../softmax\" must have"]),
    ] {
        let place = with_loss(&computed_with_fallback(fallback, "unreachable"));
        let run = EPOCH
            .iter()
            .chain(&["--plugin", "evil.wasm"])
            .chain(&FALLBACK);
        place.run(run).fails(6, &words);
    }
    // The standard losses name formulas that exist.
    let standard = Workplace::with_dataset(CONFIG);
    for loss in pbg_wasm::standard_plugins() {
        let shown = standard
            .run(["plugin", "inspect", loss.name, "--json"])
            .succeeds();
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        let fallback = shown["fallback"].as_str();
        assert_eq!(
            fallback.is_some(),
            loss.kind == pbg_wasm::PluginSlot::ComputedLoss,
            "{}",
            loss.name
        );
        let mut formulas = pbg_wasm::standard_plugins()
            .iter()
            .filter(|formula| formula.kind == pbg_wasm::PluginSlot::TracedLoss);
        if let Some(name) = fallback {
            assert!(formulas.any(|formula| formula.name == name), "{name}");
        }
    }
}

#[test]
fn a_loss_that_scores_of_cos_leave_large_is_a_warning() {
    let place = Workplace::with_dataset(CONFIG);
    for (loss, comparator, warned) in [
        ("logistic", "cos", true),
        ("logistic", "dot", false),
        ("ranking", "cos", false),
    ] {
        let keys = [
            format!("loss_fn={loss}"),
            format!("comparator={comparator}"),
        ];
        let keys = keys.iter().flat_map(|key| ["--set", key]);
        let shown = place.run(["check"].into_iter().chain(keys));
        let shown = shown.succeeds().stderr;
        let warning = format!("loss_fn: {loss} with comparator cos: scores stay within -1 to 1");
        assert_eq!(shown.contains(&warning), warned, "{shown}");
    }
}

#[test]
fn a_report_names_the_loss_beside_order_and_sampler() {
    let place = with_loss(&computed(ZEROS));
    place
        .run(EPOCH.iter().chain(&["--plugin", "evil.wasm"]))
        .succeeds();
    let report = place.run(["report", "model"]).succeeds().stdout;
    for words in [
        "strategy                  inside_out 0.1.0 (",
        "strategy                  proportional 0.1.0 (",
        "strategy                  evil 6.6.6 (",
        "loss                      evil\n",
    ] {
        assert!(report.contains(words), "{words} is not in\n{report}");
    }
}

#[test]
fn a_loss_that_fails_later_keeps_what_it_trained() {
    let later =
        format!("(if (i32.gt_u (global.get $calls) (i32.const 9)) (then unreachable)) {ZEROS}");
    let place = with_loss(&computed(&later));
    let run = EPOCH.iter().chain(&["--plugin", "evil.wasm"]);
    place.run(run.clone().chain(&FALLBACK)).succeeds();
    let edges = |place: &Workplace| {
        let lines = place.read("model/metrics.jsonl");
        let events = lines
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut finished = events.filter(|event| event["event"] == "epoch_finished");
        finished.next().unwrap()["stats"]["count"].clone()
    };
    let standard = Workplace::with_dataset(CONFIG);
    standard.run(EPOCH).succeeds();
    assert_eq!(edges(&place), edges(&standard));
    // A resumed run begins with its own loss again, and falls back again.
    let more = ["--set", "num_epochs=2"];
    let said = place.run(run.chain(&FALLBACK).chain(&more)).succeeds();
    assert!(said.stderr.contains("replaces it"), "{}", said.stderr);
}

#[test]
fn a_formula_whose_update_fails_falls_back_too() {
    let place = with_loss(&traced("unreachable"));
    let said = place
        .run(
            EPOCH
                .iter()
                .chain(&["--plugin", "evil.wasm"])
                .chain(&FALLBACK),
        )
        .succeeds()
        .stderr;
    assert!(said.contains("update"), "{said}");
    assert!(said.contains("ranking 0.1.0 replaces it"), "{said}");
}
