//! Questions for relations, `(head, ?, tail)`, compared with the scores of single edges.

use std::fs::File;

use serde_json::Value;

use crate::support::graph::{CONFIG, name};
use crate::support::{Workplace, finish, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// A graph with two entity types, in which a person and a place have the same name.
const TYPES: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
num_epochs = 1
workers = 1
seed = 3

[entities.person]
num_partitions = 2

[entities.place]
num_partitions = 1

[[relations]]
name = "knows"
lhs = "person"
rhs = "person"
operator = "translation"

[[relations]]
name = "lives in"
lhs = "person"
rhs = "place"
operator = "diagonal"

[[relations]]
name = "was born in"
lhs = "person"
rhs = "place"
operator = "diagonal"
"#;

/// Returns the lines of JSON that `predict` prints.
fn predict(place: &Workplace, options: &[&str]) -> Vec<Value> {
    let found = place
        .run(["predict", "--json"].iter().chain(options))
        .succeeds();
    let lines = found.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns names and scores of an answer.
fn answers(line: &Value) -> Vec<(String, f32)> {
    let all = line["answers"].as_array().unwrap().iter();
    let pair = |answer: &Value| {
        let score: f32 = serde_json::from_value(answer["score"].clone()).unwrap();
        (answer["name"].as_str().unwrap().to_owned(), score)
    };
    all.map(pair).collect()
}

/// Returns the scores of the edges between two entities, by `score`, best first.
fn scored(place: &Workplace, head: &str, relations: &[&str], tail: &str) -> Vec<(String, f32)> {
    let edges = relations.iter().map(|r| format!("{head}\t{r}\t{tail}\n"));
    let edges = place.write("edges.tsv", edges.collect::<String>());
    let mut command = place.command(["score"]);
    let found = finish(command.stdin(File::open(edges).unwrap())).succeeds();
    let scores = found.stdout.lines().map(|line| line.parse().unwrap());
    let named = relations.iter().map(|&name| name.to_owned());
    let mut all: Vec<(String, f32)> = named.zip(scores).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

#[test]
fn relations_have_the_scores_of_their_edges() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(with(&TRAIN, &["relation_prediction=1.0"]))
        .succeeds();
    let all = ["next", "next but one", "near", "opposite"];
    let (head, tail, far) = (name(0, 4), name(0, 5), name(1, 17));
    let text = format!(
        "{head}\t?\t{tail}\n{head}\tnext\t?\n{{\"head\": \"{head}\", \"tail\": \"{far}\"}}\n"
    );
    place.write("questions.tsv", text);
    for options in [&["--unfiltered"][..], &[]] {
        let asked = [&["--questions", "questions.tsv"], options].concat();
        let found = predict(&place, &asked);
        assert_eq!(found.len(), 3);
        assert!(found[0]["relation"].is_null() && found[1]["tail"].is_null());
        for (line, tail) in [(&found[0], &tail), (&found[2], &far)] {
            let mut expected = scored(&place, &head, &all, tail);
            // The graph has the edge (head, next, tail) and no other between these entities.
            let known = options.is_empty() && *tail == name(0, 5);
            expected.retain(|(relation, _)| !(known && relation == "next"));
            assert_eq!(answers(line), expected);
            assert_eq!(line["left_out"], u64::from(known));
        }
    }
    // One question from options, in few answers, as text.
    let best = &scored(&place, &head, &all, &far)[0];
    let command = ["predict", "--head", &head, "--tail", &far, "-k", "1"];
    let found = place.run(command).succeeds().stdout;
    let expected = format!("({head}, ?, {far})\n  1  {:.4}  {}\n", best.1, best.0);
    assert_eq!(found, expected);
    // Rows of an index answer as tables do.
    let exact = predict(&place, &["--questions", "questions.tsv"]);
    place.run(["index"]).succeeds();
    let by_index = predict(&place, &["--questions", "questions.tsv", "--index"]);
    assert_eq!(answers(&exact[0]), answers(&by_index[0]));
}

/// Heads are transformed by each relation, so none of them is prepared for another one.
#[test]
fn relations_of_both_sides_have_the_scores_of_their_edges() {
    let place = Workplace::empty();
    let text = TYPES.replace("\"diagonal\"", "\"householder\"");
    place.write(
        "pbg.toml",
        format!("{text}\n[plugins.params.householder]\nprojections = 2\n"),
    );
    let edges =
        "ann\tknows\tbob\nann\tlives in\tparis\nbob\tlives in\trome\nbob\twas born in\tparis\n";
    place.write("train.tsv", edges);
    place
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    place.run(with(&TRAIN, &["num_epochs=20"])).succeeds();
    let homes = ["lives in", "was born in"];
    for head in ["ann", "bob"] {
        let options = ["--head", head, "--tail", "rome", "--unfiltered"];
        let found = answers(&predict(&place, &options)[0]);
        assert_eq!(found, scored(&place, head, &homes, "rome"));
        // The same score, whichever side is replaced.
        for (relation, score) in &found {
            for known in [["--head", head], ["--tail", "rome"]] {
                let options = [&known[..], &["--relation", relation, "--unfiltered"]].concat();
                let found = answers(&predict(&place, &options)[0]);
                let other = if known[0] == "--head" { "rome" } else { head };
                let (_, again) = found.iter().find(|(name, _)| name == other).unwrap();
                assert!((again - score).abs() < 1e-5, "{again}, not {score}");
            }
        }
    }
}

#[test]
fn relations_fit_the_types_of_both_names() {
    let place = Workplace::empty();
    place.write("pbg.toml", TYPES);
    let edges = "ann\tknows\tbob\nbob\tknows\tparis\nann\tlives in\tparis\nbob\tlives in\trome\nparis\twas born in\trome\n";
    place.write("train.tsv", edges);
    place
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    place.run(TRAIN).succeeds();
    let asked = |head: &str, tail: &str| {
        let options = ["--head", head, "--tail", tail, "--unfiltered"];
        answers(&predict(&place, &options)[0])
    };
    let homes = ["lives in", "was born in"];
    assert_eq!(asked("ann", "rome"), scored(&place, "ann", &homes, "rome"));
    assert_eq!(
        asked("ann", "bob"),
        scored(&place, "ann", &["knows"], "bob")
    );
    // Paris is a person and a place.
    let both = ["knows", "lives in", "was born in"];
    assert_eq!(asked("ann", "paris"), scored(&place, "ann", &both, "paris"));
    // Rome is only a place, and no relation begins at a place.
    let wrong = ["predict", "--head", "rome", "--tail", "paris"];
    place.run(wrong).fails(4, &["rome"]);
    place.write("questions.tsv", "ann\t?\tbob\nann\t?\tberlin\n");
    let wrong = ["predict", "--questions", "questions.tsv"];
    place
        .run(wrong)
        .fails(4, &["questions.tsv, line 2", "berlin"]);
    let wrong = ["predict", "--head", "ann"];
    place.run(wrong).fails(2, &["--head NAME --tail NAME"]);
}
