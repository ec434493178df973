//! Growing graphs: checkpoints of an earlier graph remain readable for its entities, and training continues.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::crash::files;
use crate::support::graph::{self, CONFIG};
use crate::support::{Workplace, finish};

const CHECKPOINT: i32 = 5;
const EPOCHS: &str = "num_epochs=2";

/// Names of entities that are added later.
const NEW: [&str; 2] = ["halley", "encke"];

/// Returns the configuration in which every relation has its own operator.
fn static_relations() -> String {
    CONFIG
        .replace("dynamic_relations = true\n", "")
        .replace(r#"name = "any""#, r#"name = "*""#)
}

/// Trains on the small graph, then imports two more entities and a relation.
fn grown(config: &str) -> Workplace {
    let place = Workplace::with_dataset(config);
    place.run(train()).succeeds();
    grow(&place);
    place
}

fn grow(place: &Workplace) {
    let (near, far) = (graph::name(0, 0), graph::name(1, 7));
    let [one, two] = NEW;
    place.write(
        "more.tsv",
        format!("{one}\tpasses\t{near}\n{far}\tnear\t{two}\n{near}\tnext\t{far}\n"),
    );
    place.run(["import", "--edges", "more=more.tsv"]).succeeds();
}

fn train() -> [&'static str; 5] {
    ["train", "--progress", "json", "--set", EPOCHS]
}

fn of_kind(events: &str, kind: &str) -> Vec<Value> {
    let events = events
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| event["event"] == kind).collect()
}

/// Returns exported embeddings by name, as text.
fn exported(place: &Workplace, checkpoint: &str) -> BTreeMap<String, String> {
    let export = ["export", "--format", "tsv", "--out", "out", "--overwrite"];
    let which = ["--checkpoint", checkpoint];
    place.run(export.iter().chain(&which)).succeeds();
    let lines = place.read("out/entities_place.tsv");
    let rows = lines.lines().map(|line| line.split_once('\t').unwrap());
    rows.map(|(name, row)| (name.to_owned(), row.to_owned()))
        .collect()
}

#[test]
fn an_old_checkpoint_answers_for_what_it_knows() {
    for config in [CONFIG.to_owned(), static_relations()] {
        let place = Workplace::with_dataset(&config);
        place.run(train()).succeeds();
        let before = exported(&place, "model");
        let eval = ["eval", "--json", "--filter", "train,test"];
        let ranks = place.run(eval).succeeds().stdout;
        let asked = graph::name(0, 3);
        let near = ["neighbors", "pbg.toml", &asked];
        let nearest = place.run(near).succeeds().stdout;
        let ask = [
            "predict",
            "--head",
            &asked,
            "--relation",
            "next",
            "-k",
            "99",
        ];
        let predicted = place.run(ask).succeeds().stdout;
        grow(&place);

        let note = "2 rows of place and 1 relation";
        assert_eq!(exported(&place, "model"), before);
        let again = place.run(eval).succeeds();
        assert!(again.stderr.contains(note), "{}", again.stderr);
        let mut parsed: Value = serde_json::from_str(&again.stdout).unwrap();
        let mut first: Value = serde_json::from_str(&ranks).unwrap();
        assert_eq!(parsed["missing"]["rows"]["place"], 2);
        assert_eq!(parsed["missing"]["relations"], 1);
        for report in [&mut parsed, &mut first] {
            report["seconds"] = 0.into();
            report["missing"] = Value::Null;
        }
        assert_eq!(parsed, first);
        let again = place.run(near).succeeds();
        assert_eq!(again.stdout, nearest);
        assert!(again.stderr.contains(note), "{}", again.stderr);
        let again = place.run(ask).succeeds();
        assert_eq!(again.stdout, predicted);
        assert!(again.stderr.contains(note), "{}", again.stderr);
        let ask = ["predict", "--head", NEW[0], "--relation", "next"];
        place
            .run(ask)
            .fails(4, &[NEW[0], "no embedding in model yet"]);
        let ask = ["predict", "--head", &asked, "--relation", "passes"];
        place.run(ask).fails(4, &["passes", "no parameters"]);

        // One of the new edges has only entities and relations that were there before.
        let more = ["eval", "--json", "--edges", "more", "--filter", "more"];
        let more = place.run(more).succeeds();
        let report: Value = serde_json::from_str(&more.stdout).unwrap();
        assert_eq!(report["raw_lhs"]["count"], 1);
        assert_eq!(report["without_embedding"], 2);
        assert!(more.stderr.contains("2 edges"), "{}", more.stderr);
        // A limit counts only edges that can be ranked.
        for (limit, count) in [("1", 1), ("2", 1)] {
            let some = ["eval", "--json", "--edges", "more", "--limit", limit];
            let report: Value = serde_json::from_str(&place.run(some).succeeds().stdout).unwrap();
            assert_eq!(report["raw_lhs"]["count"], count, "of {limit}");
        }
        place
            .run(["neighbors", "pbg.toml", NEW[0]])
            .fails(4, &[NEW[0], "no embedding in model yet"]);
        let triple = |line: String| {
            let input = place.write("triples.tsv", line);
            finish(
                place
                    .command(["score"])
                    .stdin(fs::File::open(input).unwrap()),
            )
        };
        let (here, there) = (graph::name(0, 1), graph::name(0, 2));
        triple(format!("{here}\tnext\t{there}\n")).succeeds();
        triple(format!("{here}\tpasses\t{there}\n")).fails(4, &["passes", "no parameters"]);
    }
}

#[test]
fn training_draws_what_is_new_and_goes_on() {
    for config in [CONFIG.to_owned(), static_relations()] {
        let place = grown(&config);
        let before = exported(&place, "model");
        let check = place.run(["check", "--set", EPOCHS]).succeeds();
        let note = "2 rows of place and 1 relation";
        assert!(check.stderr.contains(note), "{}", check.stderr);

        // No epochs are left to train: new rows are initialized and saved all the same.
        let events = place.run(train()).succeeds().stdout;
        let event = &of_kind(&events, "grown")[0];
        assert_eq!(event["rows"]["place"], 2);
        assert_eq!(event["relations"], 1);
        assert!(place.read("model/metrics.jsonl").contains(r#""grown""#));
        let after = exported(&place, "model");
        for (name, row) in &before {
            assert_eq!(&after[name], row, "{name}");
        }
        assert_eq!(after.len(), before.len() + 2);
        assert_ne!(after[NEW[0]], after[NEW[1]]);

        // The same seed and the same name give the same row.
        let other = grown(&config);
        other.run(train()).succeeds();
        assert_eq!(exported(&other, "model"), after);

        // The event is written once, and new relations are trained like all others.
        let again = place.run(train()).succeeds().stdout;
        assert!(of_kind(&again, "grown").is_empty());
        let more = "train --progress json --allow-data-change --set num_epochs=3 --set edge_sets=train,more";
        let events = place.run(more.split(' ')).succeeds().stdout;
        let edges = place.read("train.tsv").lines().count() + 3;
        assert_eq!(
            of_kind(&events, "epoch_finished")[0]["stats"]["count"],
            edges
        );
        assert_ne!(exported(&place, "model")[NEW[0]], after[NEW[0]]);
        place.run(["neighbors", "pbg.toml", NEW[0]]).succeeds();
    }
}

#[test]
fn a_run_may_start_from_a_smaller_graph() {
    let place = grown(CONFIG);
    let start = "train --progress json --set num_epochs=0 --set checkpoint_path=second --set init_path=model";
    let events = place.run(start.split(' ')).succeeds().stdout;
    let [told] = &of_kind(&events, "grown")[..] else {
        panic!("{events}");
    };
    assert_eq!(told["rows"]["place"], 2);
    let (before, after) = (exported(&place, "model"), exported(&place, "second"));
    for (name, row) in &before {
        assert_eq!(&after[name], row, "{name}");
    }
    assert_eq!(after.len(), before.len() + 2);
    // The checkpoint that it started from is no longer needed.
    fs::remove_dir_all(place.path("model")).unwrap();
    let on = start.replace("num_epochs=0", "num_epochs=1");
    let events = place.run(on.split(' ')).succeeds().stdout;
    assert!(of_kind(&events, "grown").is_empty());
}

#[test]
fn a_relation_of_its_own_may_come_with_the_data() {
    let place = grown(&static_relations());
    let more = static_relations()
        + "[[relations]]\nname = \"passes\"\nlhs = \"place\"\nrhs = \"place\"\noperator = \"diagonal\"\n";
    place.write("pbg.toml", &more);
    place.run(["eval", "--json"]).succeeds();
    place.run(train()).succeeds();
    // A relation that was trained already keeps its operator.
    place.write("pbg.toml", more.replace("passes", "near"));
    place
        .run(train())
        .fails(CHECKPOINT, &["model", "relations"]);
}

/// At any size of a graph, names on the disk give the same files as names in memory.
#[test]
fn names_on_the_disk_leave_no_trace() {
    let made = |names: &str| {
        let place = Workplace::with_edges(CONFIG);
        let import = format!("import --edges train=train.tsv --edges test=test.tsv{names}");
        place.run(import.split(' ')).succeeds();
        grow(&place);
        place.run(import.split(' ')).succeeds();
        files(&place.path("data"))
    };
    assert!(made("") == made(" --names-on-disk"));
}
