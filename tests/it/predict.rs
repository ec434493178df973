//! Predictions: the best completions of edges, compared with the results of other commands for the same model.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::graph::{CONFIG, name};
use crate::support::world::World;
use crate::support::{Workplace, finish, with};
use crate::tools::without;

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// Trains on the small graph.
fn trained() -> Workplace {
    let place = Workplace::with_dataset(CONFIG);
    place.run(TRAIN).succeeds();
    place
}

/// Parses lines of JSON.
fn lines(text: &str) -> Vec<Value> {
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.collect()
}

/// Returns the names of an answer with their scores, best first.
fn answers(line: &Value) -> Vec<(String, f32)> {
    let all = line["answers"].as_array().unwrap().iter();
    let pair = |answer: &Value| {
        let score: f32 = serde_json::from_value(answer["score"].clone()).unwrap();
        (answer["name"].as_str().unwrap().to_owned(), score)
    };
    all.map(pair).collect()
}

/// Answers the questions of a file.
fn predict(place: &Workplace, questions: &str, options: &[&str]) -> Vec<Value> {
    place.write("questions.tsv", questions);
    let command = ["predict", "--questions", "questions.tsv", "--json"];
    let all = place.run(with(&command, &[]).iter().chain(options));
    lines(&all.succeeds().stdout)
}

/// Returns head, relation and tail of the edges of a list.
fn edges(text: &str) -> Vec<[String; 3]> {
    let columns = |line: &str| {
        let mut columns = line.split('\t').map(str::to_owned);
        [(); 3].map(|()| columns.next().unwrap())
    };
    text.lines().map(columns).collect()
}

/// Returns both questions that each edge answers, tails first.
fn both_sides(edges: &[[String; 3]]) -> String {
    let mut text = String::new();
    for [head, relation, tail] in edges {
        writeln!(text, "{head}\t{relation}\t?\n?\t{relation}\t{tail}").unwrap();
    }
    text
}

/// Returns the scores that `score` gives edges.
fn scores(place: &Workplace, edges: &[[&str; 3]]) -> Vec<f32> {
    let text: String = edges.iter().map(|edge| edge.join("\t") + "\n").collect();
    place.write("edges.tsv", text);
    let mut command = place.command(["score"]);
    let input = File::open(place.path("edges.tsv")).unwrap();
    let all = finish(command.stdin(input)).succeeds();
    all.stdout
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

/// Returns the raw rank of `name` among `answers`; ties count as their average.
fn rank(answers: &[(String, f32)], name: &str) -> f64 {
    let (_, positive) = answers.iter().find(|(other, _)| other == name).unwrap();
    let above = answers.iter().filter(|(_, s)| s > positive).count() as f64;
    let equal = answers.iter().filter(|(_, s)| s == positive).count() as f64;
    1.0 + above + (equal - 1.0) / 2.0
}

#[test]
fn ctrl_c_is_heard_while_questions_are_waited_for() {
    let place = trained();
    let mut command = place.command(["predict", "--questions", "-", "--out", "y.jsonl"]);
    let asking = command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut asking = asking.spawn().unwrap();
    let question = format!("{}\tnext\t?\n", name(0, 1));
    // The pipe stays open.
    let mut input = asking.stdin.take().unwrap();
    input.write_all(question.as_bytes()).unwrap();
    let pid = asking.id().to_string();
    // The program handles signals once it has opened the model.
    while !writes_without_a_name(&pid) {
        assert!(asking.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(asking.wait().unwrap().code(), Some(130));
    assert!(!place.path("y.jsonl").exists());
}

/// Returns whether a process has an open file without a name, which gets its name when it is complete.
fn writes_without_a_name(pid: &str) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let links = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    links
        .into_iter()
        .any(|link| link.to_string_lossy().ends_with(" (deleted)"))
}

#[test]
fn no_file_of_somebody_else_is_written_over_on_the_way() {
    let place = trained();
    let entity = name(0, 1);
    for file in ["y.jsonl", "y.parquet"] {
        let theirs = place.write(&format!("{file}.tmp"), "mine");
        let ask = [
            "predict",
            "--head",
            &entity,
            "--relation",
            "next",
            "--out",
            file,
        ];
        place.run(ask).succeeds();
        assert_eq!(fs::read(&theirs).unwrap(), b"mine");
        assert!(place.path(file).exists() && !place.path(&format!("{file}.2.tmp")).exists());
    }
}

#[test]
fn one_question_takes_no_memory_for_more() {
    let place = trained();
    let entity = name(0, 1);
    let ask = [
        "predict",
        "--check",
        "--json",
        "--head",
        &entity,
        "--relation",
        "next",
    ];
    let one = place.run(ask).succeeds().stdout;
    assert!(one.contains("1 question and the best answers"), "{one}");
    let many = place.run(&ask[..3]).succeeds().stdout;
    let sum = |text: &str| -> u64 {
        let needs: Value = serde_json::from_str(text).unwrap();
        let parts = needs["memory"].as_array().unwrap().iter();
        parts.map(|part| part[1].as_u64().unwrap()).sum()
    };
    assert!(sum(&one) < sum(&many), "{one}{many}");
}

#[test]
fn a_model_alone_has_no_neighbours() {
    let place = trained();
    for model in ["pbg.toml", "model"] {
        place
            .run(["neighbors", model])
            .fails(2, &["the name of an entity is missing"]);
    }
}

/// Features are scaled down to `max_norm` one by one, as PyTorch's `embedding_bag` does in PBG, and their mean is
/// compared.
#[test]
fn every_command_takes_the_mean_of_features_that_are_not_too_long() {
    let config = CONFIG.replace(
        "num_partitions = 3",
        "num_partitions = 1\nfeaturized = true",
    );
    let config = config.replace(
        "num_uniform_negs = 10",
        "num_uniform_negs = 0\nmax_norm = 0.01\ninit_scale = 1.0",
    );
    let place = Workplace::with_edges(&config);
    let all = (0..2).flat_map(|ring| (0..40).map(move |i| (ring, i)));
    let line = |(ring, i)| format!("{}\tf{}\tg{}\n", name(ring, i), i % 7, (i + ring) % 11);
    place.write("features.tsv", all.map(line).collect::<String>());
    let import = [
        "import",
        "--edges",
        "train=train.tsv",
        "--edges",
        "test=test.tsv",
    ];
    place
        .run([&import[..], &["--features", "place=features.tsv"]].concat())
        .succeeds();
    // Too short a step for rows to be scaled in place, but for those that it needs.
    place
        .run(with(&TRAIN, &["num_epochs=1", "lr=0.5"]))
        .succeeds();
    let entity = name(0, 1);
    let asked = place.run([
        "predict",
        "--relation",
        "next",
        "--tail",
        &entity,
        "--unfiltered",
        "--json",
        "-k",
        "80",
    ]);
    let answers = answers(&lines(&asked.succeeds().stdout)[0]);
    let edges: Vec<[&str; 3]> = answers
        .iter()
        .map(|(head, _)| [head.as_str(), "next", &entity])
        .collect();
    for ((head, asked), scored) in answers.iter().zip(scores(&place, &edges)) {
        assert!(
            (asked - scored).abs() <= 1e-4 * scored.abs(),
            "{head}: {asked} {scored}"
        );
    }
}

/// Random worlds with all operators, comparators and numbers of partitions, including featurized types and dynamic
/// relations.
#[test]
fn predictions_are_what_other_commands_say_of_the_model() {
    for seed in 0..12 {
        let world = World::new(seed);
        let place = world.imported();
        place.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
        let valid = edges(&place.read("valid.tsv"));
        let questions = both_sides(&valid);
        let all = predict(&place, &questions, &["--unfiltered", "-k", "1000"]);
        assert_eq!(all.len(), 2 * valid.len());
        agree_with_eval(&place, &valid, &all);
        agree_with_scores(&place, &world, &valid, &all);
        let some = predict(
            &place,
            &questions,
            &["--unfiltered", "-k", "3", "--threads", "3"],
        );
        for (all, some) in all.iter().zip(&some) {
            let best = answers(all).into_iter().take(3).collect::<Vec<_>>();
            assert_eq!(answers(some), best, "world {seed}: {some}");
        }
        without_loops(&place, &questions, &all);
        without_known_edges(&place, &world, &questions, &all);
    }
}

/// Asserts that the ranks among all answers have the mean that `eval` reports.
fn agree_with_eval(place: &Workplace, valid: &[[String; 3]], all: &[Value]) {
    let report = place.run(["eval", "--edges", "valid", "--json"]).succeeds();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let mean = |side: usize, column: usize| {
        let asked = valid.iter().zip(all.iter().skip(side).step_by(2));
        let ranks = asked.map(|(edge, line)| 1.0 / rank(&answers(line), &edge[column]));
        ranks.sum::<f64>() / valid.len() as f64
    };
    for (key, found) in [("raw_rhs", mean(0, 2)), ("raw_lhs", mean(1, 0))] {
        let reported = report[key]["mrr"].as_f64().unwrap();
        assert!(
            (found - reported).abs() < 1e-9,
            "{key}: {found}, {reported}"
        );
    }
}

/// Asserts that scores equal those of `score`: to the bit for questions about left sides. For right sides, operators
/// may apply to the other side, and with dynamic relations other operators do.
fn agree_with_scores(place: &Workplace, world: &World, valid: &[[String; 3]], all: &[Value]) {
    let dynamic = world.config.contains("dynamic_relations = true");
    for ([head, relation, tail], lines) in valid.iter().zip(all.chunks(2)).take(4) {
        let lefts = answers(&lines[1]);
        let triples: Vec<_> = lefts
            .iter()
            .map(|(n, _)| [n.as_str(), relation, tail])
            .collect();
        let found: Vec<f32> = lefts.iter().map(|(_, score)| *score).collect();
        assert_eq!(scores(place, &triples), found);
        let rights = answers(&lines[0]);
        let triples: Vec<_> = rights
            .iter()
            .map(|(n, _)| [head.as_str(), relation, n])
            .collect();
        let expected = scores(place, &triples);
        let pairs = expected.iter().zip(&rights).filter(|_| !dynamic);
        for (expected, (name, score)) in pairs {
            let near = (expected - score).abs() <= 1e-5 * expected.abs().max(1.0);
            assert!(near, "{head}, {relation}, {name}: {score}, not {expected}");
        }
    }
}

/// Asserts that without loops the entity of the question is not an answer, and all other answers are unchanged.
fn without_loops(place: &Workplace, questions: &str, all: &[Value]) {
    let options = ["--unfiltered", "--no-loops", "-k", "1000"];
    let found = predict(place, questions, &options);
    for ((line, all), [head, _, tail]) in found.iter().zip(all).zip(edges(questions)) {
        let known = if head == "?" { tail } else { head };
        let mut expected = answers(all);
        expected.retain(|(name, _)| *name != known);
        assert_eq!(answers(line), expected);
    }
}

/// Asserts that by default the edges of all sets are left out, each once, however often it is listed.
fn without_known_edges(place: &Workplace, world: &World, questions: &str, all: &[Value]) {
    let mut known: BTreeMap<(String, String, String), BTreeSet<String>> = BTreeMap::new();
    let sets = world.sets.iter().map(|(name, _)| name.as_str());
    for [head, relation, tail] in sets
        .chain(["valid"])
        .flat_map(|set| edges(&place.read(&format!("{set}.tsv"))))
    {
        let open = || "?".to_owned();
        let of_head = (head.clone(), relation.clone(), open());
        known.entry(of_head).or_default().insert(tail.clone());
        known
            .entry((open(), relation, tail))
            .or_default()
            .insert(head);
    }
    let filtered = predict(place, questions, &["-k", "1000"]);
    for ((line, all), [head, relation, tail]) in filtered.iter().zip(all).zip(edges(questions)) {
        let known = &known[&(head, relation, tail)];
        let mut expected = answers(all);
        expected.retain(|(name, _)| !known.contains(name));
        assert_eq!(answers(line), expected);
        assert_eq!(line["left_out"], known.len());
    }
}

#[test]
fn one_question_is_asked_by_options() {
    let place = trained();
    let (asked, answer) = (name(0, 3), name(0, 4));
    let ask = ["predict", "--head", &asked, "--relation", "next"];
    let text = place.run(with(&ask, &[])).succeeds();
    let shown: Vec<&str> = text.stdout.lines().collect();
    assert!(
        shown[0].starts_with(&format!("({asked}, next, ?)")),
        "{shown:?}"
    );
    assert_eq!(shown.len(), 11);
    assert!(text.stdout.lines().all(|line| !line.ends_with(&answer)));
    let json = place.run(
        with(&ask, &[])
            .iter()
            .chain(&["--unfiltered", "--json", "-k", "80"]),
    );
    let json = &lines(&json.succeeds().stdout)[0];
    assert_eq!(
        (&json["head"], &json["tail"]),
        (&asked.as_str().into(), &Value::Null)
    );
    assert!(answers(json).len() == 80 && json["left_out"] == 0);
    // The best answer of the text is the best one of the JSON that is not a known edge.
    let best: Vec<String> = answers(json).into_iter().map(|(name, _)| name).collect();
    let first = best.iter().find(|name| **name != answer).unwrap();
    assert!(shown[1].trim_start().starts_with("1 ") && shown[1].ends_with(first.as_str()));
}

#[test]
fn questions_may_be_lines_of_json_and_come_from_standard_input() {
    let place = trained();
    let (asked, other) = (name(0, 3), name(1, 9));
    let text = format!(
        "{asked}\tnext\t?\n\n{{\"head\": \"{asked}\", \"relation\": \"next\"}}\n?\tnear\t{other}\r\n\
         {{\"tail\":\"{other}\",\"head\":null,\"relation\":\"near\"}}\n"
    );
    let expected = predict(&place, &text, &[]);
    assert_eq!(expected.len(), 4);
    assert_eq!((&expected[0], &expected[2]), (&expected[1], &expected[3]));
    let mut command = place.command(["predict", "--questions", "-", "--json"]);
    let input = File::open(place.path("questions.tsv")).unwrap();
    let found = finish(command.stdin(Stdio::from(input))).succeeds();
    assert_eq!(lines(&found.stdout), expected);
    let out = [
        "predict",
        "--questions",
        "questions.tsv",
        "--out",
        "a.jsonl",
    ];
    let said = place.run(out).succeeds();
    assert!(
        said.stderr.contains("a.jsonl: answers to 4 questions"),
        "{}",
        said.stderr
    );
    assert_eq!(lines(&place.read("a.jsonl")), expected);
    assert!(!place.path("a.jsonl.tmp").exists());
}

/// More questions than a block holds: each gets its own answer, in order.
#[test]
fn many_questions_are_answered_block_by_block() {
    let place = trained();
    let question = |at: usize| format!("{}\tnear\t?\n", name(at % 2, at / 2));
    let text: String = (0..40_000).map(question).collect();
    let all = predict(&place, &text, &["-k", "2"]);
    assert_eq!(all.len(), 40_000);
    assert!(
        all.iter()
            .enumerate()
            .all(|(at, line)| *line == all[at % 80])
    );
    assert_eq!(all[79], predict(&place, &question(79), &["-k", "2"])[0]);
}

/// pyarrow reads the table, which has the contents of the JSON.
#[test]
fn a_table_has_a_row_per_predicted_edge() {
    let Some(python) = std::env::var_os("PBG_TEST_PYTHON") else {
        without("python", "PBG_TEST_PYTHON names no Python with pyarrow");
        return;
    };
    let place = trained();
    let text = format!("{}\tnext\t?\n?\tnear\t{}\n", name(0, 3), name(1, 9));
    let json = predict(&place, &text, &["-k", "4"]);
    let table = [
        "predict",
        "--questions",
        "questions.tsv",
        "-k",
        "4",
        "--out",
        "a.parquet",
    ];
    place.run(table).succeeds();
    let script = "import json, pyarrow.parquet as pq\n\
        for row in pq.read_table('a.parquet').to_pylist(): print(json.dumps(row))";
    let mut command = Command::new(python);
    let rows = finish(command.args(["-c", script]).current_dir(place.path(""))).succeeds();
    let mut expected = Vec::new();
    for line in &json {
        for (rank, (name, score)) in (1..).zip(answers(line)) {
            let or_name = |key: &str| line[key].as_str().unwrap_or(&name).to_owned();
            let asked = if line["head"].is_null() {
                "head"
            } else {
                "tail"
            };
            let (head, tail) = (or_name("head"), or_name("tail"));
            expected.push((head, line["relation"].clone(), tail, asked, rank, score));
        }
    }
    let rows = lines(&rows.stdout);
    assert_eq!(rows.len(), 8);
    for (row, (head, relation, tail, asked, rank, score)) in rows.iter().zip(expected) {
        assert_eq!(row["head"], head);
        assert_eq!(row["relation"], relation);
        assert_eq!(row["tail"], tail);
        assert_eq!(
            (&row["asked"], &row["rank"]),
            (&asked.into(), &Value::from(rank))
        );
        assert_eq!(row["score"].as_f64().unwrap() as f32, score);
    }
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let place = trained();
    let asked = name(0, 3);
    fs::create_dir(place.path("there.jsonl")).unwrap();
    let options: [(&[&str], i32, &[&str]); 12] = [
        (
            &[
                "--head",
                &asked,
                "--relation",
                "next",
                "--out",
                "there.jsonl",
            ],
            2,
            &["there.jsonl exists and is not a regular file"],
        ),
        (&[], 2, &["the question has no relation", "--questions"]),
        (
            &["--head", &asked],
            2,
            &["the question has no relation", "relation"],
        ),
        (&["--relation", "next"], 2, &["neither head nor tail"]),
        (
            &["--head", &asked, "--relation", "next", "--tail", "x"],
            2,
            &["both given"],
        ),
        (
            &["--head", "north pol 3", "--relation", "next"],
            4,
            &["north pol 3", "north pole 3"],
        ),
        (
            &["--head", &asked, "--relation", "nxt"],
            4,
            &["nxt", "it has `next`"],
        ),
        (
            &["--head", &asked, "--relation", "next", "--filter", "tset"],
            4,
            &["tset", "test"],
        ),
        (
            &["--head", &asked, "--relation", "next", "-k", "0"],
            2,
            &["--answers"],
        ),
        (
            &["--head", &asked, "--relation", "next", "--out", "a.csv"],
            2,
            &["a.csv", ".parquet"],
        ),
        (&["--questions", "nowhere.tsv"], 4, &["nowhere.tsv"]),
        (&["--questions", "data"], 4, &["data", "directory"]),
    ];
    for (options, code, words) in options {
        place
            .run(["predict"].iter().chain(options))
            .fails(code, words);
    }
    let files: [(&str, &[&str]); 7] = [
        (
            "a\tb\n",
            &["line 1", "2 columns", "head<TAB>relation<TAB>?"],
        ),
        (
            "north pole 3\tnext\t?\n?\tnext\t?\n",
            &["line 2", "neither"],
        ),
        (
            "north pole 3\tnext\tnorth pole 4\n",
            &["line 1", "both given"],
        ),
        ("{\"head\": 3}\n", &["line 1", "not valid"]),
        (
            "{\"head\": \"north pole 3\", \"relation\": \"next\", \"k\": 3}\n",
            &["line 1", "`k`"],
        ),
        (
            "north pole 3\tnext\t?\n\n?\tnext\tnorth pol 4\n",
            &["line 3", "north pole 4"],
        ),
        (
            "north pole 3\tnext\t?\nnorth pole 3\tnexd\t?\n",
            &["line 2", "nexd", "`next`"],
        ),
    ];
    for (text, words) in files {
        place.write("q.tsv", text);
        let run = place.run(["predict", "--questions", "q.tsv", "--out", "a.jsonl"]);
        run.fails(4, words);
        assert!(!place.path("a.jsonl").exists() && !place.path("a.jsonl.tmp").exists());
    }
}

/// The error for a name of another type states that type, not only that the name is unknown.
#[test]
fn an_entity_of_the_wrong_type_is_named_with_its_type() {
    let world = (0..).map(World::new);
    let mut world = world.filter(|world| {
        let types = |side: &str| {
            let lines = world.config.lines().filter(|line| line.starts_with(side));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let (lhs, rhs) = (types("lhs = "), types("rhs = "));
        lhs.len() == 1 && lhs[0].trim_start_matches("lhs") != rhs[0].trim_start_matches("rhs")
    });
    let place = world.next().unwrap().imported();
    place.run(with(&TRAIN, &["num_epochs=1"])).succeeds();
    let [head, relation, _] = &edges(&place.read("set0.tsv"))[0];
    let run = place.run(["predict", "--relation", relation, "--tail", head]);
    run.fails(4, &[head, "but of type"]);
}

#[test]
fn a_model_that_has_diverged_is_a_finding() {
    let config = CONFIG.replace("num_partitions = 3", "num_partitions = 1");
    let place = Workplace::with_dataset(&config);
    let huge = ["lr=1e30", "batch_size=100000", "num_epochs=1"];
    place.run(with(&TRAIN, &huge)).succeeds();
    place.write("q.tsv", format!("{}\tnext\t?\n", name(0, 3)));
    let run = place.run(["predict", "--questions", "q.tsv"]);
    run.fails(7, &["q.tsv, line 1", "not finite", "lr"]);
}

#[test]
fn interrupted_predictions_leave_no_file() {
    let place = trained();
    let pipe = place.path("questions");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let ask = ["predict", "--questions", "questions", "--out", "a.jsonl"];
    let mut running = place.start(ask);
    let mut questions = File::options().write(true).open(&pipe).unwrap();
    let pid = running.id().to_string();
    let begun = running.wait_until(|| writes_without_a_name(&pid));
    assert!(begun, "{}", running.stderr());
    running.signal("INT");
    let log = place.path("stderr.txt");
    let heard = || std::fs::read_to_string(&log).unwrap().contains("stopping");
    assert!(running.wait_until(heard), "{}", running.stderr());
    writeln!(questions, "{}\tnext\t?", name(0, 3)).unwrap();
    drop(questions);
    assert_eq!(running.finish().code(), Some(130));
    let files = std::fs::read_dir(place.path(".")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.starts_with("a.jsonl")).collect();
    assert_eq!(left, [""; 0]);
}

#[test]
fn what_predictions_take_is_announced() {
    let place = trained();
    let shown = place.run(["predict", "--check"]).succeeds();
    for part in [
        "memory",
        "largest partition",
        "questions and the best answers",
        "known edges",
    ] {
        assert!(shown.stdout.contains(part), "{}", shown.stdout);
    }
}
