//! Golden runs: one small seeded run per feature, whose checkpoint, ranks and export must keep their bytes while the
//! code around them changes.
//!
//! Rounding depends on the processor's instructions, so bytes are recorded per instruction set
//! (`tests/golden/runs.json`). For an instruction set without a record, norms of the tensors are compared instead.
//! `PBG_GOLDEN=write cargo test --release -p pbg-host --test it golden` records those of this machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::{self, CONFIG};
use crate::support::loss;

/// Relative difference of norms that another instruction set may cause over these few batches.
const ROUNDING: f64 = 2e-3;

/// Configuration with all features that several entity types make possible: operators per relation, weights, features,
/// grids that are not square.
const SHOP: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
comparator = "cos"
loss_fn = "ranking"
num_epochs = 2
lr = 0.1
relation_lr = 0.05
workers = 1
seed = 11
batch_size = 20
num_batch_negs = 10
num_uniform_negs = 10
eval_fraction = 0.0

[entities.user]
num_partitions = 2
[entities.item]
num_partitions = 3
[entities.shop]
num_partitions = 1
featurized = true

[[relations]]
name = "bought"
lhs = "user"
rhs = "item"
operator = "diagonal"
weight = 2.0
[[relations]]
name = "liked"
lhs = "user"
rhs = "item"
operator = "complex_diagonal"
[[relations]]
name = "sold by"
lhs = "user"
rhs = "shop"
operator = "affine"
[[relations]]
name = "returned"
lhs = "user"
rhs = "item"
operator = "linear"
all_negs = true
"#;

/// Result of one run: digest and norm by file and by question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Outcome {
    /// CRC-32 of every committed tensor file, and of the answers.
    bytes: BTreeMap<String, u32>,
    /// Euclidean norm of all numbers of a tensor file.
    norms: BTreeMap<String, f64>,
}

/// Complete record: each outcome, for each instruction set and run.
type Record = BTreeMap<String, BTreeMap<String, Outcome>>;

fn record_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/runs.json")
}

fn read_record() -> Record {
    match fs::read(record_path()) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap(),
        Err(_) => Record::new(),
    }
}

/// Returns the instruction set, which decides which matrix products and vector loops run.
fn instruction_set() -> &'static str {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    match () {
        () if has("amx_bf16") => "amx",
        () if has("avx512f") && has("avx512_bf16") => "avx512_bf16",
        () if has("avx512f") => "avx512",
        () if has("avx2") => "avx2",
        () => "plain",
    }
}

/// Compares the outcome of the run `name` with the record, or records it.
#[track_caller]
fn hold(name: &str, found: Outcome) {
    static WRITING: Mutex<()> = Mutex::new(());
    let set = instruction_set();
    if std::env::var_os("PBG_GOLDEN").is_some_and(|v| v == "write") {
        let _one_at_a_time = WRITING.lock();
        let mut record = read_record();
        let runs = record.entry(set.to_owned()).or_default();
        runs.insert(name.to_owned(), found);
        let text = serde_json::to_string_pretty(&record).unwrap();
        fs::write(record_path(), text + "\n").unwrap();
        return;
    }
    let record = read_record();
    if let Some(runs) = record.get(set) {
        let expected = runs
            .get(name)
            .unwrap_or_else(|| panic!("the run {name} is not in the record of {set}"));
        assert_eq!(&found.bytes, &expected.bytes, "bytes of the run {name}");
        return;
    }
    eprintln!("{name}: no bytes are recorded for {set}; norms are compared");
    let other = record.values().find_map(|runs| runs.get(name));
    let expected = other.unwrap_or_else(|| panic!("the run {name} is not in any record"));
    let files = |outcome: &Outcome| outcome.norms.keys().cloned().collect::<Vec<_>>();
    assert_eq!(files(&found), files(expected));
    for (file, norm) in &expected.norms {
        let difference = (found.norms[file] - norm).abs();
        assert!(difference <= ROUNDING * norm.max(1e-6), "{name}: {file}");
    }
}

fn crc32(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256_u32)
        .map(|byte| {
            (0..8).fold(byte, |rest, _| {
                (rest >> 1) ^ if rest & 1 == 1 { 0xEDB8_8320 } else { 0 }
            })
        })
        .collect();
    !bytes.iter().fold(!0, |crc, byte| {
        table[((crc ^ u32::from(*byte)) & 255) as usize] ^ (crc >> 8)
    })
}

/// Returns the norm of the floats of a safetensors file, which follow eight bytes of length and a header.
fn norm(file: &[u8]) -> f64 {
    let header = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let floats = file[8 + header..].chunks_exact(4);
    let squares = floats.map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap())).powi(2));
    squares.sum::<f64>().sqrt()
}

/// Trains with `--set` for each of `keys`; returns the outcome of the checkpoint.
fn train(place: &Workplace, keys: &[&str]) -> Outcome {
    place
        .run(with(&["train", "--progress", "none"], keys))
        .succeeds();
    let mut outcome = Outcome::default();
    take(place, "model", &mut outcome);
    outcome
}

fn take(place: &Workplace, folder: &str, outcome: &mut Outcome) {
    for (what, bytes) in place.committed(folder) {
        let key = format!("{folder}/{what}");
        outcome.norms.insert(key.clone(), norm(&bytes));
        outcome.bytes.insert(key, crc32(&bytes));
    }
}

fn with<'a>(base: &[&'a str], keys: &[&'a str]) -> Vec<&'a str> {
    let set = keys.iter().flat_map(|key| ["--set", key]);
    base.iter().copied().chain(set).collect()
}

/// Trains on the rings with `keys`.
#[track_caller]
fn rings(name: &str, keys: &[&str]) {
    let place = Workplace::with_dataset(CONFIG);
    hold(name, train(&place, keys));
}

/// Trains on the shop with `keys`; its edges have weights.
#[track_caller]
fn shop(name: &str, keys: &[&str]) {
    let place = shop_place();
    hold(name, train(&place, keys));
}

fn shop_place() -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", SHOP);
    let (mut edges, mut features) = (String::new(), String::new());
    for user in 0..50_usize {
        for (relation, step) in [("bought", 3), ("liked", 5), ("returned", 7), ("sold by", 1)] {
            let (kind, many) = if relation == "sold by" {
                ("shop", 6)
            } else {
                ("item", 30)
            };
            for turn in 0..3 {
                let other = (user * step + turn) % many;
                let weight = 1.0 + ((user + turn) % 4) as f32 / 4.0;
                edges.push_str(&format!("u{user}\t{relation}\t{kind}{other}\t{weight}\n"));
            }
        }
    }
    for shop in 0..6 {
        features.push_str(&format!(
            "shop{shop}\ttown{} street{}\n",
            shop % 2,
            shop % 3
        ));
    }
    place.write("train.tsv", edges);
    place.write("shops.tsv", features);
    place
        .run([
            "import",
            "--edges",
            "train=train.tsv",
            "--columns",
            "lhs,rel,rhs,weight",
            "--features",
            "shop=shops.tsv",
        ])
        .succeeds();
    place
}

#[test]
fn golden_rings() {
    rings("rings", &[]);
    rings("all partitions in memory", &["buffer_partitions=3"]);
    let place =
        Workplace::with_dataset(&CONFIG.replace("num_partitions = 3", "num_partitions = 1"));
    hold("one partition", train(&place, &[]));
}

#[test]
fn golden_operators_and_comparators() {
    let operators = ["none", "diagonal", "linear", "affine", "complex_diagonal"];
    for operator in operators {
        let operator_key = format!("relations.0.operator={operator}");
        rings(operator, &[&operator_key]);
    }
    for comparator in ["cos", "l2", "squared_l2"] {
        rings(comparator, &[&format!("comparator={comparator}")]);
    }
}

#[test]
fn golden_losses() {
    for loss in [
        "ranking",
        "logistic",
        "softmax_computed",
        "self_adversarial",
        "bce",
        "sampled_softmax_temperature",
    ] {
        rings(loss, &[&format!("loss_fn={loss}")]);
    }
    // A loss whose formula changes during training.
    let place = Workplace::with_dataset(CONFIG);
    let falling = loss::margin("(f32.mul (f32.load (local.get $values)) (f32.const 0.5))");
    place.write("falling.wasm", loss::traced(&falling));
    hold("updated loss", train(&place, &["loss_fn=falling.wasm"]));
}

#[test]
fn golden_model_keys() {
    rings("bias", &["bias=true"]);
    rings("max_norm", &["max_norm=0.5"]);
    let n3 = [
        "regularization_coef=0.01",
        "relations.0.operator=complex_diagonal",
    ];
    rings("n3", &n3);
    rings("relation_lr", &["relation_lr=0.01"]);
}

#[test]
fn golden_negatives_and_batches() {
    rings("all negatives", &["relations.0.all_negs=true"]);
    rings("negatives of the bucket", &["negatives_from=bucket"]);
    rings("chunks", &["num_batch_negs=0", "chunk_size=7"]);
    rings("one side", &["disable_lhs_negs=true"]);
    rings("only batch negatives", &["num_uniform_negs=0"]);
    rings("slices", &["execution.slice_bytes=4000"]);
    rings(
        "update by slice",
        &["execution.slice_bytes=4000", "execution.update=slice"],
    );
    rings("without prefetch", &["execution.prefetch=false"]);
}

#[test]
fn golden_passes() {
    rings("edge chunks", &["num_edge_chunks=3"]);
    rings("two edge sets", &["edge_sets=[\"train\",\"test\"]"]);
    for order in ["outside_in", "random", "affinity", "cover", "legend"] {
        rings(order, &[&format!("bucket_order={order}")]);
    }
    rings(
        "held out",
        &[
            "eval_fraction=0.2",
            "eval_num_batch_negs=10",
            "eval_num_uniform_negs=10",
        ],
    );
}

#[test]
fn golden_shop() {
    shop("shop", &[]);
    shop("shop, global embeddings off", &["global_emb=false"]);
    shop(
        "shop, bias and norm",
        &["bias=true", "max_norm=0.8", "comparator=l2"],
    );
    for sampler in ["uniform", "round_robin", "hard_first"] {
        shop(
            &format!("shop, {sampler}"),
            &[&format!("relation_sampler={sampler}")],
        );
    }
}

#[test]
fn golden_checkpoints() {
    let keys = [
        "checkpoint_interval=0",
        "checkpoint_preservation_interval=1",
    ];
    let place = Workplace::with_dataset(CONFIG);
    let mut outcome = train(&place, &keys);
    take(&place, "model/epoch_1", &mut outcome);
    let goes_on = ["init_path=model", "checkpoint_path=second", "num_epochs=1"];
    place
        .run(with(&["train", "--progress", "none"], &goes_on))
        .succeeds();
    take(&place, "second", &mut outcome);
    hold("kept epochs and init_path", outcome);
}

#[test]
fn golden_validation() {
    let keys = [
        "num_epochs=40",
        "lr=0.5",
        "validation.edges=test",
        "validation.early_stop=4",
        "validation.lr_decay=0.5",
    ];
    let place = Workplace::with_dataset(CONFIG);
    let mut outcome = train(&place, &keys);
    take(&place, "model/best", &mut outcome);
    hold("validation", outcome);
}

/// Returns the report of an evaluation in the recorded form: ranks then had a loss of zero, which nobody had computed.
fn recorded_ranks(report: &str) -> Value {
    let mut report: Value = serde_json::from_str(report).unwrap();
    let fields = report.as_object_mut().unwrap();
    fields.retain(|key, _| key != "seconds");
    for ranks in fields.values_mut().filter_map(Value::as_object_mut) {
        if ranks.contains_key("mrr") {
            let computed = ranks.insert("loss".to_owned(), 0.0.into());
            assert_eq!(computed, None, "no loss is computed");
        }
    }
    report
}

#[test]
fn golden_answers() {
    let place = Workplace::with_dataset(CONFIG);
    // Reports name the version, so the number of commits must not depend on the clock.
    let mut outcome = train(&place, &["num_epochs=6", "checkpoint_interval=600"]);
    let six = ["num_epochs=6"];
    let eval = [
        "eval",
        "--json",
        "--edges",
        "test",
        "--filter",
        "train,test",
    ];
    let ranks = place.run(with(&eval, &six)).succeeds().stdout;
    let ranks = recorded_ranks(&ranks);
    let sampled = ["eval", "--json", "--edges", "test", "--candidates", "20"];
    let sampled = place.run(with(&sampled, &six)).succeeds().stdout;
    let sampled = recorded_ranks(&sampled);
    let name = graph::name(1, 3);
    let neighbors = place.run(with(&["neighbors", "pbg.toml", &name, "-k", "7"], &six));
    let mut answers = vec![
        ("ranks", ranks.to_string().into_bytes()),
        ("sampled ranks", sampled.to_string().into_bytes()),
        ("neighbors", neighbors.succeeds().stdout.into_bytes()),
    ];
    let export = ["export", "--format", "npy", "--out", "out"];
    place.run(with(&export, &six)).succeeds();
    let mut exported: Vec<_> = fs::read_dir(place.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    exported.sort();
    let bytes = exported.iter().flat_map(|path| fs::read(path).unwrap());
    answers.push(("export", bytes.collect()));
    for (what, bytes) in answers {
        outcome.bytes.insert(what.to_owned(), crc32(&bytes));
    }
    hold("answers", outcome);
}
