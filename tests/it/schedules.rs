//! Learning rate schedules from plugins: trained, resumed, and refused where they or their answers do not fit.

use std::fs;

use crate::support::graph::CONFIG;
use crate::support::plugin::{factor, schedule};
use crate::support::{Workplace, finish, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// Keys of a run with a warm-up, of four passes in each epoch.
const LONG: [&str; 3] = [
    "num_epochs=4",
    "num_edge_chunks=4",
    "lr_schedule.warmup_epochs=0.7",
];

/// The decay `linear` of the program, as an expression.
const LINEAR: &str = "(f64.sub (f64.const 1) (f64.div
    (f64.sub (local.get $epoch) (local.get $start)) (f64.sub (local.get $end) (local.get $start))))";

/// Returns a place with a component whose factor has this body.
fn place(body: &str) -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.write("mine.wasm", schedule(body));
    place
}

/// Returns the files with the embeddings of a checkpoint.
fn embeddings(place: &Workplace) -> Vec<(String, Vec<u8>)> {
    let files = place.committed("model").into_iter();
    files
        .filter(|(name, _)| name.starts_with("embeddings"))
        .collect()
}

fn keys<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut keys = LONG.to_vec();
    keys.extend(more);
    with(&TRAIN, &keys)
}

#[test]
fn a_component_trains_to_the_bytes_of_the_same_decay() {
    let own = place(&factor(LINEAR));
    own.run(keys(&["lr_schedule.decay=mine.wasm"])).succeeds();
    let built_in = Workplace::with_dataset(CONFIG);
    built_in.run(keys(&["lr_schedule.decay=linear"])).succeeds();
    assert_eq!(embeddings(&own), embeddings(&built_in));
    let other = Workplace::with_dataset(CONFIG);
    other.run(keys(&["lr_schedule.decay=cosine"])).succeeds();
    assert_ne!(embeddings(&own), embeddings(&other));
    // A factor of 1 is no schedule.
    let one = place(&factor("(f64.const 1)"));
    one.run(TRAIN.iter().chain(&["--plugin", "mine.wasm"]))
        .succeeds();
    let constant = Workplace::with_dataset(CONFIG);
    constant.run(TRAIN).succeeds();
    assert_eq!(embeddings(&one), embeddings(&constant));
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    for decay in ["step_decay", "warm_restarts"] {
        let [whole, parts] = [(); 2].map(|()| Workplace::with_dataset(CONFIG));
        let decay = format!("lr_schedule.decay={decay}");
        let set = [
            "lr_schedule.decay_epochs=4",
            &decay,
            "plugins.params.step_decay.every=0.6",
            "plugins.params.warm_restarts.period=1.3",
        ];
        whole.run(keys(&set)).succeeds();
        let first = [&set[..], &["num_epochs=2"]].concat();
        parts.run(keys(&first)).succeeds();
        parts.run(keys(&set)).succeeds();
        assert_eq!(whole.committed("model"), parts.committed("model"));
        // The end of the schedule is that of the run unless it is set.
        let open = keys(&[set[1], set[2], set[3], "checkpoint_path=open"]);
        whole.run(&open).succeeds();
        let longer = [&open[..], &["--set", "num_epochs=5"]].concat();
        whole
            .run(longer)
            .fails(5, &["lr_schedule.decay_epochs: 5, not 4"]);
    }
}

/// A checkpoint knows its plugins by their bytes, so their files may be moved between the parts of a run.
#[test]
fn a_run_resumes_with_plugins_that_have_moved() {
    let [whole, parts] = [(); 2].map(|()| place(&factor(LINEAR)));
    let mut standard = pbg_wasm::standard_plugins().iter();
    let softmax = standard.find(|plugin| plugin.name == "softmax").unwrap();
    for place in [&whole, &parts] {
        fs::write(place.path("own.wasm"), softmax.bytes).unwrap();
    }
    let set = [
        "lr_schedule.decay_epochs=4",
        "lr_schedule.decay=mine.wasm",
        "loss_fn=own.wasm",
    ];
    whole.run(keys(&set)).succeeds();
    parts
        .run(keys(&[&set[..], &["num_epochs=2"]].concat()))
        .succeeds();
    fs::create_dir(parts.path("shelf")).unwrap();
    fs::rename(parts.path("mine.wasm"), parts.path("shelf/rate.wasm")).unwrap();
    fs::rename(parts.path("own.wasm"), parts.path("shelf/loss.wasm")).unwrap();
    let moved = [
        set[0],
        "lr_schedule.decay=shelf/rate.wasm",
        "loss_fn=shelf/loss.wasm",
    ];
    parts.run(keys(&moved)).succeeds();
    assert_eq!(embeddings(&whole), embeddings(&parts));
    // Other bytes are another plugin, wherever they are.
    parts.write("shelf/rate.wasm", schedule(&factor("(f64.const 0.5)")));
    let longer = keys(&[&moved[..], &["num_epochs=5"]].concat());
    parts
        .run(longer)
        .fails(5, &["the learning rate schedule was evil 6.6.6 (sha256"]);
}

#[test]
fn another_schedule_is_refused_unless_it_is_allowed() {
    let place = place(&factor(LINEAR));
    place.run(keys(&["lr_schedule.decay=mine.wasm"])).succeeds();
    let again = |more: &[&str]| place.run(keys(more));
    again(&["lr_schedule.decay=step_decay"])
        .fails(5, &["lr_schedule.decay: \"step_decay\", not \"mine.wasm\""]);
    again(&["lr_schedule.decay=linear"]).fails(5, &["\"linear\", not \"mine.wasm\""]);
    place.write("mine.wasm", schedule(&factor("(f64.const 0.5)")));
    again(&["lr_schedule.decay=mine.wasm"]).fails(
        5,
        &[
            "the learning rate schedule was evil 6.6.6 (sha256",
            "--allow-plugin-change",
        ],
    );
    let allowed = |decay: &str| {
        let set = keys(&["lr_schedule.decay_epochs=4", decay]);
        place.run(set.iter().chain(&["--allow-plugin-change"]))
    };
    allowed("lr_schedule.decay=mine.wasm").succeeds();
    allowed("lr_schedule.decay=step_decay").succeeds();
    again(&[
        "lr_schedule.decay=step_decay",
        "plugins.params.step_decay.every=3.0",
    ])
    .fails(5, &["plugins.params.step_decay: { every = 3 }"]);
}

#[test]
fn bad_answers_end_the_run_before_anything_is_trained() {
    let nan = factor("(f64.const nan)");
    let late = factor(
        "(select (f64.const -0.25) (f64.const 1) (f64.gt (local.get $epoch) (f64.const 1)))",
    );
    let endless = "(loop $on (br $on)) unreachable";
    for (body, reasons) in [
        (
            &nan[..],
            &[
                "plugin evil 6.6.6: factor: at epoch 0.5 of a schedule from 0 to 2, the factor of the learning rates is NaN",
                "from 0 to 1000",
            ][..],
        ),
        (&late, &["at epoch 1.5 of", "is -0.25"]),
        (&factor("(f64.const 1e300)"), &["is 1"]),
        (&factor("(f64.const inf)"), &["is inf"]),
        ("unreachable", &["evil 6.6.6: factor", "unreachable"]),
        (endless, &["evil 6.6.6: factor", "deadline"]),
    ] {
        let place = place(body);
        let train = with(
            &TRAIN,
            &[
                "lr_schedule.decay=mine.wasm",
                "plugins.limits.deadline_ms=200",
            ],
        );
        place.run(&train).fails(6, reasons);
        assert!(!place.path("model/manifest.json").exists(), "{body}");
        let check = [&["check"], &train[3..]].concat();
        place.run(check).fails(6, reasons);
        let replay = ["plugin", "replay", "model/faults/evil-factor-1.json"];
        place.run(replay).fails(6, &["evil 6.6.6"]);
        place.write("mine.wasm", schedule(&factor("(f64.const 0.5)")));
        let mended = [&replay[..], &["--plugin", "mine.wasm"]].concat();
        let said = place.run(mended).succeeds().stdout;
        assert!(said.contains("a factor of 0.5"), "{said}");
    }
}

#[test]
fn a_schedule_that_fails_has_no_fallback() {
    let place = place("unreachable");
    let train = with(
        &TRAIN,
        &["lr_schedule.decay=mine.wasm", "plugins.on_fault=fallback"],
    );
    place.run(train).fails(6, &["evil 6.6.6: factor"]);
}

#[test]
fn what_does_not_fit_is_said_before_training() {
    let place = place(&factor(LINEAR));
    let run = |set: &[&str]| place.run(with(&TRAIN, set));
    run(&["lr_schedule.decay=warm_restart"]).fails(3, &["did you mean `warm_restarts`?"]);
    run(&["lr_schedule.decay=softmax"]).fails(3, &["\"softmax\" is a loss, which `loss_fn` takes"]);
    run(&["lr_schedule.decay=none.wasm"]).fails(6, &["none.wasm", "no such file"]);
    run(&["loss_fn=mine.wasm"]).fails(6, &["learning rate schedule"]);
    run(&[
        "lr_schedule.decay=step_decay",
        "plugins.params.step_decay.fraction=2",
    ])
    .fails(3, &["fraction"]);
    let twice = ["--plugin", "mine.wasm", "--plugin", "step_decay"];
    place
        .run(TRAIN.iter().chain(&twice))
        .fails(2, &["only one learning rate schedule"]);
    let warm = with(
        &["train", "--plugin", "mine.wasm"],
        &["lr_schedule.decay_epochs=1", "lr_schedule.warmup_epochs=1"],
    );
    place.run(warm).fails(3, &["lr_schedule.decay_epochs"]);
    let pins = format!(
        "plugins.pins=[{{plugin = \"evil\", sha256 = \"{}\"}}]",
        "0".repeat(64)
    );
    run(&["lr_schedule.decay=mine.wasm", &pins]).fails(6, &["mine.wasm", "pinned"]);
    run(&[&pins]).fails(
        3,
        &["evil is pinned, but this run uses no plugin of that name"],
    );
    let long = [
        "lr_schedule.decay=step_decay",
        "num_epochs=2000000",
        "checkpoint_path=long",
    ];
    run(&long).fails(3, &["step_decay 0.1.0 would be asked for 2000000 passes"]);
}

#[test]
fn a_schedule_is_named_in_every_way_and_shown() {
    let place = Workplace::with_dataset(CONFIG);
    place.write("shelf/mine.wasm", schedule(&factor(LINEAR)));
    let said = place.run(["check", "--plugin", "shelf/mine.wasm"]);
    let said = said.succeeds().stdout;
    let shown = "learning rate schedule evil 6.6.6: factor 0.75 in the first pass and 0.25 in the last, from 0.25 to 0.75";
    assert!(said.contains(shown), "{said}");
    let built_in = with(&["check"], &["lr_schedule.decay=linear"]);
    let said = place.run(built_in).succeeds().stdout;
    let shown = "learning rate schedule linear: factor 0.75 in the first pass and 0.25 in the last, from 0.25 to 0.75";
    assert!(said.contains(shown), "{said}");
    let said = place.run(["check"]).succeeds().stdout;
    assert!(!said.contains("learning rate schedule"), "{said}");
    let said = place.run(["check", "--json", "--plugin", "shelf/mine.wasm"]);
    let said: serde_json::Value = serde_json::from_str(&said.succeeds().stdout).unwrap();
    assert_eq!(said["lr_schedule"]["passes"], 2);
    let mut command = place.command(with(&["train"], &["lr_schedule.decay=mine"]));
    let said = finish(command.env("PBG_PLUGIN_PATH", "shelf")).succeeds();
    assert!(
        said.stderr.contains("schedule mine until epoch 2"),
        "{}",
        said.stderr
    );
    let manifest = place.read("model/manifest.json");
    assert!(
        manifest.contains("decay = \\\"shelf/mine.wasm\\\""),
        "{manifest}"
    );
    let events = place.read("model/metrics.jsonl");
    // The rates are those of the middles of the epochs: 0.1 times 0.75 and 0.25.
    for rate in ["\"lr\":0.075", "\"lr\":0.025"] {
        assert!(events.contains(rate), "{events}");
    }
    // Models are read without the plugin.
    std::fs::remove_file(place.path("shelf/mine.wasm")).unwrap();
    place.run(["eval", "model", "--edges", "test"]).succeeds();
}

#[test]
fn standard_schedules_keep_their_promises() {
    let place = Workplace::empty();
    for name in ["step_decay", "warm_restarts"] {
        let said = place.run(["plugin", "check", name]).succeeds().stdout;
        for part in ["factors", "deterministic", "curve", " |#", " +---"] {
            assert!(said.contains(part), "{said}");
        }
        let said = place.run(["plugin", "inspect", name]).succeeds().stdout;
        assert!(said.contains("learning rate schedule"), "{said}");
        let bench = ["plugin", "bench", name, "--seconds", "0.05"];
        let said = place.run(bench).succeeds().stdout;
        assert!(said.contains("factor "), "{said}");
    }
    let listed = place.run(["plugin", "list"]).succeeds().stdout;
    assert!(listed.contains("warm_restarts"), "{listed}");
    let steep = ["plugin", "check", "step_decay", "--set", "fraction=0"];
    let said = place.run(steep).succeeds().stdout;
    assert!(said.contains("ends with 0"), "{said}");
    place.write(
        "evil.wasm",
        schedule(&factor("(f64.sub (f64.const 1) (local.get $epoch))")),
    );
    let said = place.run(["plugin", "check", "evil.wasm"]);
    let said = said.fails(6, &["breaks 1 promise"]).stdout;
    assert!(
        said.contains("the factor of the learning rates is -"),
        "{said}"
    );
}
