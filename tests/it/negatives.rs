//! Negative samplers as a user meets them: what they draw, what they cost in memory, and what happens when they fail.

use std::collections::BTreeMap;

use crate::support::plugin::negatives;
use crate::support::tensors::{Tensor, tensors};
use crate::support::{Workplace, graph::CONFIG};

const QUIET: [&str; 3] = ["train", "--progress", "none"];

/// Samplers with parameters that draw no uniform negatives.
const SAMPLERS: [&[&str]; 3] = [
    &["negative_sampler=degree"],
    &[
        "negative_sampler=types_seen",
        "plugins.params.types_seen.fraction=1.0",
    ],
    &[
        "negative_sampler=types_seen",
        "plugins.params.types_seen.fraction=1.0",
        "plugins.params.types_seen.power=0.5",
    ],
];

/// A sampler that leaves out draws.
const BERNOULLI: &[&str] = &["negative_sampler=bernoulli"];

fn with<'a>(command: &[&'a str], keys: &[&'a str]) -> Vec<&'a str> {
    let set = keys.iter().flat_map(|key| ["--set", key]);
    command.iter().copied().chain(set).collect()
}

/// Configuration of a graph whose people like things, and whose trained edges lack some of both.
const LIKES: &str = r#"
dataset = "data"
checkpoint_path = "model"
edge_sets = ["train"]
dimension = 8
comparator = "dot"
loss_fn = "softmax"
global_emb = false
num_epochs = 2
lr = 0.1
workers = 1
seed = 3
batch_size = 20
num_batch_negs = 0
num_uniform_negs = 20
eval_fraction = 0.0

[entities.person]
num_partitions = 2
[entities.thing]
num_partitions = 2

[[relations]]
name = "*"
lhs = "person"
rhs = "thing"
operator = "diagonal"
"#;

/// Imports the graph: 12 people like things 0 to 7 and hate things 8 to 11; only in `other` are there others.
fn likes() -> Workplace {
    let mut train = String::new();
    for person in 0..12 {
        for thing in 0..8 {
            train.push_str(&format!("p{person}\tlikes\tt{thing}\n"));
        }
        train.push_str(&format!("p{person}\thates\tt{}\n", 8 + person % 4));
    }
    let other: String = (0..30).map(|n| format!("q{n}\tlikes\tu{n}\n")).collect();
    imported(&train, &other)
}

/// Imports a graph with two edge sets, of which the first is trained.
fn imported(train: &str, other: &str) -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", LIKES);
    place.write("train.tsv", train);
    place.write("other.tsv", other);
    let import = [
        "import",
        "pbg.toml",
        "--edges",
        "train=train.tsv",
        "--edges",
        "other=other.tsv",
    ];
    place.run(import).succeeds();
    place
}

/// Returns the number of embeddings that training has changed, by file.
fn changed(place: &Workplace, keys: &[&str]) -> usize {
    let folders = ["checkpoint_path=begin", "checkpoint_path=end"];
    let begin = [keys, &[folders[0], "num_epochs=0"]].concat();
    place.run(with(&QUIET, &begin)).succeeds();
    place
        .run(with(&QUIET, &[keys, &[folders[1]]].concat()))
        .succeeds();
    let embeddings = |folder| -> BTreeMap<(String, String), Tensor> {
        let mut all = tensors(place, folder);
        all.retain(|(file, name), _| {
            name == "embeddings" && (file.contains("person") || file.contains("thing"))
        });
        all
    };
    let (before, after) = (embeddings("begin"), embeddings("end"));
    assert!(
        before.len() == 4 && before.keys().eq(after.keys()),
        "{:?}",
        before.keys()
    );
    let rows = before
        .values()
        .zip(after.values())
        .flat_map(|(before, after)| {
            let width = before.shape[1] as usize;
            let rows = before
                .numbers
                .chunks(width)
                .zip(after.numbers.chunks(width));
            rows.map(|(before, after)| before != after)
                .collect::<Vec<_>>()
        });
    rows.filter(|changed| *changed).count()
}

/// The trained edges have 12 people and 12 things; the other 30 of each are in the dataset only.
#[test]
fn only_entities_of_the_distribution_are_drawn() {
    let place = likes();
    assert_eq!(changed(&place, &[]), 84);
    for keys in SAMPLERS {
        let place = likes();
        assert_eq!(changed(&place, keys), 24, "{keys:?}");
    }
}

/// Returns the number of embeddings that training changes by one negative per edge and side, where 40 people live at one of
/// `homes` things.
fn changed_where_all_live(homes: u32, keys: &[&str]) -> usize {
    let train: String = (0..40)
        .map(|person| format!("q{person}\tlives at\tu{}\n", person % homes))
        .collect();
    let unseen: String = (0..400)
        .map(|n| format!("p{n}\tlives at\tt{n}\n"))
        .collect();
    let place = imported(&train, &unseen);
    changed(&place, &[keys, &["num_uniform_negs=1"]].concat())
}

/// With one home for all, its people are hardly ever replaced: once for every 40 homes.
#[test]
fn the_side_with_more_entities_has_fewer_negatives() {
    let [drawn, left_out] = [&[][..], BERNOULLI].map(|keys| changed_where_all_live(1, keys));
    // Of 160 draws, 80 are of people, most of them different.
    assert!((150..=201).contains(&drawn), "{drawn}");
    assert!((90..130).contains(&left_out), "{left_out}");
    // With as many homes as people, no draw is left out.
    let [drawn, left_out] = [&[][..], BERNOULLI].map(|keys| changed_where_all_live(40, keys));
    assert!(drawn.abs_diff(left_out) < 20, "{drawn} {left_out}");
}

#[test]
fn candidates_of_a_file_are_drawn_and_mistakes_are_named() {
    let place = likes();
    place.write(
        "lists/hard.tsv",
        "likes\trhs\tu3\nlikes\trhs\tu4\nlikes\tlhs\tp1\nhates\tlhs\tp1\nhates\trhs\tu5\n",
    );
    let keys = [
        "negative_sampler=hard_candidates",
        "plugins.params.hard_candidates.fraction=1.0",
        "plugins.grants=[{plugin = \"hard_candidates\", read = [\"lists\"]}]",
    ];
    // In a partition without a listed entity, negatives are uniform.
    let found = changed(&place, &keys);
    assert!((27..84).contains(&found), "{found}");
    place.write("lists/hard.tsv", "likes\trhs\tnobody\n");
    let keys = [&keys[..], &["checkpoint_path=third"]].concat();
    let refused = place.run(with(&QUIET, &keys));
    refused.fails(6, &["hard_candidates", "\"nobody\"", "thing"]);
    // The advice has the folder that the run could read.
    place.write("lists/hard.tsv", "likes\trhs\tu3\theavy\n");
    let refused = place.run(with(&QUIET, &keys));
    let said = refused
        .fails(6, &["line 1: \"heavy\" is not a weight"])
        .stderr;
    let mut quoted = said.split('`');
    let advice = quoted.find(|text| text.starts_with("pbg-host plugin replay"));
    let advice: Vec<&str> = advice.unwrap().split(' ').skip(1).collect();
    place.run(&advice).fails(6, &["\"heavy\" is not a weight"]);
    place.write("lists/hard.tsv", "likes\trhs\tu3\n");
    let again = place.run(&advice).succeeds().stdout;
    assert!(again.contains("returns a distribution"), "{again}");
    // A relation that is spelt wrongly has no effect, and is named once the first pass has ended.
    place.write("lists/hard.tsv", "likes\trhs\tu3\nlikez\trhs\tu4\n");
    let said = place.run(with(&QUIET, &keys)).succeeds().stderr;
    assert!(
        said.contains("\"likez\", but no relation of that name"),
        "{said}"
    );
    // A checked plugin reads what it is given.
    let check = ["plugin", "check", "hard_candidates"];
    let refused = place.run(check).fails(6, &["breaks 1 promise"]).stdout;
    assert!(refused.contains("`--read FOLDER`"), "{refused}");
    let check = [&check[..], &["--read", "lists"]].concat();
    place.run(check).succeeds();
    let bench = [
        "plugin",
        "bench",
        "hard_candidates",
        "--read",
        "lists",
        "--seconds",
        "0.01",
    ];
    place.run(bench).succeeds();
}

/// An answer depends on the position alone, so a run that is stopped draws what an uninterrupted one draws.
#[test]
fn an_epoch_more_is_the_same_as_a_longer_run() {
    for dynamic in [true, false] {
        let config = match dynamic {
            true => CONFIG.to_owned(),
            false => CONFIG
                .replace("dynamic_relations = true", "")
                .replace("name = \"any\"", "name = \"*\""),
        };
        for keys in SAMPLERS.iter().chain(&[BERNOULLI]) {
            let (at_once, in_two) = (
                Workplace::with_dataset(&config),
                Workplace::with_dataset(&config),
            );
            at_once.run(with(&QUIET, keys)).succeeds();
            let first = [*keys, &["num_epochs=1"]].concat();
            in_two.run(with(&QUIET, &first)).succeeds();
            in_two.run(with(&QUIET, keys)).succeeds();
            assert_eq!(
                at_once.committed("model"),
                in_two.committed("model"),
                "{keys:?}"
            );
            let other = in_two.run(with(&QUIET, &["num_epochs=3"]));
            other.fails(5, &["negative_sampler"]);
        }
    }
}

#[test]
fn tables_are_counted_before_a_run_starts() {
    let place = Workplace::with_dataset(CONFIG);
    let of = |keys: &[&str]| place.run(with(&["check"], keys)).succeeds().stdout;
    assert!(!of(&[]).contains("tables of negatives"));
    for keys in SAMPLERS.iter().chain(&[BERNOULLI]) {
        let said = of(keys);
        assert!(said.contains("tables of negatives"), "{said}");
        assert!(said.contains("\nnegative sampler "), "{said}");
    }
    let bucket = ["negative_sampler=degree", "negatives_from=bucket"];
    place
        .run(with(&["check"], &bucket))
        .fails(3, &["negative_sampler", "negatives_from"]);
    let bucket = with(&["check", "--plugin", "degree"], &["negatives_from=bucket"]);
    place.run(bucket).fails(3, &["degree", "negatives_from"]);
}

#[test]
fn a_sampler_that_fails_ends_the_run_or_is_replaced() {
    let place = Workplace::with_dataset(CONFIG);
    // One part, with the fraction 0.
    let nothing =
        "(i32.store (i32.const 128) (i32.const 0)) (i32.store (i32.const 132) (i32.const 512))
        (i32.store (i32.const 136) (i32.const 1)) (i32.const 128)";
    for (body, reason) in [
        ("unreachable", "distribution"),
        (nothing, "a part has the fraction 0"),
    ] {
        place.write("evil.wasm", negatives(body));
        let failed = place.run([&QUIET[..], &["--plugin", "evil.wasm"]].concat());
        failed.fails(6, &["evil 6.6.6", reason]);
    }
    let standard = Workplace::with_dataset(CONFIG);
    standard.run(QUIET).succeeds();
    let place = Workplace::with_dataset(CONFIG);
    place.write("evil.wasm", negatives("unreachable"));
    let fallback = [
        "--plugin",
        "evil.wasm",
        "--set",
        "plugins.on_fault=fallback",
    ];
    let said = place
        .run([&QUIET[..], &fallback].concat())
        .succeeds()
        .stderr;
    assert!(
        said.contains("uniform_negatives 0.1.0 replaces it"),
        "{said}"
    );
    assert_eq!(place.committed("model"), standard.committed("model"));
}

#[test]
fn standard_samplers_keep_their_promises() {
    let place = Workplace::empty();
    for name in ["uniform_negatives", "degree", "types_seen", "bernoulli"] {
        place.run(["plugin", "check", name]).succeeds();
        let said = place.run(["plugin", "inspect", name]).succeeds().stdout;
        assert!(said.contains("negative sampler"), "{said}");
    }
    let said = place
        .run(["plugin", "check", "types_seen", "--set", "power=1.0"])
        .succeeds()
        .stdout;
    assert!(said.contains("have its probabilities"), "{said}");
    assert!(!said.contains("for an edge"), "{said}");
    let said = place.run(["plugin", "check", "bernoulli"]).succeeds();
    let left_out = "of 10 draws for an edge, 3.3 to 10.0 are made on average, at least 3";
    assert!(said.stdout.contains(left_out), "{}", said.stdout);
}
