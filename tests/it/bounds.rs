//! Memory that the machine lacks is not allocated, and files that are forged or not regular are refused.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Workplace, with};

#[test]
fn more_memory_than_there_is_is_not_taken() {
    let place = Workplace::with_dataset(crate::support::graph::CONFIG);
    let keys = ["num_uniform_negs=2147483648"];
    let check = place.run(with(&["check"], &keys)).succeeds();
    assert!(check.stderr.contains("warning: "), "{}", check.stderr);
    assert!(
        check.stderr.contains("are left on this machine"),
        "{}",
        check.stderr
    );
    place
        .run(with(&["train", "--progress", "none"], &keys))
        .fails(
            8,
            &["training takes up to", "GiB of memory", "are left", "check"],
        );
    assert!(!place.path("model/manifest.json").exists());
}

/// Creates a pipe that nobody writes to.
fn pipe(path: &Path) {
    let _there = fs::remove_file(path);
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[test]
fn pipes_and_devices_are_refused_and_not_waited_for() {
    let place = Workplace::with_dataset(crate::support::graph::CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    let what = "regular file";
    pipe(&place.path("pipe"));
    place.run(["check", "pipe"]).fails(3, &["pipe", what]);
    place
        .run(["check", "/dev/zero"])
        .fails(3, &["/dev/zero", what]);
    for checkpoint in ["pipe", "/dev/zero", "pbg.toml"] {
        let eval = ["eval", "--checkpoint", checkpoint];
        place
            .run(eval)
            .fails(5, &[checkpoint, "it is not a folder"]);
        let both = ["eval", "pbg.toml", "--checkpoint", checkpoint];
        place
            .run(both)
            .fails(5, &[checkpoint, "it is not a folder"]);
    }
    // Edges may come through a pipe if a program writes to it.
    for (input, what) in [
        ("pipe", "no program has it open for writing"),
        ("/dev/zero", what),
    ] {
        let edges = format!("train={input}");
        let set = ["--set", "dataset=other"];
        place
            .run([&["import", "--edges", &edges][..], &set].concat())
            .fails(4, &[input, what]);
    }
    for (file, code) in [
        ("model/manifest.json", 5),
        ("data/manifest.json", 4),
        ("data/entities_place.arrow", 4),
    ] {
        let path = place.path(file);
        let kept = fs::read(&path).unwrap();
        pipe(&path);
        place.run(["check"]).fails(code, &[file]);
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
    place.run(["check"]).succeeds();
    // An import reads the dictionaries, too.
    let names = place.path("data/entities_place.arrow");
    let kept = fs::read(&names).unwrap();
    pipe(&names);
    let import = ["import", "--edges", "train=train.tsv"];
    place.run(import).fails(4, &["entities_place.arrow", what]);
    fs::remove_file(&names).unwrap();
    fs::write(&names, kept).unwrap();
    pipe(&place.path("model/metrics.jsonl"));
    let train = with(&["train", "--progress", "none"], &["num_epochs=3"]);
    place.run(train).fails(5, &["metrics.jsonl", what]);
}

/// CRC-32 (IEEE) of `bytes`.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| match crc & 1 {
            0 => crc >> 1,
            _ => (crc >> 1) ^ 0xedb8_8320,
        })
    };
    !bytes.iter().fold(!0, step)
}

/// Changes a manifest and corrects its checksum.
fn forge(path: &Path, change: impl FnOnce(&mut Value)) {
    let text = fs::read_to_string(path).unwrap();
    let mut body: Value = serde_json::from_str(&text).unwrap();
    change(&mut body);
    let [format, version] = ["format", "format_version"].map(|key| body[key].take());
    let fields = body.as_object_mut().unwrap();
    fields.retain(|key, _| !["format", "format_version", "crc32"].contains(&&**key));
    let rest = serde_json::to_string(&fields).unwrap();
    let mut text = format!(
        "{{\"format\": {format},\"format_version\": {version},{}",
        &rest[1..]
    );
    text.truncate(text.len() - 1);
    let crc32 = crc32(text.as_bytes());
    text.push_str(&format!(",\n  \"crc32\": \"{crc32:08x}\"\n}}\n"));
    fs::write(path, text).unwrap();
}

#[test]
fn forged_manifests_are_damage() {
    let place = Workplace::with_dataset(crate::support::graph::CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    let dataset = place.path("data/manifest.json");
    let kept = fs::read(&dataset).unwrap();
    forge(&dataset, |_| ());
    place.run(["check"]).succeeds();
    let changes: [fn(&mut Value); 4] = [
        |body| body["entities"]["place"]["counts"][0] = u32::MAX.into(),
        |body| body["relations"]["count"] = u32::MAX.into(),
        |body| body["edge_sets"]["train"]["batches"][0]["rows"] = u64::MAX.into(),
        |body| body["edge_sets"]["train"]["header_size"] = u64::MAX.into(),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        forge(&dataset, change);
        eprintln!("change {at}");
        place.run(["check"]).fails(4, &["data/manifest.json"]);
        place
            .run(["train", "--progress", "none"])
            .fails(4, &["data/manifest.json"]);
        fs::write(&dataset, &kept).unwrap();
    }
    let checkpoint = place.path("model/manifest.json");
    let kept = fs::read(&checkpoint).unwrap();
    let changes: [fn(&mut Value); 3] = [
        |body| body["run"]["state"]["schedule"]["pass"]["edge_set"] = 7.into(),
        |body| {
            let bucket = serde_json::json!({ "lhs": 9, "rhs": 9 });
            body["run"]["state"]["schedule"]["plan"] = vec![bucket].into();
        },
        |body| body["run"]["state"]["resident"] = serde_json::json!([["lhs", 77]]),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        forge(&checkpoint, change);
        eprintln!("change {at}");
        let more = with(&["train", "--progress", "none"], &["num_epochs=3"]);
        place.run(more).fails(5, &["model"]);
        fs::write(&checkpoint, &kept).unwrap();
    }
}

#[test]
fn forged_arrow_files_are_damage() {
    let place = Workplace::with_dataset(crate::support::graph::CONFIG);
    let file = place.path("data/entities_place.arrow");
    let sound = fs::read(&file).unwrap();
    let manifest = place.path("data/manifest.json");
    // The metadata has lengths and offsets at multiples of eight bytes.
    for at in (0..sound.len()).step_by(8 * (sound.len() / 200).max(1)) {
        let mut bytes = sound.clone();
        let end = bytes.len().min(at + 8);
        bytes[at..end].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes()[..end - at]);
        fs::write(&file, &bytes).unwrap();
        let crc32 = crc32(&bytes);
        forge(&manifest, |body| {
            body["files"]["entities_place.arrow"]["crc32"] = crc32.into();
        });
        let check = place.run(["check"]);
        let harmless = check.code() == Some(0);
        if !harmless {
            check.fails(4, &["entities_place.arrow"]);
        }
    }
}

#[test]
fn a_run_goes_on_without_the_checkpoint_that_it_started_from() {
    let place = Workplace::with_dataset(crate::support::graph::CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    let train = ["train", "--progress", "none"];
    let keys = ["checkpoint_path=second", "init_path=model", "num_epochs=1"];
    place.run(with(&train, &keys)).succeeds();
    let more = [keys[0], keys[1], "num_epochs=2"];
    fs::rename(place.path("model"), place.path("elsewhere")).unwrap();
    place.run(with(&train, &more)).succeeds();
    // A new run needs the checkpoint.
    let fresh = ["checkpoint_path=third", keys[1]];
    place.run(with(&train, &fresh)).fails(5, &["model"]);
}
