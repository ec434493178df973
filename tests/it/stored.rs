//! How embeddings and the optimizer's state are stored on disk: `storage` and `optimizer`.

use serde_json::Value;

use crate::support::graph::{self, CONFIG};
use crate::support::tensors::{Tensor, tensors};
use crate::support::{Workplace, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];
const BF16: [&str; 1] = ["storage=bf16"];
const ADAGRAD: [&str; 1] = ["optimizer=adagrad"];
const ADAM: [&str; 2] = ["optimizer=adam", "relation_lr=0.1"];

fn train(place: &Workplace, keys: &[&str]) {
    place.run(with(&TRAIN, keys)).succeeds();
}

/// Returns the tensors called `name` of all partitions.
fn named(place: &Workplace, folder: &str, name: &str) -> Vec<Tensor> {
    let all = tensors(place, folder).into_iter();
    all.filter(|((_, found), _)| found == name)
        .map(|(_, tensor)| tensor)
        .collect()
}

fn last(place: &Workplace, kind: &str) -> Value {
    let text = place.read("model/metrics.jsonl");
    let mut all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.rfind(|event: &Value| event["event"] == kind).unwrap()
}

fn json(place: &Workplace, arguments: &[&str]) -> Value {
    let found = place.run(arguments).succeeds();
    serde_json::from_str(&found.stdout).unwrap()
}

fn bytes(report: &Value, kind: &str, part: &str) -> u64 {
    let parts = report[kind].as_array().unwrap().iter();
    let found = parts.filter(|entry| entry[0] == part);
    found.map(|entry| entry[1].as_u64().unwrap()).sum()
}

#[test]
fn embeddings_take_half_of_the_disk_and_of_the_traffic() {
    let (wide, half) = (
        Workplace::with_dataset(CONFIG),
        Workplace::with_dataset(CONFIG),
    );
    let longer = ["num_epochs=12"];
    train(&wide, &longer);
    let keys = [&longer[..], &BF16].concat();
    train(&half, &keys);
    for tensor in named(&half, "model", "embeddings") {
        assert_eq!(tensor.dtype, "BF16");
    }
    for tensor in named(&half, "model", "row_adagrad") {
        assert_eq!(tensor.dtype, "F32");
    }
    // 16 numbers and an accumulator per row.
    let traffic =
        |place: &Workplace, key: &str| last(place, "epoch_finished")["io"][key].as_u64().unwrap();
    for key in ["bytes_read", "bytes_written"] {
        assert!(traffic(&wide, key) > 0);
        assert_eq!(traffic(&half, key) * 68, traffic(&wide, key) * 36, "{key}");
    }
    let check = |place: &Workplace, keys: &[&str]| json(place, &with(&["check", "--json"], keys));
    let (of_wide, of_half) = (check(&wide, &longer), check(&half, &keys));
    let saved = bytes(&of_wide, "disk", "checkpoint") - bytes(&of_half, "disk", "checkpoint");
    assert_eq!(saved, 80 * 16 * 2);
    assert_eq!(
        bytes(&of_wide, "memory", "partitions in the buffer"),
        bytes(&of_half, "memory", "partitions in the buffer")
    );
    assert!(bytes(&of_half, "memory", "conversion to bf16") > 0);
    // The model is as good.
    let eval = [
        "eval",
        "--edges",
        "test",
        "--filter",
        "train,test",
        "--json",
    ];
    let mrr = |place: &Workplace| json(place, &eval)["filtered"]["mrr"].as_f64().unwrap();
    let (of_wide, of_half) = (mrr(&wide), mrr(&half));
    assert!((of_wide - of_half).abs() < 0.1, "{of_wide} {of_half}");
    let manifest: Value = serde_json::from_str(&half.read("model/manifest.json")).unwrap();
    assert_eq!(manifest["format_version"], 3);
}

#[test]
fn what_is_read_back_is_what_the_file_says() {
    let place = Workplace::with_dataset(CONFIG);
    train(&place, &BF16);
    let export = [
        "export",
        "--checkpoint",
        "model",
        "--format",
        "tsv",
        "--out",
        "out",
    ];
    place.run(export).succeeds();
    let text = place.read("out/entities_place.tsv");
    let mut exported: Vec<f32> = Vec::new();
    for line in text.lines() {
        exported.extend(line.split('\t').skip(1).map(|x| x.parse::<f32>().unwrap()));
    }
    let stored = named(&place, "model", "embeddings").into_iter();
    assert_eq!(exported, stored.flat_map(|t| t.numbers).collect::<Vec<_>>());
    let name = graph::name(0, 3);
    place
        .run(["neighbors", "model", &name, "-k", "3"])
        .succeeds();
}

/// A run that resumes from each of its commits and a run that never stops give the same bytes; so do runs that commit
/// after each bucket and runs that commit only at the end of epochs.
#[test]
fn bytes_do_not_depend_on_when_a_run_is_saved() {
    let keys = ["num_epochs=3", "num_edge_chunks=2"];
    for stored in [
        &BF16[..],
        &ADAGRAD,
        &[&BF16[..], &ADAGRAD].concat(),
        &[&BF16[..], &ADAM].concat(),
    ] {
        let keys = [&keys[..], stored].concat();
        let [whole, often] = ["600", "0"].map(|interval| {
            let place = Workplace::with_dataset(CONFIG);
            let interval = format!("checkpoint_interval={interval}");
            train(&place, &[&keys[..], &[&*interval]].concat());
            place
        });
        assert_eq!(whole.committed("model"), often.committed("model"));
        let resumed = Workplace::with_dataset(CONFIG);
        for epochs in ["num_epochs=1", "num_epochs=2", "num_epochs=3"] {
            train(&resumed, &[&keys[..], &[epochs]].concat());
        }
        assert_eq!(whole.committed("model"), resumed.committed("model"));
    }
}

#[test]
fn each_number_has_an_accumulator_of_its_own() {
    let place = Workplace::with_dataset(CONFIG);
    train(&place, &ADAGRAD);
    let (rows, sums) = (
        named(&place, "model", "embeddings"),
        named(&place, "model", "adagrad"),
    );
    assert!(named(&place, "model", "row_adagrad").is_empty());
    assert_eq!(rows.len(), 3);
    for (rows, sums) in rows.iter().zip(&sums) {
        assert_eq!(rows.shape, sums.shape);
        assert!(sums.numbers.iter().all(|&sum| sum > 0.0));
        // Each number of a row has its own sum.
        assert!(sums.numbers.windows(2).any(|pair| pair[0] != pair[1]));
    }
    let check = |keys: &[&str]| json(&place, &with(&["check", "--json"], keys));
    let memory = |report: &Value| bytes(report, "memory", "partitions in the buffer");
    let (all, per_row) = (
        memory(&check(&ADAGRAD)),
        memory(&check(&["checkpoint_path=other"])),
    );
    assert_eq!(all * 68, per_row * 128);
    // Adam keeps two averages for each of the 16 numbers, and counts updates.
    let adam = memory(&check(&[&["checkpoint_path=another"], &ADAM[..]].concat()));
    assert_eq!(adam * 68, per_row * 4 * (16 + 2 * 16 + 1));
}

#[test]
fn adam_counts_the_updates_of_each_row() {
    let place = Workplace::with_dataset(CONFIG);
    train(&place, &ADAM);
    let states = named(&place, "model", "adam");
    assert_eq!(states.len(), 3);
    for state in states {
        assert_eq!(state.shape[1], 33);
        let updates = state.numbers.chunks(33).map(|row| row[32]);
        assert!(updates.clone().all(|count| count.fract() == 0.0));
        assert!(updates.clone().any(|count| count > 1.0));
        // Only the rows of edges and negatives have been updated.
        for row in state.numbers.chunks(33) {
            assert_eq!(
                row[32] > 0.0,
                row[16..32].iter().any(|&square| square > 0.0)
            );
        }
    }
}

#[test]
fn a_run_goes_on_only_as_it_began() {
    let place = Workplace::with_dataset(CONFIG);
    train(&place, &[]);
    for key in ["storage=bf16", "optimizer=adagrad"] {
        let (name, value) = key.split_once('=').unwrap();
        place
            .run(with(&TRAIN, &[key]))
            .fails(5, &[name, value, "init_path"]);
        // Commands that only read accept other keys.
        place
            .run(["neighbors", "--set", key, "pbg.toml", &graph::name(0, 3)])
            .succeeds();
    }
    for (key, wrong, meant) in [
        ("storage", "bf61", "bf16"),
        ("optimizer", "row_adagard", "row_adagrad"),
    ] {
        let set = format!("{key}={wrong}");
        place
            .run(["check", "--set", &set])
            .fails(3, &[key, "did you mean", meant]);
    }
    // Operators are trained with Adagrad, whose learning rate would be far too small.
    place
        .run(["check", "--set", "optimizer=adam"])
        .fails(3, &["relation_lr", "must be set", "0.1 is usual"]);
    for key in ["storage=bf16", "optimizer=adagrad", "optimizer=adam"] {
        let on_gpu = ["check", "--set", key, "--set", "execution.device=cuda:0"];
        place.run(on_gpu).fails(3, &["execution.device"]);
    }
}

#[test]
fn another_run_may_begin_with_what_is_stored_otherwise() {
    let place = Workplace::with_dataset(CONFIG);
    train(&place, &[]);
    let still = ["num_epochs=1", "lr=0", "relation_lr=0"];
    let begin = |from: &str, to: &str, keys: &[&str]| {
        let (from, to) = (format!("init_path={from}"), format!("checkpoint_path={to}"));
        let all = [&still[..], &[&*from, &*to], keys].concat();
        train(&place, &all);
    };
    begin("model", "half", &[&BF16[..], &ADAGRAD].concat());
    begin("half", "wide", &[]);
    let numbers = |folder: &str, name: &str| {
        let all = named(&place, folder, name).into_iter();
        all.flat_map(|tensor| tensor.numbers).collect::<Vec<f32>>()
    };
    let (first, half) = (
        numbers("model", "embeddings"),
        numbers("half", "embeddings"),
    );
    assert!(first != half);
    let near = |a: f32, b: f32| (a - b).abs() <= a.abs() / 128.0;
    assert!(first.iter().zip(&half).all(|(&a, &b)| near(a, b)));
    assert_eq!(half, numbers("wide", "embeddings"));
    // Further gradients were added, so accumulators are no smaller than before.
    let (first, half) = (numbers("model", "row_adagrad"), numbers("half", "adagrad"));
    let spread = half.chunks(16).zip(&first);
    assert!(
        spread
            .into_iter()
            .all(|(row, &sum)| row.iter().all(|&x| x >= sum))
    );
    // Adam begins anew, and what it has averaged becomes sums again.
    begin("model", "moving", &["optimizer=adam"]);
    begin("moving", "sums", &["num_epochs=0"]);
    let states = numbers("moving", "adam");
    let sums = numbers("sums", "row_adagrad");
    assert_eq!(states.len(), 33 * sums.len());
    for (state, &sum) in states.chunks(33).zip(&sums) {
        assert_eq!(state[32] > 0.0, sum > 0.0);
    }
}
