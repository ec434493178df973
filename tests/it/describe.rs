//! Facts about a graph that concern a model before it is trained, as `import`, `describe`, `check` and `eval` print
//! them.

use serde_json::{Value, json};

use crate::support::{Workplace, with};

const CONFIG: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
dynamic_relations = true
num_epochs = 1
workers = 1
eval_fraction = 0.0
[entities.place]
num_partitions = 2
[[relations]]
name = "any"
lhs = "place"
rhs = "place"
"#;

/// Ten places on a ring, joined by `next`. Of nine held-out edges, three have an entity, a relation or both that no
/// trained edge has, one is trained, and two are trained in the other direction.
fn place() -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", CONFIG);
    let ring = (0..10).map(|n| format!("p{n}\tnext\tp{}\n", (n + 1) % 10));
    place.write(
        "train.tsv",
        ring.collect::<String>() + "p3\tnext\tp4\np5\tnext\tp5\n",
    );
    place.write(
        "test.tsv",
        "p0\tnext\tp5\np1\tnext\tp7\np2\tnext\tp2\np3\tnext\tp4\np6\tnext\tp5\np9\tnext\tp8\n\
         p0\tnext\tnew\nother\tbeside\tnew\np4\tbeside\tp5\n",
    );
    place
}

fn imported() -> Workplace {
    let place = place();
    place.import().succeeds();
    place
}

fn json_of(place: &Workplace, arguments: &[&str]) -> Value {
    let printed = place.run(arguments).succeeds().stdout;
    serde_json::from_str(&printed).unwrap()
}

const LINE: &str =
    "3 edges have entities or relations that no trained edge has (2 entities, 1 relation)";

#[test]
fn an_import_counts_what_no_trained_edge_has() {
    let told = place().import().succeeds().stdout;
    assert!(
        told.contains(&format!("  edge set test: {LINE}\n")),
        "{told}"
    );

    let place = place();
    let import = [
        "import",
        "--json",
        "--edges",
        "train=train.tsv",
        "--edges",
        "test=test.tsv",
    ];
    let report = json_of(&place, &import);
    let unseen = json!({ "test": { "edges": 3, "entities": 2, "relations": 1 } });
    assert_eq!(report["unseen"], unseen);
    // A kept edge set is compared with the new edges, also when names are sorted on the disk.
    place.write("more.tsv", "new\tbeside\tp1\n");
    let import = [
        "import",
        "--json",
        "--names-on-disk",
        "--edges",
        "train=more.tsv",
    ];
    let report = json_of(&place, &import);
    let unseen = json!({ "test": { "edges": 9, "entities": 10, "relations": 1 } });
    assert_eq!(report["unseen"], unseen);
    // A trained edge set has nothing unseen.
    let trained = with(
        &["import", "--json", "--edges", "test=test.tsv"],
        &["edge_sets=[\"test\", \"train\"]"],
    );
    assert_eq!(json_of(&place, &trained)["unseen"], json!({}));
}

#[test]
fn check_and_eval_say_it_and_eval_ranks_without() {
    let place = imported();
    let checked = place.run(["check"]).succeeds();
    assert!(
        checked.stderr.contains(&format!("edge set test: {LINE}")),
        "{}",
        checked.stderr
    );
    let checked = json_of(&place, &["check", "--json"]);
    assert_eq!(checked["unseen"]["test"]["edges"], 3);

    place.run(["train", "--progress", "none"]).succeeds();
    let all = place.run(["eval", "--json"]).succeeds();
    assert!(
        all.stderr.contains(LINE) && all.stderr.contains("`--seen`"),
        "{}",
        all.stderr
    );
    let all: Value = serde_json::from_str(&all.stdout).unwrap();
    assert_eq!(
        (&all["raw"]["count"], &all["unseen"]["edges"]),
        (&json!(9), &json!(3))
    );
    let seen = json_of(&place, &["eval", "--json", "--seen"]);
    assert_eq!(seen["raw"]["count"], 6);
    assert_eq!(
        (&seen["without_trained_edge"], &seen["unseen"]),
        (&json!(3), &all["unseen"])
    );

    // The ranks are those of an edge set with only these edges.
    let test = place.read("test.tsv");
    let lines = test.lines().take(6).map(|line| format!("{line}\n"));
    place.write("six.tsv", lines.collect::<String>());
    place.run(["import", "--edges", "six=six.tsv"]).succeeds();
    for filter in [&[][..], &["--filter", "train,test"]] {
        let eval = |which: &[&str]| json_of(&place, &[&["eval", "--json"], which, filter].concat());
        let (seen, six) = (eval(&["--seen"]), eval(&["--edges", "six"]));
        for ranks in ["raw", "filtered", "raw_lhs", "filtered_rhs"] {
            assert_eq!(seen[ranks], six[ranks], "{ranks}");
        }
    }
    let sample = json_of(&place, &["eval", "--json", "--seen", "--limit", "4"]);
    assert_eq!(sample["raw"]["count"], 4);
    let together = json_of(&place, &["eval", "--json", "--seen", "--machines", "1"]);
    assert_eq!(together["raw"]["count"], 6);
    assert_eq!(together["unseen"], seen["unseen"]);
}

#[test]
fn seen_edges_need_the_trained_ones() {
    let place = imported();
    place.run(["train", "--progress", "none"]).succeeds();
    let import = "import --dictionary data --set dataset=other --edges test=test.tsv";
    place.run(import.split(' ')).succeeds();
    let eval = "eval --set dataset=other --seen";
    place
        .run(eval.split(' '))
        .fails(4, &["no edge set `train`"]);
    place.run(eval.split(' ').take(3)).succeeds();
    let nothing = "p0\tnone\tp5\n";
    let place = imported();
    place.write("none.tsv", nothing);
    place.run(["import", "--edges", "none=none.tsv"]).succeeds();
    place.run(["train", "--progress", "none"]).succeeds();
    place.run(["eval", "--edges", "none"]).succeeds();
    let refused = place.run(["eval", "--edges", "none", "--seen"]);
    refused.fails(3, &["`none` has no edges to rank", "were not trained"]);
}

const TYPED: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
[entities.drug]
num_partitions = 1
[entities.protein]
num_partitions = 1
[[relations]]
name = "target"
lhs = "drug"
rhs = "protein"
"#;

#[test]
fn names_of_several_types_are_named() {
    for on_disk in [&[][..], &["--names-on-disk"]] {
        let place = Workplace::empty();
        place.write("pbg.toml", TYPED);
        // The last row has its names swapped.
        place.write(
            "train.tsv",
            "Copper\ttarget\tALB\nLepirudin\ttarget\tF2\nALB\ttarget\tCopper\n",
        );
        let import = ["import", "--edges", "train=train.tsv"];
        let told = place.run(import.iter().chain(on_disk)).succeeds().stdout;
        let line = "2 names in several entity types: `Copper` is in drug and protein, `ALB` is in drug and protein";
        let other = "2 names in several entity types: `ALB` is in drug and protein, `Copper` is in drug and protein";
        assert!(told.contains(line) || told.contains(other), "{told}");
        let described = place.run(["describe"]).succeeds().stdout;
        assert!(
            described.contains("2 names in several entity types: "),
            "{described}"
        );
        let shared = &json_of(&place, &["describe", "--json"])["shared_names"];
        assert_eq!(shared["count"], 2);
        assert_eq!(shared["examples"][0]["types"], json!(["drug", "protein"]));
    }
    let told = imported().import().succeeds().stdout;
    assert!(!told.contains("several entity types"), "{told}");
}

#[test]
fn describe_shows_what_there_is() {
    let place = imported();
    let described = json_of(&place, &["describe", "--json"]);
    assert_eq!(described["trained"], json!(["train"]));
    let sets = json!([
        {
            "name": "train", "edges": 12, "weights": false, "entities": 10, "relations": 1, "duplicates": 1, "loops": 1,
            "also_in": { "test": 2 }, "reversed_in": { "test": 2 },
        },
        {
            "name": "test", "edges": 9, "weights": false, "entities": 12, "relations": 2, "duplicates": 0, "loops": 1,
            "also_in": { "train": 1 }, "reversed_in": { "train": 2 },
            "unseen": { "edges": 3, "entities": 2, "relations": 1 },
        },
    ]);
    assert_eq!(described["edge_sets"], sets);
    let components = json!({ "count": 1, "largest": 10, "entities": 10 });
    assert_eq!(described["components"], components);
    let degrees = &described["entity_types"][0]["degrees"];
    assert_eq!(
        (&degrees["none"], &degrees["median"], &degrees["max"]),
        (&json!(2), &json!(2), &json!(4))
    );
    let next = json!({ "name": "next", "lhs": "place", "rhs": "place", "edges": { "train": 12, "test": 7 } });
    assert_eq!(described["relations"][0], next);
    assert_eq!(described["not_counted"], json!([]));

    let table = place
        .run(["describe", "--relations", "1"])
        .succeeds()
        .stdout;
    for words in [
        "1 (11.1 %)",
        "2 (22.2 %)",
        "3 (33.3 %)",
        "1 more",
        "components of the trained edges: 1",
    ] {
        assert!(table.contains(words), "{words} is not in\n{table}");
    }
    // Edge sets are compared with those that `edge_sets` selects.
    let both = with(
        &["describe", "--json"],
        &["edge_sets=[\"train\", \"test\"]"],
    );
    assert_eq!(json_of(&place, &both)["edge_sets"][1].get("unseen"), None);
    let absent = place
        .run(with(&["describe"], &["edge_sets=[\"nowhere\"]"]))
        .succeeds();
    assert!(
        absent.stderr.contains("has no edge set nowhere"),
        "{}",
        absent.stderr
    );
}

#[test]
fn what_cannot_be_described_is_refused() {
    let place = imported();
    place
        .run(["describe", "--memory", "1M"])
        .fails(8, &["describing", "MiB"]);
    let edges = std::fs::read(place.path("data/edges_test.arrow")).unwrap();
    let mut damaged = edges.clone();
    damaged[edges.len() / 2] ^= 1;
    place.write("data/edges_test.arrow", damaged);
    place
        .run(["describe"])
        .fails(4, &["edges_test.arrow is damaged"]);
    Workplace::empty().run(["describe"]).fails(3, &["pbg.toml"]);
    let place = self::place();
    place.run(["describe"]).fails(4, &["is not a dataset"]);
}

#[test]
fn no_epoch_leaves_the_initial_model() {
    let place = imported();
    let none = place.run(with(&["train"], &["num_epochs=0"])).succeeds();
    assert!(none.stderr.contains("version 1"), "{}", none.stderr);
    let report = json_of(&place, &["eval", "--json"]);
    assert_eq!(
        (&report["version"], &report["raw"]["count"]),
        (&json!(1), &json!(9))
    );
    place
        .run(["export", "--format", "npy", "--out", "exported"])
        .succeeds();
    let initial = place.committed("model");
    // The same command has nothing to do and changes nothing.
    place.run(with(&["train"], &["num_epochs=0"])).succeeds();
    assert_eq!(place.committed("model"), initial);

    // A run that continues from this checkpoint equals a run that began without it.
    place
        .run(with(&["train", "--progress", "none"], &["num_epochs=3"]))
        .succeeds();
    let fresh = with(
        &["train", "--progress", "none"],
        &["num_epochs=3", "checkpoint_path=fresh"],
    );
    place.run(fresh).succeeds();
    assert_ne!(place.committed("model"), initial);
    assert_eq!(place.committed("model"), place.committed("fresh"));
}

#[test]
fn the_history_counts_epochs_as_its_option_does() {
    let place = imported();
    place
        .run(with(&["train", "--progress", "none"], &["num_epochs=3"]))
        .succeeds();
    let all = json_of(&place, &["cluster", "history", "--json"]);
    let second = json_of(&place, &["cluster", "history", "--json", "--epoch", "2"]);
    let numbers = |rows: &Value| -> Vec<(u64, u64)> {
        let rows = rows.as_array().unwrap().iter();
        let number = |row: &Value, name: &str| row[name].as_u64().unwrap();
        rows.map(|row| (number(row, "epoch"), number(row, "epoch_number")))
            .collect()
    };
    assert_eq!(numbers(&second), [(1, 2); 4]);
    assert_eq!(numbers(&all).len(), 12);
    assert!(
        numbers(&all)
            .iter()
            .all(|(epoch, number)| epoch + 1 == *number)
    );
}
