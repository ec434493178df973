//! The steps of a newcomer: import, check, train, evaluate, look around, export.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use pbg_core::event::Event;
use serde_json::Value;

use crate::support::graph::{self, CONFIG, RING};
use crate::support::{Finished, Workplace};

/// Trains enough epochs to learn the graph, in one partition for speed.
fn trained() -> Workplace {
    let config = CONFIG.replace("num_partitions = 3", "num_partitions = 1");
    let place = Workplace::with_dataset(&config.replace("num_epochs = 2", "num_epochs = 60"));
    place.run(["train", "--progress", "none"]).succeeds();
    place
}

#[test]
fn import_reports_what_it_made() {
    let place = Workplace::with_edges(CONFIG);
    let report = place.import().succeeds();
    for fact in [
        "edge set train: 324 edges",
        "edge set test: 36 edges",
        "place: 80 entities",
        "relations: 4",
    ] {
        assert!(report.stdout.contains(fact), "{fact}:\n{}", report.stdout);
    }
}

#[test]
fn import_again_keeps_the_ids() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(["train", "--progress", "none"]).succeeds();
    place.write("more.tsv", "north pole 1\tnext\tsomewhere else\n");
    let report = place.run(["import", "--edges", "more=more.tsv"]).succeeds();
    assert!(
        report.stdout.contains("1 new") && report.stdout.contains("train: kept"),
        "{}",
        report.stdout
    );
}

#[test]
fn check_tells_memory_and_disk_and_starts_nothing() {
    let place = Workplace::with_dataset(CONFIG);
    let report = place.run(["check"]).succeeds().stdout;
    for word in ["memory", "disk", "inside_out", "loads"] {
        assert!(report.contains(word), "{word}:\n{report}");
    }
    assert!(!place.path("model").exists());
    let json = place.run(["check", "--json"]).succeeds().stdout;
    assert!(
        serde_json::from_str::<serde_json::Value>(&json)
            .unwrap()
            .is_object()
    );
}

#[test]
fn check_prints_how_the_work_is_spread_and_cut() {
    let place = Workplace::with_dataset(CONFIG);
    let report = place.run(["check"]).succeeds().stdout;
    for part in [
        "storage on disk",
        "load, write back, commit",
        "pipe to training",
        "partitions, either way: at most 1",
        "edges on disk",
        "edges of buckets: at most 1",
        "gather, score, loss, differentiate, scatter, update",
        "slice of a worker",
    ] {
        assert!(report.contains(part), "{part}:\n{report}");
    }
    let alone = place
        .run(["check", "--set", "execution.prefetch=false"])
        .succeeds()
        .stdout;
    assert!(alone.contains("training on disk and"), "{alone}");
    assert!(!alone.contains("pipe to"), "{alone}");
    let slices = |batch: &str| {
        let batch = format!("batch_size={batch}");
        let json = place.run(["check", "--json", "--set", &batch]).succeeds();
        let report: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
        report["slices"].clone()
    };
    let (small, large) = (slices("100000"), slices("1000000"));
    assert!(small["clusters"][0]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(small["clusters"], large["clusters"]);
    assert_eq!(small["edges"], large["edges"]);
    assert!(small["slices_per_batch"].as_u64() < large["slices_per_batch"].as_u64());
}

#[test]
fn training_tells_what_it_does() {
    let place = Workplace::with_dataset(CONFIG);
    let run = place.run(["train"]).succeeds();
    assert_eq!(run.stdout, "");
    for word in [
        "inside_out 0.1.0",
        "partition loads",
        "memory",
        "epoch 2/2",
        "loss",
    ] {
        assert!(run.stderr.contains(word), "{word}:\n{}", run.stderr);
    }
    let metrics = place.read("model/metrics.jsonl");
    let events = metrics
        .lines()
        .map(|line| serde_json::from_str::<Event>(line).unwrap());
    assert_eq!(
        events
            .filter(|e| matches!(e, Event::BucketFinished { .. }))
            .count(),
        2 * 9
    );
}

#[test]
fn progress_as_json_lines() {
    let place = Workplace::with_dataset(CONFIG);
    let run = place.run(["train", "--progress", "json"]).succeeds();
    let events: Vec<Event> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        matches!(
            events[0],
            Event::RunStarted {
                epochs: 2,
                buckets: 9,
                ..
            }
        ),
        "{:?}",
        events[0]
    );
    assert!(matches!(events.last(), Some(Event::RunFinished { .. })));
    assert_eq!(
        events
            .iter()
            .filter(|e| matches!(e, Event::EpochFinished { .. }))
            .count(),
        2
    );
}

#[test]
fn progress_none_is_silent() {
    let place = Workplace::with_dataset(CONFIG);
    let run = place.run(["train", "--progress", "none"]).succeeds();
    assert_eq!((run.stdout.as_str(), run.stderr.as_str()), ("", ""));
}

#[test]
fn training_learns_what_evaluation_measures() {
    let place = trained();
    let args = [
        "eval",
        "pbg.toml",
        "--edges",
        "test",
        "--filter",
        "train,test",
    ];
    let report = place.run(args.iter().chain(&["--json"])).succeeds().stdout;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let mrr = report["filtered"]["mrr"].as_f64().unwrap();
    let raw = report["raw"]["mrr"].as_f64().unwrap();
    let mean_rank = report["filtered"]["mean_rank"].as_f64().unwrap();
    // Random guesses among 80 places have a mean rank of 40; the ranked edges were never trained.
    assert!(mean_rank < 20.0 && mrr >= raw, "{report:#}");
    assert_eq!(report["raw_lhs"]["count"], 36);

    let table = place.run(args).succeeds().stdout;
    for head in ["MRR", "Hits@1", "Hits@50", "mean rank", "AUC", "filtered"] {
        assert!(table.contains(head), "{head}:\n{table}");
    }
    let sampled = place.run(["eval", "--candidates", "20"]).succeeds();
    assert!(sampled.stdout.contains("20"), "{}", sampled.stdout);
    place
        .run(["eval", "--candidates", "none"])
        .fails(2, &["all"]);
}

#[test]
fn neighbors_are_near() {
    let place = trained();
    let name = graph::name(0, 5);
    let found = place
        .run(["neighbors", "pbg.toml", &name, "-k", "12"])
        .succeeds()
        .stdout;
    let rows: Vec<(f32, &str)> = found
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(score, name)| (score.parse().unwrap(), name))
        .collect();
    assert_eq!(rows.len(), 12);
    assert!(rows.is_sorted_by(|a, b| a.0 >= b.0), "{rows:?}");
    assert!(rows.iter().all(|(_, other)| *other != name));
    let json = place
        .run(["neighbors", "pbg.toml", &name, "--json"])
        .succeeds()
        .stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 10);
}

/// The scores are cosines of the exported embeddings, although the model uses inner products.
#[test]
fn neighbors_may_be_compared_in_another_way() {
    let place = trained();
    place
        .run("export --format tsv --out out".split(' '))
        .succeeds();
    let text = place.read("out/entities_place.tsv");
    let row = |line: &str| -> (String, Vec<f64>) {
        let (name, numbers) = line.split_once('\t').unwrap();
        let numbers = numbers.split('\t').map(|n| n.parse().unwrap());
        (name.to_owned(), numbers.collect())
    };
    let rows: Vec<_> = text.lines().map(row).collect();
    let name = graph::name(0, 5);
    let (_, asked) = rows.iter().find(|(other, _)| *other == name).unwrap();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cos = |b: &[f64]| dot(asked, b) / (dot(asked, asked) * dot(b, b)).sqrt();
    let near = [
        "neighbors",
        "pbg.toml",
        &name,
        "--comparator",
        "cos",
        "--json",
    ];
    let near: Value = serde_json::from_str(&place.run(near).succeeds().stdout).unwrap();
    let near = near.as_array().unwrap();
    let mut all: Vec<f64> = rows
        .iter()
        .filter(|(n, _)| *n != name)
        .map(|(_, r)| cos(r))
        .collect();
    all.sort_by(|a, b| b.total_cmp(a));
    for (entry, best) in near.iter().zip(all) {
        let (_, row) = rows
            .iter()
            .find(|(n, _)| entry["name"] == n.as_str())
            .unwrap();
        let score = entry["score"].as_f64().unwrap();
        assert!(
            (score - best).abs() < 1e-5 && (cos(row) - best).abs() < 1e-5,
            "{entry}"
        );
    }
}

fn score(place: &Workplace, triples: &str) -> Finished {
    fs::write(place.path("triples.tsv"), triples).unwrap();
    let file = fs::File::open(place.path("triples.tsv")).unwrap();
    crate::support::finish(
        place
            .command(["score", "pbg.toml"])
            .stdin(Stdio::from(file)),
    )
}

#[test]
fn scores_tell_edges_from_others() {
    let place = trained();
    let (train, _) = graph::tsv();
    let scores = |triples: &str| -> Vec<f32> {
        let out = score(&place, triples).succeeds().stdout;
        out.lines().map(|line| line.parse().unwrap()).collect()
    };
    let real = scores(&train);
    assert_eq!(real.len(), train.lines().count());
    let mut wrong = String::new();
    for index in 0..RING {
        let (lhs, rhs) = (graph::name(0, index), graph::name(1, index + RING / 2));
        writeln_to(&mut wrong, &format!("{lhs}\tnext\t{rhs}"));
    }
    let wrong = scores(&wrong);
    let mean = |scores: &[f32]| scores.iter().sum::<f32>() / scores.len() as f32;
    assert!(
        mean(&real) > mean(&wrong),
        "{} {}",
        mean(&real),
        mean(&wrong)
    );

    score(&place, "a\tb\n").fails(4, &["line 1", "3"]);
    let (good, bad) = (train.lines().next().unwrap(), "north pole 1\tnext\tnowhere");
    score(&place, &format!("{good}\n{bad}\n")).fails(4, &["line 2", "nowhere"]);
}

fn writeln_to(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

#[test]
fn a_reader_that_goes_away_ends_score_quietly() {
    let place = trained();
    let mut child = place
        .command(["score", "pbg.toml"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let (train, _) = graph::tsv();
    // The program may have ended before everything is written.
    let _gone = child
        .stdin
        .take()
        .unwrap()
        .write_all(train.repeat(100).as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The groups that `check` prints are those that run and are measured.
#[test]
fn the_time_of_every_group_that_check_prints_is_told() {
    let place = Workplace::with_dataset(CONFIG);
    for (key, groups_of_their_own) in [
        ("execution.prefetch=true", &["storage", "edges"][..]),
        ("execution.prefetch=false", &[]),
        ("execution.partitions_ahead=0", &["edges"]),
        ("execution.buckets_ahead=0", &["storage"]),
        ("execution.buckets_ahead=3", &["storage", "edges"]),
    ] {
        let checked = place.run(["check", "--json", "--set", key]).succeeds();
        let checked: Value = serde_json::from_str(&checked.stdout).unwrap();
        let groups = checked["execution"]["groups"].as_array().unwrap();
        let names: Vec<&str> = groups.iter().map(|g| g["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            [groups_of_their_own, &["training"]].concat(),
            "{key}"
        );
        let train = ["train", "--progress", "none", "--set", key];
        place.run(train).succeeds();
        let metrics = place.read("model/metrics.jsonl");
        let events = metrics
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let epochs: Vec<Value> = events
            .filter(|event: &Value| event["event"] == "epoch_finished")
            .collect();
        assert_eq!(epochs.len(), 2, "{metrics}");
        for epoch in &epochs {
            let told = epoch["groups"].as_array().unwrap();
            let of: Vec<&str> = told.iter().map(|g| g["group"].as_str().unwrap()).collect();
            assert_eq!(of, names, "{epoch}");
            let busy =
                |name: &str| told.iter().find(|g| g["group"] == name).unwrap()["busy"].as_f64();
            assert!(busy("training").unwrap() > 0.0, "{epoch}");
        }
        let report = place.run(["report", "model"]).succeeds().stdout;
        for name in names {
            assert!(report.contains(&format!("{name} group")), "{report}");
        }
        fs::remove_dir_all(place.path("model")).unwrap();
    }
}

/// Each preset is a complete configuration, which learns the small graph.
#[test]
fn a_preset_is_all_that_a_first_run_needs() {
    for preset in ["complex", "distmult", "transe", "rotate", "small", "pbg"] {
        let place = Workplace::empty();
        let text = place.run(["config", "new", "--preset", preset]).succeeds();
        let place = Workplace::with_edges(&text.stdout);
        let import = "import --edges train=train.tsv --edges test=test.tsv";
        place.run(import.split(' ')).succeeds();
        let check = place.run(["check"]).succeeds();
        assert!(!check.stderr.contains("warning"), "{}", check.stderr);
        let train = "train --progress none --set num_epochs=30 --set batch_size=100";
        place.run(train.split(' ')).succeeds();
        let eval = place.run("eval --json --edges train".split(' ')).succeeds();
        let report: Value = serde_json::from_str(&eval.stdout).unwrap();
        let mrr = report["raw"]["mrr"].as_f64().unwrap();
        // Random guesses reach 0.06.
        assert!(mrr > 0.15, "{preset}: {mrr}");
    }
    Workplace::empty()
        .run(["config", "new", "--preset", "distmul"])
        .fails(
            2,
            &["distmul", "complex, distmult, transe, rotate, small, pbg"],
        );
}

#[test]
fn relations_that_no_operator_tells_apart_are_a_warning() {
    let none = CONFIG.replace("\"translation\"", "\"none\"");
    assert_ne!(none, CONFIG);
    let dynamic = Workplace::with_dataset(&none);
    let of_each = none
        .replace("dynamic_relations = true\n", "")
        .replace("\"any\"", "\"*\"");
    for place in [dynamic, Workplace::with_dataset(&of_each)] {
        for command in ["check", "train --progress none"] {
            let run = place.run(command.split(' ')).succeeds();
            let said = &run.stderr;
            assert!(
                said.contains("4 relations") && said.contains("`next but one`"),
                "{said}"
            );
            let told = place.run(
                command
                    .split(' ')
                    .chain(["--set", "relations.0.operator=diagonal"]),
            );
            assert!(
                !told.stderr.contains("cannot distinguish"),
                "{}",
                told.stderr
            );
        }
    }
}
