//! Indexes: their results, compared with those of comparing all entities, and the indexes that are refused.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use pbg_fuzz::Dice;
use serde_json::Value;

use crate::support::Workplace;
use crate::support::world::World;

const ENTITIES: usize = 1500;
const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// Models to compare: configuration keys, then the operator.
pub(crate) const MODELS: [(&str, &str); 3] = [
    (
        "comparator = \"dot\"\ndynamic_relations = true",
        "complex_diagonal",
    ),
    ("comparator = \"cos\"\nbias = true", "linear"),
    ("comparator = \"l2\"\nmax_norm = 0.9", "translation"),
];

/// Trains a little on a random graph of groups.
pub(crate) fn trained((keys, operator): (&str, &str)) -> Workplace {
    let place = Workplace::empty();
    let name = match keys.contains("dynamic") {
        true => "all",
        false => "*",
    };
    let config = format!(
        "dataset = \"data\"\ncheckpoint_path = \"model\"\ndimension = 16\ninit_scale = 0.3\nlr = 0.1\nworkers = 1\n\
         num_epochs = 2\nloss_fn = \"softmax\"\neval_fraction = 0\n{keys}\n[entities.place]\nnum_partitions = 3\n\
         [[relations]]\nname = \"{name}\"\nlhs = \"place\"\nrhs = \"place\"\noperator = \"{operator}\"\n"
    );
    place.write("pbg.toml", config);
    let mut dice = Dice::new(5);
    let mut edges = String::new();
    for _ in 0..6 * ENTITIES {
        let group = dice.from(0, 29);
        let mut entity = || 30 * dice.from(0, ENTITIES / 30 - 1) + group;
        let (lhs, rhs) = (entity(), entity());
        writeln!(edges, "e{lhs}\tr{}\te{rhs}", lhs % 3).unwrap();
    }
    place.write("edges.tsv", edges);
    place
        .run(["import", "--edges", "train=edges.tsv"])
        .succeeds();
    place.run(TRAIN).succeeds();
    place
}

/// Returns names and scores of neighbours.
fn neighbors(place: &Workplace, name: &str, options: &[&str]) -> Vec<(String, f32)> {
    let command = ["neighbors", "pbg.toml", name, "--json"];
    let found = place.run(command.iter().chain(options)).succeeds().stdout;
    let found: Vec<Value> = serde_json::from_str(&found).unwrap();
    found.iter().map(scored).collect()
}

pub(crate) fn scored(found: &Value) -> (String, f32) {
    let score = serde_json::from_value(found["score"].clone()).unwrap();
    (found["name"].as_str().unwrap().to_owned(), score)
}

/// Returns the answers to the questions of `q.tsv`, with the number of entities left out.
fn predictions(place: &Workplace, options: &[&str]) -> Vec<(u64, Vec<(String, f32)>)> {
    let command = ["predict", "--questions", "q.tsv", "--json"];
    let answers = place.run(command.iter().chain(options)).succeeds().stdout;
    let answer = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let best = line["answers"].as_array().unwrap().iter().map(scored);
        (line["left_out"].as_u64().unwrap(), best.collect())
    };
    answers.lines().map(answer).collect()
}

/// Returns how many of the ten best of `all` are in `found`. Asserts that every score equals the one in `all`, and that
/// `found` is sorted by score.
#[track_caller]
fn hits(all: &[(String, f32)], found: &[(String, f32)]) -> usize {
    assert!(found.is_sorted_by(|a, b| a.1 >= b.1), "{found:?}");
    let scores: BTreeMap<&str, f32> = all.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    for (name, score) in found {
        assert_eq!(
            scores.get(name.as_str()).map(|s| s.to_bits()),
            Some(score.to_bits()),
            "{name}"
        );
    }
    let last = all
        .get(9)
        .or(all.last())
        .map_or(f32::MAX, |(_, score)| *score);
    found
        .iter()
        .filter(|(_, score)| *score >= last)
        .count()
        .min(10)
}

#[test]
fn what_an_index_finds_has_the_same_scores_and_is_nearly_all() {
    for model in MODELS {
        let place = trained(model);
        let built = place.run(["index", "--json"]).succeeds().stdout;
        let built: Value = serde_json::from_str(&built).unwrap();
        let of_type = &built["types"][0];
        assert_eq!(
            (&of_type["entity_type"], &of_type["partitions"]),
            (&"place".into(), &3.into())
        );
        for kind in ["neighbors", "predictions"] {
            let recall = of_type["recall"].as_array().unwrap().iter();
            let recall: Vec<f64> = recall.map(|of| of[kind].as_f64().unwrap()).collect();
            assert!(
                recall[2] > 0.9 && recall[4] > 0.97,
                "{model:?} {kind} {recall:?}"
            );
        }
        let names = (0..12).map(|i| format!("e{}", 101 * i % ENTITIES));
        let (mut questions, mut found) = (String::new(), 0);
        for (at, name) in names.enumerate() {
            let all = neighbors(&place, &name, &["-k", "2000"]);
            let by_index = neighbors(&place, &name, &["--index", "--width", "200"]);
            assert!(by_index.len() == 10 && !by_index.iter().any(|(other, _)| *other == name));
            found += hits(&all, &by_index);
            writeln!(questions, "{name}\tr{}\t?\n?\tr{}\t{name}", at % 3, at % 3).unwrap();
        }
        assert!(found > 108, "{model:?}: {found} of 120");
        place.write("q.tsv", questions);
        let options = [
            vec!["--filter", "train"],
            vec!["--unfiltered", "--no-loops"],
        ];
        for options in options {
            let of = |more: &[&'static str]| predictions(&place, &[&options[..], more].concat());
            let (all, by_index) = (of(&["-k", "2000"]), of(&["--index", "--width", "200"]));
            assert_eq!(all.len(), 24);
            let mut found = 0;
            for ((left_out, all), (also_left_out, by_index)) in all.iter().zip(&by_index) {
                assert_eq!(left_out, also_left_out);
                assert_eq!(by_index.len(), 10);
                found += hits(all, by_index);
            }
            assert!(found > 216, "{model:?} {options:?}: {found} of 240");
        }
    }
}

/// With so few entities, more than a few questions are compared with all of them.
#[test]
fn many_questions_are_answered_without_the_index_where_that_takes_less() {
    let place = trained(MODELS[0]);
    place.run(["index", "--recall-queries", "30"]).succeeds();
    let questions = (0..200).map(|i| format!("e{i}\tr{}\t?\n", i % 3));
    place.write("q.tsv", questions.collect::<String>());
    let exact = predictions(&place, &[]);
    assert_eq!(predictions(&place, &["--index"]), exact);
    let ask = ["predict", "--questions", "q.tsv", "--json", "--index"];
    let told = place.run(ask).succeeds().stderr;
    let lines = told
        .lines()
        .filter(|line| line.contains("comparing all entities takes less time"));
    assert_eq!(lines.count(), 1, "{told}");
    let told = place
        .run([&ask[..], &["--width", "64"]].concat())
        .succeeds()
        .stderr;
    assert!(
        told.contains("approximate, by the index") && !told.contains("exact"),
        "{told}"
    );
    // A single question walks the index on the disk.
    let one = [
        "predict",
        "--head",
        "e1",
        "--relation",
        "r1",
        "--index",
        "--json",
    ];
    let alone = place.run(one).succeeds();
    assert!(
        alone.stderr.contains("approximate, by the index"),
        "{}",
        alone.stderr
    );
    let alone: Value = serde_json::from_str(&alone.stdout).unwrap();
    let alone: Vec<_> = alone["answers"]
        .as_array()
        .unwrap()
        .iter()
        .map(scored)
        .collect();
    assert!(hits(&exact[1].1, &alone) > 7, "{alone:?}");
}

#[test]
fn a_second_build_waits_for_nobody() {
    let place = trained(MODELS[2]);
    place.run(["index", "--recall-queries", "0"]).succeeds();
    let folder = fs::File::open(place.path("model/index_l2")).unwrap();
    folder.lock().unwrap();
    let second = ["index", "--recall-queries", "0"];
    place
        .run(second)
        .fails(9, &["index_l2", "another `pbg-host index`"]);
    // Meanwhile the existing index can be used.
    place
        .run(["neighbors", "pbg.toml", "e7", "--index"])
        .succeeds();
    drop(folder);
    place.run(second).succeeds();
}

/// Types of several sizes, some featurized, with relations between them and global embeddings.
#[test]
fn worlds_of_several_types_are_found_by_index() {
    for seed in 0..6 {
        let place = World::new(seed).imported();
        place.run(TRAIN).succeeds();
        let built = place
            .run(["index", "--json", "--recall-queries", "20"])
            .succeeds();
        let built: Value = serde_json::from_str(&built.stdout).unwrap();
        for of_type in built["types"].as_array().unwrap() {
            // The beam is wider than the number of entities.
            let widest = &of_type["recall"][4];
            for kind in ["neighbors", "predictions"] {
                let recall = widest.get(kind).and_then(Value::as_f64);
                assert!(recall.is_none_or(|r| r > 0.95), "world {seed}: {of_type}");
            }
        }
    }
}

#[test]
fn an_index_of_other_embeddings_is_refused_until_it_is_built_anew() {
    let place = trained(MODELS[2]);
    let ask = ["neighbors", "pbg.toml", "e7", "--index"];
    place
        .run(ask)
        .fails(5, &["there is no index", "`pbg-host index` builds one"]);
    let built = place
        .run(["index", "--recall-queries", "30"])
        .succeeds()
        .stdout;
    assert!(
        built.contains("recall@10") && built.contains("in 3 partitions"),
        "{built}"
    );
    let told = place.run(ask).succeeds().stderr;
    assert!(
        told.contains("approximate, by the index: recall@10"),
        "{told}"
    );
    let other = [&ask[..], &["--comparator", "cos"]].concat();
    place.run(&other).fails(
        5,
        &[
            "no index",
            "`pbg-host index` builds one with `--comparator cos`",
        ],
    );
    place
        .run(["index", "--comparator", "cos", "--recall-queries", "0"])
        .succeeds();
    place.run(&other).succeeds();
    let more = [&TRAIN[..], &["--set", "num_epochs=3"]].concat();
    place.run(&more).succeeds();
    place
        .run(ask)
        .fails(5, &["since it was trained further", "`pbg-host index`"]);
    place.run(["index", "--recall-queries", "0"]).succeeds();
    place.run(ask).succeeds();
    // No file of the previous index is left.
    let files = fs::read_dir(place.path("model/index_l2")).unwrap().count();
    assert_eq!(files, 4);
}

#[test]
fn a_damaged_index_is_refused_by_name() {
    let place = trained(MODELS[0]);
    place.run(["index", "--recall-queries", "0"]).succeeds();
    let folder = place.path("model/index_dot");
    let mut names = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name());
    let names: Vec<String> = names
        .by_ref()
        .map(|name| name.into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 4);
    let ask = ["neighbors", "pbg.toml", "e7", "--index", "--width", "128"];
    for name in names {
        let path = folder.join(&name);
        let whole = fs::read(&path).unwrap();
        // Damages everything but the beginning, so that every walk meets the damage.
        let damaged: Vec<u8> = whole
            .iter()
            .enumerate()
            .map(|(at, byte)| byte ^ u8::from(at > 9))
            .collect();
        for bytes in [&damaged[..], &whole[..whole.len() / 2]] {
            fs::write(&path, bytes).unwrap();
            place.run(ask).fails(5, &[&name, "damaged"]);
        }
        fs::remove_file(&path).unwrap();
        if name != "manifest.json" {
            place.run(ask).fails(5, &[&name, "missing"]);
        }
        fs::write(&path, &whole).unwrap();
    }
    place.run(ask).succeeds();
    // The checksums of embeddings are compared as they are read.
    let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
    for name in manifest["files"]
        .as_object()
        .unwrap()
        .keys()
        .filter(|n| n.starts_with("embeddings"))
    {
        let path = place.path("model").join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].iter_mut().for_each(|byte| *byte ^= 1);
        fs::write(&path, bytes).unwrap();
    }
    place.run(ask).fails(5, &["embeddings_place", "damaged"]);
}

#[test]
fn an_index_announces_its_memory_and_keeps_no_table_when_asked() {
    let place = trained(MODELS[0]);
    let parts = |command: &[&str]| place.run(command).succeeds().stdout;
    let building = parts(&["index", "--check"]);
    assert!(
        building.contains("links of the largest partition"),
        "{building}"
    );
    assert!(!place.path("model/index_dot").exists());
    let exact = parts(&["predict", "--check"]);
    assert!(exact.contains("largest partition"), "{exact}");
    // Many questions may be answered by comparing all entities, or with a partition in memory.
    let many = parts(&["predict", "--check", "--index"]);
    assert!(
        many.contains("largest partition") && many.contains("a walk"),
        "{many}"
    );
    let one = [
        "predict",
        "--check",
        "--index",
        "--head",
        "e1",
        "--relation",
        "r1",
    ];
    let by_index = parts(&one);
    assert!(!by_index.contains("largest partition"), "{by_index}");
    assert!(by_index.contains("a walk"), "{by_index}");
    place
        .run(["index", "--entity-type", "plaice"])
        .fails(4, &["plaice", "place"]);
}
