//! `eval --candidates FILE`: ranks among listed candidates, compared with the scores of predictions.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::{CONFIG, RING, name};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// Returns the scores of all entities on the open side of a question.
fn scores(place: &Workplace, question: &str) -> HashMap<String, f32> {
    place.write("question.tsv", question);
    let command = [
        "predict",
        "--questions",
        "question.tsv",
        "--unfiltered",
        "--json",
        "-k",
        "1000",
    ];
    let found = place.run(command).succeeds();
    let answer: Value = serde_json::from_str(&found.stdout).unwrap();
    let answers = answer["answers"].as_array().unwrap().iter();
    let pair = |answer: &Value| {
        let score: f32 = serde_json::from_value(answer["score"].clone()).unwrap();
        (answer["name"].as_str().unwrap().to_owned(), score)
    };
    answers.map(pair).collect()
}

/// Mean reciprocal rank, and the fractions of ranks up to 1, 3 and 10, as OGB's evaluator computes them: reciprocals in
/// single precision of half of the sum of the optimistic and the pessimistic rank.
fn ogb(ranked: &[(f32, Vec<f32>)]) -> [f64; 4] {
    let ranks: Vec<f64> = ranked
        .iter()
        .map(|(positive, negatives)| {
            let optimistic = negatives.iter().filter(|n| *n > positive).count() as f64;
            let pessimistic = negatives.iter().filter(|n| *n >= positive).count() as f64;
            0.5 * (optimistic + pessimistic) + 1.0
        })
        .collect();
    let count = ranks.len() as f64;
    let hits = |most: f64| ranks.iter().filter(|rank| **rank <= most).count() as f64 / count;
    let reciprocals = ranks.iter().map(|&rank| f64::from(1.0 / rank as f32));
    [
        reciprocals.sum::<f64>() / count,
        hits(1.0),
        hits(3.0),
        hits(10.0),
    ]
}

fn eval(place: &Workplace, options: &[&str]) -> Value {
    let command = ["eval", "--json", "--candidates", "candidates.tsv"];
    let found = place.run(command.iter().chain(options)).succeeds();
    serde_json::from_str(&found.stdout).unwrap()
}

/// Compares a report with the figures of OGB's evaluator.
fn same(report: &Value, expected: [f64; 4]) {
    for (key, expected) in ["mrr", "hits_at_1", "hits_at_3", "hits_at_10"]
        .iter()
        .zip(expected)
    {
        let found = report[key].as_f64().unwrap();
        assert!(
            (found - expected).abs() < 1e-6,
            "{key}: {found}, not {expected}"
        );
    }
}

#[test]
fn ranks_are_those_of_ogbs_evaluator() {
    let other = CONFIG
        .replace("\"translation\"", "\"diagonal\"")
        .replace("\"dot\"", "\"l2\"");
    for config in [CONFIG, &other] {
        let place = Workplace::with_dataset(config);
        place.run(TRAIN).succeeds();
        let test = place.read("test.tsv");
        let mut ranked = [Vec::new(), Vec::new()];
        let mut text = String::new();
        for (at, line) in test.lines().take(12).enumerate() {
            let [head, relation, tail] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            // The lists have different lengths, a candidate twice, and sometimes the true entity.
            let step = 1 + at % 4;
            let mut listed: Vec<String> =
                (0..RING).step_by(step).map(|i| name(at % 2, i)).collect();
            listed.push(name(1, at));
            listed.push(name(1, at));
            if at % 3 == 0 {
                listed.extend([head.to_owned(), tail.to_owned()]);
            }
            let sides = [
                ("head", head, format!("?\t{relation}\t{tail}\n")),
                ("tail", tail, format!("{head}\t{relation}\t?\n")),
            ];
            for (ranked, (side, positive, question)) in ranked.iter_mut().zip(sides) {
                let scores = scores(&place, &question);
                let negatives = listed.iter().map(|name| scores[name]).collect();
                ranked.push((scores[positive], negatives));
                writeln!(text, "{line}\t{side}\t{}", listed.join("\t")).unwrap();
            }
        }
        place.write("candidates.tsv", text);
        let report = eval(&place, &[]);
        let [heads, tails] = &ranked;
        same(&report["raw_lhs"], ogb(heads));
        same(&report["raw_rhs"], ogb(tails));
        same(&report["raw"], ogb(&ranked.concat()));
        let listed: usize = ranked
            .concat()
            .iter()
            .map(|(_, negatives)| negatives.len())
            .sum();
        assert_eq!(report["candidates"], listed);
        // The number of threads changes nothing.
        assert_eq!(eval(&place, &["--threads", "1"])["raw"], report["raw"]);
    }
}

#[test]
fn files_of_candidates_have_their_form() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    let run = |options: &[&str]| {
        let command = ["eval", "--candidates", "candidates.tsv"];
        place.run(command.iter().chain(options))
    };
    let edge = format!("{}\tnext\t{}", name(0, 1), name(0, 2));
    let good = format!("{edge}\ttail\t{}\n", name(0, 3));
    for (line, words) in [
        (format!("{edge}\n"), ["line 2", "3 columns"]),
        (format!("{edge}\ttail\n"), ["line 2", "no candidates"]),
        (
            format!("{edge}\tleft\t{}\n", name(0, 3)),
            ["line 2", "`left`"],
        ),
        (
            format!("{edge}\ttail\tnowhere\n"),
            ["line 2", "no entity `nowhere`"],
        ),
        (
            edge.replace("next", "over") + "\ttail\tnowhere\n",
            ["line 2", "`over`"],
        ),
    ] {
        place.write("candidates.tsv", format!("{good}{line}"));
        run(&[]).fails(4, &words);
    }
    place.write("candidates.tsv", &good);
    assert!(
        run(&[])
            .succeeds()
            .stdout
            .contains("1 side ranked among 1.0 listed candidates")
    );
    run(&["--check"]).succeeds();
    for option in [
        &["--filter", "train"][..],
        &["--edges", "test"],
        &["--seen"],
        &["--limit", "3"],
    ] {
        run(option).fails(2, &[option[0], "file of candidates"]);
    }
    place.write("candidates.tsv", "\n");
    run(&[]).fails(4, &["has no lines"]);
    place
        .run(["eval", "--candidates", "missing.tsv"])
        .fails(4, &["missing.tsv"]);
}
