//! Identity of a checkpoint's rows: every command compares the checkpoint with the configuration and the dataset, and
//! none gives embeddings to the wrong names.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::graph::{self, CONFIG};
use crate::support::{Workplace, finish};

/// Exit code for a checkpoint that disagrees with the configuration.
const CHECKPOINT: i32 = 5;

const EVAL: [&str; 2] = ["eval", "--json"];

/// Trains on the small graph; returns the folder.
fn trained() -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    place
}

/// Returns the commands that read a trained model, up to their options.
fn readers() -> [Vec<String>; 5] {
    let name = graph::name(0, 1);
    let export = ["export", "--format", "tsv", "--out", "out", "--overwrite"];
    [
        EVAL.map(str::to_owned).to_vec(),
        export.map(str::to_owned).to_vec(),
        vec!["neighbors".to_owned(), "pbg.toml".to_owned(), name],
        vec!["score".to_owned()],
        vec!["predict".to_owned(), "--check".to_owned()],
    ]
}

/// Appends arguments to `command`.
fn with<'a>(command: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    let command = command.iter().map(String::as_str);
    command.chain(more.iter().copied()).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Returns the MRR of both sides.
fn mrr(report: &str) -> f64 {
    json(report)["raw"]["mrr"].as_f64().unwrap()
}

fn of_kind(events: &str, kind: &str) -> Vec<Value> {
    let events = events.lines().map(json);
    events.filter(|event| event["event"] == kind).collect()
}

#[test]
fn a_dataset_that_was_imported_anew_gives_no_names_to_old_rows() {
    let place = trained();
    let import = "import --fresh --set seed=99 --edges train=train.tsv --edges test=test.tsv";
    place.run(import.split(' ')).succeeds();
    let words = [
        "model",
        "another dataset",
        "rows of `place` have another meaning",
    ];
    for command in readers() {
        place.run(&command).fails(CHECKPOINT, &words);
    }
    assert!(!place.path("out/entities_place.tsv").exists());
    place.run(["eval", "--check"]).fails(CHECKPOINT, &words);
    place.run(["check"]).fails(CHECKPOINT, &words);
    place.run(["train"]).fails(CHECKPOINT, &words);
    let start = [
        "train",
        "--set",
        "checkpoint_path=second",
        "--set",
        "init_path=model",
    ];
    place.run(start).fails(CHECKPOINT, &words);
}

#[test]
fn a_model_is_read_as_it_was_trained_or_not_at_all() {
    let place = trained();
    for command in readers() {
        for (key, named) in [
            ("comparator=cos", r#"comparator: "cos", not "dot""#),
            (
                "relations.0.operator=diagonal",
                r#"operator: "diagonal", not "translation""#,
            ),
            ("max_norm=0.5", "max_norm: 0.5, not unset"),
        ] {
            place
                .run(with(&command, &["--set", key]))
                .fails(CHECKPOINT, &["model", named]);
        }
        // Settings that matter only to training may differ.
        place
            .run(with(
                &command,
                &["--set", "lr=0.5", "--set", "num_epochs=9"],
            ))
            .succeeds();
    }
}

#[test]
fn what_train_would_refuse_check_refuses() {
    let place = trained();
    place.run(["check"]).succeeds();
    for (key, named) in [
        ("comparator=cos", "comparator"),
        ("relations.0.operator=diagonal", "operator"),
        ("dimension=8", "dimension"),
        ("loss_fn=logistic", "loss_fn"),
        ("seed=8", "seed"),
    ] {
        for command in ["check", "train"] {
            place
                .run([command, "--set", key])
                .fails(CHECKPOINT, &["model", named]);
        }
    }
    let plugin = ["--set", "bucket_order=random"];
    place
        .run(["check"].iter().chain(&plugin))
        .fails(CHECKPOINT, &["bucket_order"]);
    let allowed = ["check", "--allow-plugin-change"];
    place.run(allowed.iter().chain(&plugin)).succeeds();
}

#[test]
fn keys_that_a_configuration_leaves_open_are_those_of_the_checkpoint() {
    let place = Workplace::with_dataset(CONFIG);
    let keys = ["--set", "max_norm=0.7", "--set", "bias=true"];
    place
        .run(["train", "--progress", "none"].iter().chain(&keys))
        .succeeds();
    let open = place.run(EVAL).succeeds().stdout;
    let written = place.run(EVAL.iter().chain(&keys)).succeeds().stdout;
    assert_eq!(mrr(&open), mrr(&written));
    place
        .run(EVAL.iter().chain(&["--set", "bias=false"]))
        .fails(CHECKPOINT, &["bias: false, not true"]);
}

/// Copies a folder with its contents.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap().is_dir() {
            true => copy(&from, &to),
            false => drop(fs::copy(from, to).unwrap()),
        }
    }
}

#[test]
fn a_checkpoint_needs_no_configuration() {
    let place = trained();
    let expected = mrr(&place.run(EVAL).succeeds().stdout);
    let names = [graph::name(0, 3), graph::name(0, 4)];
    let near = |place: &Workplace, which: &[&str]| {
        let name = names[0].as_str();
        let command = ["neighbors"].iter().chain(which).chain([&name]);
        place.run(command).succeeds().stdout
    };
    let nearest = near(&place, &["pbg.toml"]);

    // The checkpoint seen from another folder, and a copy whose original is gone.
    let other = Workplace::empty();
    for name in ["data", "model"] {
        copy(&place.path(name), &other.path("moved").join(name));
    }
    let original = place.path("model");
    for folder in [original.to_str().unwrap(), "moved/model"] {
        let eval = ["eval", "--json", "--checkpoint", folder];
        assert_eq!(mrr(&other.run(eval).succeeds().stdout), expected);
        assert_eq!(near(&other, &["--checkpoint", folder]), nearest);
    }
    drop(place);
    let eval = ["eval", "--json", "--checkpoint", "moved/model"];
    assert_eq!(mrr(&other.run(eval).succeeds().stdout), expected);

    let export = "export --checkpoint moved/model --format tsv --out out";
    other.run(export.split(' ')).succeeds();
    assert_eq!(
        other.read("out/entities_place.tsv").lines().count(),
        2 * graph::RING
    );
    let mut score = other.command(["score", "--checkpoint", "moved/model"]);
    let line = format!("{}\tnext\t{}\n", names[0], names[1]);
    let input = other.write("triples.tsv", line);
    let scored = finish(score.stdin(fs::File::open(input).unwrap())).succeeds();
    assert!(scored.stdout.trim().parse::<f32>().is_ok());

    // A key that changes the model is an error here, too.
    let other_model = eval.iter().chain(&["--set", "comparator=cos"]);
    other
        .run(other_model)
        .fails(CHECKPOINT, &["comparator: \"cos\", not \"dot\""]);
    fs::rename(other.path("moved/data"), other.path("elsewhere")).unwrap();
    other.run(eval).fails(4, &["moved/model", "--set dataset="]);
    let named = eval.iter().chain(&["--set", "dataset=elsewhere"]);
    assert_eq!(mrr(&other.run(named).succeeds().stdout), expected);
}

#[test]
fn the_version_that_was_best_brings_its_configuration() {
    let place = Workplace::with_dataset(CONFIG);
    let train = "train --progress none --set validation.edges=test --set validation.early_stop=2";
    place.run(train.split(' ')).succeeds();
    fs::remove_file(place.path("pbg.toml")).unwrap();
    place
        .run("eval --checkpoint model/best".split(' '))
        .succeeds();
}

/// Imports the edge set `name` again without its last `less` edges; returns the number of edges left.
fn shorten(place: &Workplace, name: &str, less: usize) -> usize {
    let file = format!("{name}.tsv");
    let text = place.read(&file);
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines.len() - less;
    place.write(&file, lines[..kept].join("\n") + "\n");
    place
        .run(["import", "--edges", &format!("{name}={file}")])
        .succeeds();
    kept
}

#[test]
fn training_goes_on_with_other_edges_only_when_asked() {
    let place = trained();
    let before = place.read("train.tsv").lines().count();
    let after = shorten(&place, "train", 5);
    let train = ["train", "--progress", "json", "--set", "num_epochs=3"];
    let words = [
        &format!("the edge set `train` had {before} edges and now has {after}"),
        "--allow-data-change",
    ];
    place.run(train).fails(CHECKPOINT, &words);
    place.run(["check"]).fails(CHECKPOINT, &words);
    place.run(["check", "--allow-data-change"]).succeeds();

    let allowed = train.iter().chain(&["--allow-data-change"]);
    let events = place.run(allowed).succeeds().stdout;
    assert_eq!(of_kind(&events, "data_changed").len(), 1);
    assert!(place.read("model/metrics.jsonl").contains("data_changed"));
    // From now on, these are the run's edges.
    let again = ["train", "--progress", "json", "--set", "num_epochs=4"];
    let events = place.run(again).succeeds().stdout;
    assert!(of_kind(&events, "data_changed").is_empty());

    // A change of the edge sets is a change of data, too.
    let other = [
        "train",
        "--set",
        "num_epochs=5",
        "--set",
        "edge_sets=train,test",
    ];
    place
        .run(other)
        .fails(CHECKPOINT, &["edge_sets", "--allow-data-change"]);
    let allowed = other
        .iter()
        .chain(&["--allow-data-change", "--progress", "json"]);
    let events = place.run(allowed).succeeds().stdout;
    let epoch = &of_kind(&events, "epoch_finished")[0];
    let test = place.read("test.tsv").lines().count();
    assert_eq!(epoch["stats"]["count"], after + test);
}

/// Returns the committed position in the training loops.
fn schedule(place: &Workplace) -> Value {
    let manifest = fs::read_to_string(place.path("model/manifest.json")).unwrap_or_default();
    let manifest: Value = serde_json::from_str(&manifest).unwrap_or_default();
    manifest["run"]["state"]["schedule"].clone()
}

#[test]
fn an_epoch_that_was_interrupted_begins_again_with_other_edges() {
    let place = Workplace::with_dataset(CONFIG);
    let train = "train --progress json --set checkpoint_interval=0 --set";
    let train: Vec<&str> = train.split(' ').collect();
    let within = || {
        schedule(&place)["plan"]
            .as_array()
            .is_some_and(|plan| !plan.is_empty())
    };
    let endless = [&train[..], &["num_epochs=100000"]].concat();
    for _ in 0..50 {
        let mut run = place.start(&endless);
        assert!(run.wait_until(within), "{}", run.stderr());
        run.kill();
        if within() {
            break;
        }
    }
    assert!(
        within(),
        "the run was never killed in the middle of an epoch"
    );
    let epoch = schedule(&place)["pass"]["epoch"].as_u64().unwrap();
    let edges = shorten(&place, "train", 3);
    let last = format!("num_epochs={}", epoch + 2);
    let allowed = [&train[..], &[&last, "--allow-data-change"]].concat();
    let events = place.run(allowed).succeeds().stdout;
    let epochs = of_kind(&events, "epoch_finished");
    assert_eq!(epochs.len(), 2);
    for epoch in epochs {
        assert_eq!(epoch["stats"]["count"], edges);
    }
}

#[test]
fn early_stopping_notices_other_validation_edges() {
    let place = Workplace::with_dataset(CONFIG);
    let train = "train --progress json --set num_epochs=300 --set validation.edges=test \
                 --set validation.early_stop=2";
    let train: Vec<&str> = train.split(' ').collect();
    let events = place.run(&train).succeeds().stdout;
    assert_eq!(of_kind(&events, "stopped_early").len(), 1);
    let ranked = of_kind(&events, "validated").len();

    shorten(&place, "test", 4);
    place.run(&train).fails(
        CHECKPOINT,
        &["the edge set `test` had", "--allow-data-change"],
    );
    let allowed = train.iter().chain(&["--allow-data-change"]);
    let events = place.run(allowed).succeeds().stdout;
    // The best MRR on the old edges says nothing about the new ones: the next ranking counts as the best.
    let validated = of_kind(&events, "validated");
    assert_eq!(validated[0]["best"], true);
    assert_eq!(validated[0]["epochs"], ranked as u64 + 1);
}

#[test]
fn a_study_shows_no_results_of_other_edges() {
    let place = Workplace::with_dataset(CONFIG);
    let study = "orders train pbg.toml --order random --edges test --set num_epochs=1";
    let study: Vec<&str> = study.split(' ').collect();
    place.run(&study).succeeds();
    let again = place.run(&study).succeeds();
    assert!(
        again.stderr.contains("already finished"),
        "{}",
        again.stderr
    );

    for name in ["train", "test"] {
        shorten(&place, name, 2);
        place.run(&study).fails(
            CHECKPOINT,
            &[&format!("edge set {name}"), "--allow-data-change"],
        );
        let asked = place
            .run(study.iter().chain(&["--allow-data-change"]))
            .succeeds();
        assert!(
            asked.stderr.contains("already finished"),
            "{}",
            asked.stderr
        );
    }
}

/// Every command that takes a configuration, given the folder of a checkpoint that was moved with its dataset.
#[test]
fn a_checkpoint_stands_in_the_place_of_a_configuration() {
    let place = trained();
    let expected = mrr(&place.run(EVAL).succeeds().stdout);
    let name = graph::name(0, 3);
    let nearest = place.run(["neighbors", "pbg.toml", &name]).succeeds();
    let other = Workplace::empty();
    for name in ["data", "model"] {
        copy(&place.path(name), &other.path("moved").join(name));
    }
    drop(place);
    let eval = other.run(["eval", "--json", "moved/model"]).succeeds();
    assert_eq!(mrr(&eval.stdout), expected);
    let near = other.run(["neighbors", "moved/model", &name]).succeeds();
    assert_eq!(near.stdout, nearest.stdout);
    for command in [
        "check moved/model",
        "export moved/model --format tsv --out out",
        "predict moved/model --check",
        "score moved/model",
        "orders compare moved/model --order random",
        "train moved/model --set num_epochs=3 --progress none",
    ] {
        other.run(command.split(' ')).succeeds();
    }
    let events = other.read("moved/model/metrics.jsonl");
    assert_eq!(of_kind(&events, "epoch_finished").len(), 3);
    other
        .run("eval moved/model --checkpoint moved/model".split(' '))
        .fails(2, &["both folders of checkpoints"]);
    let train = || other.run(["train", "moved"]);
    train().fails(CHECKPOINT, &["moved", "not a checkpoint"]);
    other.write("moved/pbg.toml", "");
    train().fails(CHECKPOINT, &["did you mean moved/pbg.toml?"]);
    fs::remove_dir_all(other.path("moved/data")).unwrap();
    let run = other.run(["eval", "moved/model"]);
    run.fails(4, &["dataset", "--set dataset=FOLDER"]);
}
