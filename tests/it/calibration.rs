//! `calibrate`: probabilities of scores, and what they refer to.

use std::fs::File;

use serde_json::Value;

use crate::support::graph::{CONFIG, name};
use crate::support::{Workplace, finish, with};

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

fn trained() -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.run(with(&TRAIN, &["num_epochs=10"])).succeeds();
    place
}

fn calibrate(place: &Workplace, options: &[&str]) -> Value {
    let command = ["calibrate", "--edges", "test", "--json"];
    let made = place.run(command.iter().chain(options)).succeeds();
    serde_json::from_str(&made.stdout).unwrap()
}

/// Returns the probability on a stored curve, linear between its points.
fn on_curve(curve: &Value, score: f64) -> f64 {
    let column = |key: &str| -> Vec<f64> {
        let all = curve[key].as_array().unwrap().iter();
        all.map(|value| value.as_f64().unwrap()).collect()
    };
    let (scores, probabilities) = (column("scores"), column("probabilities"));
    let after = scores.iter().filter(|point| **point <= score).count();
    match after {
        0 => probabilities[0],
        n if n == scores.len() => probabilities[n - 1],
        n => {
            let share = (score - scores[n - 1]) / (scores[n] - scores[n - 1]);
            probabilities[n - 1] + share * (probabilities[n] - probabilities[n - 1])
        }
    }
}

#[test]
fn probabilities_are_those_of_the_stored_curves() {
    let place = trained();
    let made = calibrate(&place, &[]);
    assert_eq!(
        calibrate(&place, &[]),
        made,
        "the same seed gives the same curves"
    );
    let count = |key: &str| made[key].as_u64().unwrap();
    let edges = place.read("test.tsv").lines().count() as u64;
    assert_eq!(count("positives"), edges);
    // Random edges that the graph has are no negatives.
    assert!((edges / 2..=edges).contains(&count("negatives")), "{made}");
    let tested: u64 = made["reliability"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bin| bin["count"].as_u64().unwrap())
        .sum();
    assert_eq!(tested, 2 * (edges + count("negatives")));
    // Better than the share of edges as the probability of every sample.
    let share = edges as f64 / (edges + count("negatives")) as f64;
    assert!(
        made["brier"].as_f64().unwrap() < share * (1.0 - share),
        "{made}"
    );

    let asked = File::open(place.path("test.tsv")).unwrap();
    let mut command = place.command(["score", "--probability"]);
    let scored = finish(command.stdin(asked)).succeeds();
    assert!(
        scored.stderr.contains("1 drawn per edge"),
        "{}",
        scored.stderr
    );
    let mut sum = 0.0;
    for line in scored.stdout.lines() {
        let (score, probability) = line.split_once('\t').unwrap();
        let expected = on_curve(&made["head"], score.parse().unwrap());
        sum += expected;
        assert_eq!(probability, format!("{expected:.4}"));
    }
    assert!(
        sum / edges as f64 > share,
        "edges are likelier than samples"
    );

    let questions = format!(
        "{0}\tnext\t?\n?\tnext\t{0}\n{0}\t?\t{1}\n",
        name(0, 3),
        name(1, 3)
    );
    place.write("questions.tsv", questions);
    let command = [
        "predict",
        "--questions",
        "questions.tsv",
        "--probability",
        "--json",
    ];
    let found = place.run(command).succeeds().stdout;
    for (line, curve) in found.lines().zip(["tail", "head", "head"]) {
        let line: Value = serde_json::from_str(line).unwrap();
        for answer in line["answers"].as_array().unwrap() {
            let score: f32 = serde_json::from_value(answer["score"].clone()).unwrap();
            let expected = on_curve(&made[curve], f64::from(score));
            assert!((answer["probability"].as_f64().unwrap() - expected).abs() < 1e-6);
        }
    }
    // More negatives per edge make the same edges less likely.
    let more = calibrate(&place, &["--negatives", "9"]);
    let middle = made["head"]["scores"].as_array().unwrap();
    let middle = middle[middle.len() / 2].as_f64().unwrap();
    assert!(on_curve(&more["head"], middle) < on_curve(&made["head"], middle));
}

#[test]
fn a_calibration_belongs_to_its_version() {
    let place = trained();
    let score = ["score", "--probability"];
    place.run(score).fails(
        5,
        &["calibration.json", "there is none", "pbg-host calibrate"],
    );
    let text = place.run(["calibrate", "--edges", "test"]).succeeds();
    assert!(
        text.stdout.contains("mixture of") && text.stdout.contains("Brier"),
        "{}",
        text.stdout
    );
    place.run(score).succeeds();
    place
        .run(["report", "model", "--html", "run.html"])
        .succeeds();
    assert!(
        place
            .read("run.html")
            .contains("Reliability of calibrated probabilities")
    );
    let warned = place.run(["calibrate", "--edges", "train"]).succeeds();
    assert!(warned.stderr.contains("is trained"), "{}", warned.stderr);
    place.run(["calibrate"]).fails(4, &["valid"]);
    let table = [
        "predict",
        "--head",
        &name(0, 1),
        "--relation",
        "next",
        "--probability",
        "--out",
        "a.parquet",
    ];
    place.run(table).fails(2, &[".jsonl"]);
    place.run(with(&TRAIN, &["num_epochs=11"])).succeeds();
    place.run(score).fails(5, &["belongs to version"]);
    place.write("model/calibration.json", "{}");
    place.run(score).fails(5, &["calibration.json"]);
}
