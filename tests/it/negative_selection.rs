//! Negative selectors as a user meets them: runs that train with them, what they cost, and what happens when they fail.

use serde_json::Value;

use crate::support::plugin::{CANDIDATES, POOL, failing_selector, negative_selector, selection};
use crate::support::{Workplace, graph::CONFIG};

const QUIET: [&str; 3] = ["train", "--progress", "none"];

/// A selector that scores, and one of which only the highest scores count.
const SELECTORS: [&[&str]; 2] = [
    &["negative_sampler=hard_negatives"],
    &[
        "negative_sampler=hard_negatives",
        "plugins.params.hard_negatives.temperature=0.0",
        "plugins.params.hard_negatives.fraction=1.0",
        "plugins.params.hard_negatives.score=highest",
        "plugins.params.hard_negatives.candidates=3",
    ],
];

fn with<'a>(command: &[&'a str], keys: &[&'a str]) -> Vec<&'a str> {
    let set = keys.iter().flat_map(|key| ["--set", key]);
    command.iter().copied().chain(set).collect()
}

/// Returns the configuration with dynamic relations, or the same with static ones.
fn config(dynamic: bool) -> String {
    match dynamic {
        true => CONFIG.to_owned(),
        false => CONFIG
            .replace("dynamic_relations = true", "")
            .replace("name = \"any\"", "name = \"*\""),
    }
}

/// The time of the pools, their scores and the calls is a stage of its own, which others do not have.
#[test]
fn the_time_of_selecting_is_in_the_profile() {
    let place = Workplace::with_dataset(CONFIG);
    let stages = |keys: &[&str]| -> Vec<String> {
        let told = place.run(with(&["bench", "train", "--json"], keys));
        let report: Value = serde_json::from_str(&told.succeeds().stdout).unwrap();
        let stages = report["stages"].as_array().unwrap().iter();
        stages
            .map(|of| of[0].as_str().unwrap().to_owned())
            .collect()
    };
    let (without, with) = (stages(&[]), stages(SELECTORS[0]));
    assert_eq!(without[0], "gather");
    assert_eq!(with[0], "select");
    assert_eq!(without, with[1..]);
}

/// A selection depends on the position and the model alone, so a run that is stopped selects what an uninterrupted one
/// selects.
#[test]
fn an_epoch_more_is_the_same_as_a_longer_run() {
    for dynamic in [true, false] {
        let config = config(dynamic);
        let uniform = Workplace::with_dataset(&config);
        uniform.run(QUIET).succeeds();
        for keys in SELECTORS {
            let (at_once, in_two) = (
                Workplace::with_dataset(&config),
                Workplace::with_dataset(&config),
            );
            at_once.run(with(&QUIET, keys)).succeeds();
            let first = [keys, &["num_epochs=1"]].concat();
            in_two.run(with(&QUIET, &first)).succeeds();
            in_two.run(with(&QUIET, keys)).succeeds();
            let trained = at_once.committed("model");
            assert_eq!(trained, in_two.committed("model"), "{keys:?}");
            assert_ne!(trained, uniform.committed("model"), "{keys:?}");
            let other = in_two.run(with(&QUIET, &["num_epochs=3"]));
            other.fails(5, &["negative_sampler"]);
        }
    }
}

#[test]
fn several_workers_select_at_once() {
    let uniform = edges_by_epoch(&config(false), |_| "negative_sampler=uniform_negatives");
    let selected = edges_by_epoch(&config(false), |_| SELECTORS[0][0]);
    assert_eq!(selected, uniform);
}

/// Returns the number of edges that three workers train in each epoch, without a fault. `sampler` prepares the workplace and
/// returns a key.
fn edges_by_epoch(config: &str, sampler: impl Fn(&Workplace) -> &'static str) -> Vec<u64> {
    let place = Workplace::with_dataset(config);
    let keys = [sampler(&place), "workers=3", "num_epochs=2"];
    let said = place.run(with(&QUIET, &keys)).succeeds().stderr;
    assert!(!said.contains("replaces it"), "{said}");
    let lines = place.read("model/metrics.jsonl");
    let events = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let epochs = events.filter(|event: &Value| event["event"] == "epoch_finished");
    let counts: Vec<u64> = epochs
        .map(|event| event["stats"]["count"].as_u64().unwrap())
        .collect();
    assert!(counts.len() == 2 && counts[0] > 0, "{counts:?}");
    counts
}

/// Where all entities are negatives, none is selected, and nothing is scored for it.
#[test]
fn a_selector_without_negatives_changes_nothing() {
    let all = config(false).replace("[[relations]]", "[[relations]]\nall_negs = true");
    let models = [&[][..], SELECTORS[0]].map(|keys| {
        let place = Workplace::with_dataset(&all);
        let said = place.run(with(&["check"], keys)).succeeds().stdout;
        assert!(!said.contains("candidates for negatives"), "{said}");
        place.run(with(&QUIET, keys)).succeeds();
        place.committed("model")
    });
    assert_eq!(models[0], models[1]);
}

#[test]
fn a_selection_is_announced_and_what_it_cannot_do_is_refused() {
    let place = Workplace::with_dataset(CONFIG);
    let of = |keys: &[&str]| place.run(with(&["check"], keys)).succeeds().stdout;
    assert!(!of(&[]).contains("candidates for negatives"));
    let said = of(SELECTORS[0]);
    assert!(said.contains("candidates for negatives"), "{said}");
    assert!(
        said.contains("\nnegative selector hard_negatives"),
        "{said}"
    );
    let bucket = ["negative_sampler=hard_negatives", "negatives_from=bucket"];
    place
        .run(with(&["check"], &bucket))
        .fails(3, &["negative_sampler", "negatives_from"]);
    let bucket = with(
        &["check", "--plugin", "hard_negatives"],
        &["negatives_from=bucket"],
    );
    place
        .run(bucket)
        .fails(3, &["hard_negatives", "negatives_from"]);
    for [first, second] in [["hard_negatives", "degree"], ["degree", "hard_negatives"]] {
        let said = ["only one negative sampler or selector", first, second];
        let two = ["train", "--plugin", first, "--plugin", second];
        place.run(two).fails(2, &said);
    }
    let none = with(
        &["check", "--plugin", "hard_negatives"],
        &["num_uniform_negs=0"],
    );
    let said = ["num_uniform_negs is 0", "negative selector hard_negatives"];
    place.run(none).fails(3, &said);
}

#[test]
fn answers_that_cannot_be_trained_end_the_run() {
    let place = Workplace::with_dataset(CONFIG);
    let first = |value: &str| {
        let answer = selection(0, CANDIDATES, POOL);
        format!("(i32.store {CANDIDATES} (i32.const {value})) {answer}")
    };
    let nan = format!(
        "(f32.store {CANDIDATES} (f32.const nan)) {}",
        selection(1, CANDIDATES, POOL)
    );
    let zeros = selection(1, "(i32.const 8192)", POOL);
    for (body, reason) in [
        ("unreachable".to_owned(), "select"),
        (
            selection(0, CANDIDATES, "(i32.const 0)"),
            "it selected 0 entities",
        ),
        (first("-1"), "it selected entity 4294967295"),
        (
            selection(1, CANDIDATES, "(i32.const 1)"),
            "give one weight per candidate",
        ),
        (selection(0, CANDIDATES, "(i32.const 0x7fffffff)"), "select"),
        (nan, "the weight of candidate 0 is NaN"),
        (zeros, "all weights are 0"),
        ("(loop $on (br $on)) unreachable".to_owned(), "deadline"),
    ] {
        place.write("evil.wasm", negative_selector(&body));
        let evil = [&QUIET[..], &["--plugin", "evil.wasm"]].concat();
        let failed = place.run(with(&evil, &["plugins.limits.deadline_ms=100"]));
        failed.fails(6, &["evil 6.6.6", reason]);
    }
}

#[test]
fn a_selector_that_fails_leaves_its_fallback_and_a_file_that_repeats_the_call() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("evil.wasm", negative_selector("unreachable"));
    let evil = [&QUIET[..], &["--plugin", "evil.wasm"]].concat();
    let said = place
        .run(with(&evil, &["plugins.on_fault=fallback"]))
        .succeeds()
        .stderr;
    assert!(
        said.contains("uniform_negatives 0.1.0 replaces it"),
        "{said}"
    );
    let file = "model/faults/evil-select-1.json";
    let repeated = place.run(["plugin", "replay", file]);
    repeated.fails(6, &["evil 6.6.6", "select"]);
    let other = ["plugin", "replay", file, "--plugin", "all.wasm"];
    place.write(
        "all.wasm",
        negative_selector(&selection(0, CANDIDATES, POOL)),
    );
    place.run(other).succeeds();
}

/// Without scores, the pool is as large as the negatives, and all of it may be taken.
#[test]
fn a_selector_that_takes_its_pool_trains_every_edge() {
    let uniform = edges_by_epoch(CONFIG, |_| "negative_sampler=uniform_negatives");
    let all = edges_by_epoch(CONFIG, |place| {
        let all = negative_selector(&selection(0, CANDIDATES, POOL));
        place.write("all.wasm", all);
        "negative_sampler=./all.wasm"
    });
    assert_eq!(all, uniform);
}

#[test]
fn a_selector_names_its_fallback_which_must_be_a_distribution() {
    let place = Workplace::with_dataset(CONFIG);
    let evil = [&QUIET[..], &["--plugin", "evil.wasm"]].concat();
    let evil = with(&evil, &["plugins.on_fault=fallback"]);
    place.write("evil.wasm", failing_selector("degree"));
    let said = place.run(&evil).succeeds().stderr;
    assert!(said.contains("degree 0.1.0 replaces it"), "{said}");
    place.write("evil.wasm", failing_selector("hard_negatives"));
    let said = [
        "the fallback that evil 6.6.6",
        "hard_negatives",
        "is a negative selector, not a negative sampler",
    ];
    place.run(&evil).fails(6, &said);
}

#[test]
fn the_standard_selector_keeps_its_promises() {
    let place = Workplace::empty();
    let said = place.run(["plugin", "check", "hard_negatives"]).succeeds();
    assert!(
        said.stdout.contains("follow the weights"),
        "{}",
        said.stdout
    );
    assert!(said.stdout.contains("if uniform"), "{}", said.stdout);
    let said = place
        .run(["plugin", "inspect", "hard_negatives"])
        .succeeds();
    assert!(said.stdout.contains("negative selector"), "{}", said.stdout);
    let bench = ["plugin", "bench", "hard_negatives", "--seconds", "0.05"];
    let said = place.run(bench).succeeds().stdout;
    assert!(said.contains("50 negatives"), "{said}");
    place.write(
        "moody.wasm",
        negative_selector(&selection(0, "(i32.const 8192)", "(i32.const 1)")),
    );
    let broken = place.run(["plugin", "check", "moody.wasm"]);
    broken.fails(6, &["evil 6.6.6", "breaks 1 promise"]);
}
