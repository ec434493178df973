//! Memory stays below the announced bound: the peaks of real runs against the bounds of `check`.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::{Workplace, cases, finish, with};

/// One entity type, partitioned so that half of it is in memory.
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

/// Users, items and shops; shops have many words as features.
const SHOP: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 160
comparator = "cos"
loss_fn = "ranking"
num_epochs = 1
lr = 0.1
workers = 2
seed = 11
batch_size = 500
num_batch_negs = 20
num_uniform_negs = 20
eval_fraction = 0.0
plugins.limits.memory_mib = 16

[entities.user]
num_partitions = 4
[entities.item]
num_partitions = 3
[entities.shop]
num_partitions = 1
featurized = true

[[relations]]
name = "bought"
lhs = "user"
rhs = "item"
operator = "linear"
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
"#;

/// Returns the peak of main memory that a command with `--verbose` reports, in bytes.
fn peak(stderr: &str) -> u64 {
    let (_, behind) = stderr
        .split_once("of main memory used at peak (")
        .unwrap_or_else(|| panic!("no peak in\n{stderr}"));
    behind.split_once(" bytes)").unwrap().0.parse().unwrap()
}

/// Returns the bytes of all components of main memory that a check announced.
fn bound(json: &str) -> u64 {
    let report: Value = serde_json::from_str(json).unwrap();
    let parts = report["memory"].as_array().unwrap();
    parts.iter().map(|part| part[1].as_u64().unwrap()).sum()
}

/// Writes edges of users with items and shops, and the features of shops.
fn shop_edges(place: &Workplace) {
    let edges = |users: usize, step: usize| -> String {
        let lines = (0..users).map(|user| {
            let (item, shop) = (user * step % 50_000, user * step % 2_000);
            format!(
                "u{user}\tbought\ti{item}\nu{user}\tliked\ti{}\nu{user}\tsold by\ts{shop}\n",
                item / 2
            )
        });
        lines.collect()
    };
    place.write("train.tsv", edges(40_000, 7));
    place.write("valid.tsv", edges(2_000, 11));
    let words = |shop: usize| format!("w{}\tw{}\tw{}", shop * 10, shop * 10 + 1, shop % 20);
    let features = (0..2_000).map(|shop| format!("s{shop}\t{}\n", words(shop)));
    place.write("shops.tsv", features.collect::<String>());
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
    generate(
        &place,
        "train.tsv",
        80_000,
        cases(100_000, 200_000) as u32,
        1,
    );
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
    // `import --help` states how much memory the program itself takes.
    let allowed = (64 + 120) << 20;
    assert!(peak(&import.stderr) <= allowed, "{}", import.stderr);

    let runs: [(&str, &[&str]); 5] = [
        ("plain", &["execution.prefetch=false"]),
        ("prefetch", &["execution.prefetch=true"]),
        (
            "validation",
            &[
                "validation.edges=valid",
                &format!("validation.limit={}", cases(1000, 3000)),
            ],
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
        training_stays_below(&place, name, keys);
    }

    evaluation_stays_below(&place, "plain", &["checkpoint_path=plain"]);
    exports_stay_below(&place, "plain", &["checkpoint_path=plain"]);
    predictions_stay_below(&place, "plain", &["checkpoint_path=plain"]);
}

#[test]
fn runs_with_several_types_and_features_stay_below_what_is_announced() {
    let place = Workplace::empty();
    place.write("pbg.toml", SHOP);
    shop_edges(&place);
    place
        .run([
            "import",
            "--edges",
            "train=train.tsv",
            "--edges",
            "valid=valid.tsv",
            "--features",
            "shop=shops.tsv",
        ])
        .succeeds();
    let runs: [(&str, &[&str]); 3] = [
        ("shop", &[]),
        ("shop in memory", &["buffer_partitions=5"]),
        (
            "shop validated",
            &[
                "validation.edges=valid",
                &format!("validation.limit={}", cases(700, 2000)),
            ],
        ),
    ];
    for (name, keys) in runs {
        training_stays_below(&place, name, keys);
    }
    evaluation_stays_below(&place, "shop", &["checkpoint_path=shop"]);
    exports_stay_below(&place, "shop", &["checkpoint_path=shop"]);
    predictions_stay_below(&place, "shop", &["checkpoint_path=shop"]);
}

/// Asserts that training into a checkpoint of this name stays below the bound.
fn training_stays_below(place: &Workplace, name: &str, keys: &[&str]) {
    let path = format!("checkpoint_path={name}");
    let keys = [keys, &[&path]].concat();
    let check = place.run(with(&["check", "--json"], &keys)).succeeds();
    let run = place.run(with(&["train", "-v", "--progress", "none"], &keys));
    stays_below(name, &run.succeeds().stderr, bound(&check.stdout));
}

fn evaluation_stays_below(place: &Workplace, name: &str, keys: &[&str]) {
    let limit = cases(1000, 4000).to_string();
    let eval = [
        "eval",
        "--edges",
        "valid",
        "--filter",
        "train,valid",
        "--limit",
        &limit,
    ];
    let check = with(&[&eval[..], &["--check", "--json"]].concat(), keys);
    let announced = bound(&place.run(check).succeeds().stdout);
    let run = place.run(with(&[&eval[..], &["-v"]].concat(), keys));
    stays_below(
        &format!("eval of {name}"),
        &run.succeeds().stderr,
        announced,
    );
}

/// Asserts the same of few questions with long answers, and of many with short ones.
fn predictions_stay_below(place: &Workplace, name: &str, keys: &[&str]) {
    let valid = place.read("valid.tsv");
    let question = |line: &str| {
        let (known, _) = line.rsplit_once('\t').unwrap();
        format!("{known}\t?\n")
    };
    place.write(
        "q.tsv",
        valid
            .lines()
            .take(cases(1000, 4000) as usize)
            .map(question)
            .collect::<String>(),
    );
    for count in ["3000", "10"] {
        let ask = ["predict", "--questions", "q.tsv", "-k", count];
        let check = with(&[&ask[..], &["--check", "--json"]].concat(), keys);
        let announced = bound(&place.run(check).succeeds().stdout);
        let run = with(&[&ask[..], &["--out", "a.parquet", "-v"]].concat(), keys);
        let name = format!("{count} predictions of {name}");
        stays_below(&name, &place.run(run).succeeds().stderr, announced);
    }
}

/// Asserts that an export takes no more memory than training.
fn exports_stay_below(place: &Workplace, name: &str, keys: &[&str]) {
    let check = place.run(with(&["check", "--json"], keys)).succeeds();
    let announced = bound(&check.stdout);
    for format in ["npy", "parquet", "safetensors", "tsv"] {
        let out = format!("{name} as {format}");
        let export = ["export", "-v", "--format", format, "--out", &out];
        let run = place.run(with(&export, keys));
        stays_below(&out, &run.succeeds().stderr, announced);
    }
}

fn stays_below(name: &str, stderr: &str, announced: u64) {
    let occupied = peak(stderr);
    eprintln!("{name}: {} of {} MiB", occupied >> 20, announced >> 20);
    assert!(occupied <= announced, "{name}: {occupied} of {announced}");
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
    // Three million edges take 60 MB in memory; a part of one bucket takes 24 MB at most, and is compared while it is
    // read.
    eprintln!("filtered by few: {few}, by many: {many}");
    assert!(many < few + (40 << 20), "{few} and {many}");
}

/// Returns the bytes that a command reads, from the system's cache or not. The system counts them for the shell that
/// waited for the command.
fn read_by(place: &Workplace, arguments: &str) -> u64 {
    let program = place.command([""; 0]);
    let mut shell = Command::new("sh");
    let line = format!("\"$PROGRAM\" {arguments} > out.txt && cat /proc/$$/io");
    shell.args(["-c", &line]).current_dir(place.path("."));
    shell.env("PROGRAM", program.get_program());
    let counts = finish(&mut shell).succeeds().stdout;
    let read = counts.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

#[test]
fn ranking_reads_candidates_once_for_all_relations() {
    let place = Workplace::empty();
    place.write("pbg.toml", LARGE);
    generate(&place, "train.tsv", 20_000, 20_000, 1);
    generate(&place, "valid.tsv", 20_000, 2_000, 2);
    let edges = ["--edges", "train=train.tsv", "--edges", "valid=valid.tsv"];
    place.run([&["import"][..], &edges].concat()).succeeds();
    place.run(["train", "--progress", "none"]).succeeds();
    let files = fs::read_dir(place.path("model")).unwrap();
    let files = files.map(|entry| entry.unwrap());
    let tables = files.filter(|e| e.file_name().to_string_lossy().starts_with("embeddings"));
    let tables: u64 = tables.map(|entry| entry.metadata().unwrap().len()).sum();

    let read = read_by(
        &place,
        "eval --edges valid --filter train,valid --limit 500",
    );
    let ranks = place.run("eval --json --edges valid --limit 500 --by relation".split(' '));
    let ranks: Value = serde_json::from_str(&ranks.succeeds().stdout).unwrap();
    let relations = ranks["by"].as_array().unwrap().len();
    assert!(relations > 10, "{relations}");
    // Tables are read once as candidates, and once for the embeddings of the questions.
    eprintln!("{read} bytes read, of tables of {tables}");
    assert!(read > tables && read < 3 * tables, "{read} of {tables}");
}
