//! Memory stays below what is announced, and what there is not is not taken.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::Workplace;

/// One entity type, cut so that half of it is in memory.
const LARGE: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 128
dynamic_relations = true
comparator = "dot"
loss_fn = "softmax"
num_epochs = 1
lr = 0.1
workers = 2
seed = 7
batch_size = 1000
num_batch_negs = 20
num_uniform_negs = 20
eval_fraction = 0.0
plugins.limits.memory_mib = 16

[entities.node]
num_partitions = 4

[[relations]]
name = "any"
lhs = "node"
rhs = "node"
operator = "translation"
"#;

/// The bytes that a command with `--verbose` says it occupied at most.
fn peak(stderr: &str) -> u64 {
    let (_, behind) = stderr
        .split_once("of main memory were occupied (")
        .unwrap_or_else(|| panic!("no peak in\n{stderr}"));
    behind.split_once(" bytes)").unwrap().0.parse().unwrap()
}

/// Bytes of all components of main memory that a check announced.
fn bound(json: &str) -> u64 {
    let report: Value = serde_json::from_str(json).unwrap();
    let parts = report["memory"].as_array().unwrap();
    parts.iter().map(|part| part[1].as_u64().unwrap()).sum()
}

fn with<'a>(command: &[&'a str], keys: &[&'a str]) -> Vec<&'a str> {
    let set = keys.iter().flat_map(|key| ["--set", key]);
    command.iter().copied().chain(set).collect()
}

fn generate(place: &Workplace, name: &str, entities: u32, edges: u32, seed: u32) {
    let [entities, edges, seed] = [entities, edges, seed].map(|n| n.to_string());
    place
        .run([
            "generate",
            "--entities",
            &entities,
            "--edges",
            &edges,
            "--relations",
            "20",
            "--seed",
            &seed,
            "--out",
            name,
        ])
        .succeeds();
}

#[test]
fn real_runs_stay_below_what_is_announced() {
    let place = Workplace::empty();
    place.write("pbg.toml", LARGE);
    generate(&place, "train.tsv", 80_000, 400_000, 1);
    generate(&place, "valid.tsv", 80_000, 20_000, 2);
    generate(&place, "few.tsv", 80_000, 2_000, 3);
    let edges = [
        "--edges",
        "train=train.tsv",
        "--edges",
        "valid=valid.tsv",
        "--edges",
        "few=few.tsv",
    ];
    let import = [&["import", "-v", "--memory", "64M"][..], &edges].concat();
    let import = place.run(import).succeeds();
    // What `import --help` says that the program takes itself.
    let allowed = (64 + 120) << 20;
    assert!(peak(&import.stderr) <= allowed, "{}", import.stderr);

    let runs: [(&str, &[&str]); 5] = [
        ("plain", &["execution.prefetch=false"]),
        ("prefetch", &["execution.prefetch=true"]),
        (
            "validation",
            &["validation.edges=valid", "validation.limit=3000"],
        ),
        (
            "held-out edges",
            &["eval_fraction=0.05", "num_edge_chunks=2"],
        ),
        (
            "all negatives",
            &[
                "relations.0.all_negs=true",
                "batch_size=100",
                "edge_sets=[\"few\"]",
            ],
        ),
    ];
    for (name, keys) in runs {
        let path = format!("checkpoint_path={name}");
        let keys = [keys, &[&path]].concat();
        let announced = bound(
            &place
                .run(with(&["check", "--json"], &keys))
                .succeeds()
                .stdout,
        );
        let run = place.run(with(&["train", "-v", "--progress", "none"], &keys));
        let occupied = peak(&run.succeeds().stderr);
        eprintln!("{name}: {} of {} MiB", occupied >> 20, announced >> 20);
        assert!(occupied <= announced, "{name}: {occupied} of {announced}");
    }

    let eval = [
        "eval",
        "--edges",
        "valid",
        "--filter",
        "train,valid",
        "--limit",
        "4000",
    ];
    let at = ["checkpoint_path=plain"];
    let check = with(&[&eval[..], &["--check", "--json"]].concat(), &at);
    let announced = bound(&place.run(check).succeeds().stdout);
    let run = place
        .run(with(&[&eval[..], &["-v"]].concat(), &at))
        .succeeds();
    let occupied = peak(&run.stderr);
    eprintln!("eval: {} of {} MiB", occupied >> 20, announced >> 20);
    assert!(occupied <= announced, "eval: {occupied} of {announced}");
}

#[test]
fn ranking_does_not_hold_the_edges_that_it_filters() {
    let place = Workplace::empty();
    place.write("pbg.toml", LARGE);
    generate(&place, "few.tsv", 2_000, 2_000, 1);
    generate(&place, "many.tsv", 2_000, 3_000_000, 2);
    let edges = ["--edges", "few=few.tsv", "--edges", "many=many.tsv"];
    place.run([&["import"][..], &edges].concat()).succeeds();
    let keys = ["edge_sets=[\"few\"]", "dimension=8"];
    place
        .run(with(&["train", "--progress", "none"], &keys))
        .succeeds();
    let ranks = |filter: &str| {
        let eval = [
            "eval", "-v", "--json", "--edges", "few", "--limit", "50", "--filter", filter,
        ];
        let run = place.run(with(&eval, &keys)).succeeds();
        peak(&run.stderr)
    };
    let (few, many) = (ranks("few"), ranks("few,many"));
    // Three million edges are 60 MB in memory; a part of one bucket is 24 MB at most, and read as it is
    // compared.
    eprintln!("filtered by few: {few}, by many: {many}");
    assert!(many < few + (40 << 20), "{few} and {many}");
}

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

/// Makes a pipe that nobody writes to.
fn pipe(path: &Path) {
    let _there = fs::remove_file(path);
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

#[test]
fn pipes_and_devices_are_refused_and_not_waited_for() {
    let place = Workplace::with_dataset(crate::support::graph::CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    let what = "no regular file";
    pipe(&place.path("pipe"));
    place.run(["check", "pipe"]).fails(3, &["pipe", what]);
    place
        .run(["check", "/dev/zero"])
        .fails(3, &["/dev/zero", what]);
    for input in ["pipe", "/dev/zero"] {
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

/// Changes a manifest and gives it the checksum that it should have then.
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
    // Lengths and offsets stand in the metadata, at multiples of eight bytes.
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
    // A run that starts needs it.
    let fresh = ["checkpoint_path=third", keys[1]];
    place.run(with(&train, &fresh)).fails(5, &["model"]);
}
