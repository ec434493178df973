//! Maps of entities, and the part of a report that shows what its model knows.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::{CONFIG, name};

/// Trains on the two rings until their embeddings are apart.
fn trained() -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    let longer = ["train", "--progress", "none", "--set", "num_epochs=20"];
    place.run(longer).succeeds();
    place
}

fn groups(spots: &Value) -> BTreeMap<String, usize> {
    let mut groups = BTreeMap::new();
    for spot in spots.as_array().unwrap() {
        *groups
            .entry(spot["group"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    groups
}

#[test]
fn a_map_has_the_entities_that_are_named_or_those_with_most_edges() {
    let place = trained();
    let map = |options: &[&str]| {
        let said = place.run([&["map"], options].concat()).succeeds().stdout;
        (serde_json::from_str::<Value>(&said).unwrap(), said)
    };
    let (all, said) = map(&["--json"]);
    assert_eq!(all.as_array().unwrap().len(), 80);
    assert!(
        groups(&all)
            .keys()
            .all(|group| group.starts_with("around "))
    );
    assert_eq!(said, map(&["--json"]).1, "the same every time");
    let some = map(&["--count", "12", "--json"]).0;
    assert_eq!(some.as_array().unwrap().len(), 12);

    let line = |ring, index| format!("{}\tring {ring}\n", name(ring, index));
    let lines = (0..2).flat_map(|ring| (0..20).map(move |index| line(ring, index)));
    // Empty lines, and a name that occurs twice.
    let names = format!("{}\n{}", lines.collect::<String>(), line(1, 3));
    place.write("names.tsv", names);
    let options = [
        "--names",
        "names.tsv",
        "--csv",
        "map.csv",
        "--html",
        "map.html",
    ];
    place.run([&["map"], &options[..]].concat()).succeeds();
    let csv = place.read("map.csv");
    assert_eq!(csv.lines().next(), Some("name,group,x,y"));
    let rows: BTreeSet<&str> = csv
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(1))
        .collect();
    assert_eq!(
        (csv.lines().count(), rows),
        (41, BTreeSet::from(["ring 0", "ring 1"]))
    );
    assert!(place.read("map.html").contains(&name(1, 3)));
}

#[test]
fn what_cannot_be_on_a_map_is_said_with_its_place() {
    let place = trained();
    place.write("names.tsv", format!("{}\n\nsüden 333\tx\n", name(0, 0)));
    place
        .run(["map", "--names", "names.tsv"])
        .fails(4, &["names.tsv, line 3"]);
    place.write("names.tsv", name(0, 0));
    place
        .run(["map", "--names", "names.tsv"])
        .fails(2, &["needs at least 2 entities"]);
    place
        .run(["map", "--entity-type", "plaice"])
        .fails(4, &["`place`"]);
}

#[test]
fn a_report_has_what_the_model_was_asked() {
    let place = trained();
    let held_out = place.read("test.tsv");
    let questions: String = held_out
        .lines()
        .map(|edge| format!("{}\t?\n", edge.rsplit_once('\t').unwrap().0))
        .collect();
    place.write("questions.tsv", questions);
    let ask = [
        "--neighbors",
        "süden 3",
        "--questions",
        "questions.tsv",
        "--filter",
        "train",
    ];
    place
        .run([&["report", "--html", "run.html"], &ask[..]].concat())
        .succeeds();
    let page = place.read("run.html");
    assert!(page.contains("<h3>süden 3</h3>"));
    assert!(page.contains(", ?)</h3>"));
    // An answer is marked if it is an edge of the set that is not left out.
    let edges: BTreeSet<&str> = held_out.lines().collect();
    let asked = ["predict", "-k", "5", "--json"];
    let answers = place
        .run([&asked[..], &ask[2..]].concat())
        .succeeds()
        .stdout;
    let hold = answers.lines().flat_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let [head, relation] = ["head", "relation"].map(|key| line[key].as_str().unwrap());
        let names = line["answers"].as_array().unwrap().iter();
        let edge =
            |answer: &Value| format!("{head}\t{relation}\t{}", answer["name"].as_str().unwrap());
        let all: Vec<bool> = names
            .map(|answer| edges.contains(edge(answer).as_str()))
            .collect();
        all
    });
    let hold = hold.filter(|holds| *holds).count();
    assert!(hold > 0);
    assert_eq!(page.matches("class=\"holds\"").count(), hold);
    place
        .run([&["report"], &ask[..]].concat())
        .fails(2, &["--html"]);
}
