//! Studies of bucket orders: which runs they refuse to mix, and what they say about differences.

use std::fs;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::Workplace;
use crate::support::graph::CONFIG;

const STUDY: &str = "orders train pbg.toml --order random";

fn json(place: &Workplace, path: &str) -> Value {
    serde_json::from_str(&place.read(path)).unwrap()
}

fn component(name: &str) -> &'static [u8] {
    let mut all = pbg_wasm::standard_plugins().iter();
    all.find(|plugin| plugin.name == name).unwrap().bytes
}

/// Whatever may change results or times is refused, with the name of what differs.
#[test]
fn a_study_refuses_runs_of_other_settings() {
    let place = Workplace::with_dataset(CONFIG);
    fs::write(place.path("own.wasm"), component("softmax")).unwrap();
    let with_loss = CONFIG.replace("\"softmax\"", "\"own.wasm\"");
    assert!(with_loss.contains("own.wasm"), "{with_loss}");
    place.write("pbg.toml", &with_loss);
    let run = |more: &str| {
        let arguments = format!("{STUDY} {more}");
        place.run(arguments.split_whitespace())
    };
    run("--set num_epochs=1").succeeds();
    for (setting, message) in [
        ("buffer_partitions=3", "buffer_partitions: 3, not 2"),
        (
            "execution.buckets_ahead=3",
            "execution.buckets_ahead: 3, not 1",
        ),
        ("init_path='vectors'", "init_path"),
        (
            "plugins.limits.memory_mib=99",
            "plugins.limits.memory_mib: 99, not",
        ),
    ] {
        run(&format!("--set {setting}")).fails(5, &[message, "--study"]);
    }
    // Keys that decide what is trained are named as `train` names them, and so is what is ranked.
    for (changed, message) in [
        ("--set lr=0.2", "lr: 0.2, not 0.1"),
        ("--set num_batch_negs=5", "num_batch_negs: 5, not 10"),
        (
            "--limit 7",
            "ranked edges: 7 of test, drawn with the seed 7, not all of test",
        ),
    ] {
        run(changed).fails(5, &[message, "other settings", "--study"]);
    }
    // What is the default already, and more epochs, change nothing about the runs that are there.
    run("--set execution.buckets_ahead=1 --set num_epochs=1").succeeds();

    // The name of the loss is the same, but not its component.
    fs::write(place.path("own.wasm"), component("logistic")).unwrap();
    run("--set num_epochs=1").fails(5, &["loss: logistic", "not softmax", "SHA-256"]);
    fs::write(place.path("own.wasm"), component("softmax")).unwrap();
    run("--set num_epochs=1").succeeds();

    let path = "model-study/random/seed-7/result.json";
    let recorded = json(&place, path);
    let fingerprint = recorded["fingerprint"].as_str().unwrap();
    assert!(
        fingerprint.chars().all(|c| c.is_ascii_hexdigit()),
        "{fingerprint}"
    );
    let store = |changed: &Value| place.write(path, changed.to_string());
    let mut other = recorded.clone();
    other["settings"]["program"] = "pbg-host 0.0.9, SHA-256 00".into();
    store(&other);
    run("--set num_epochs=1").fails(5, &["program: pbg-host", "not pbg-host 0.0.9, SHA-256 00"]);
    // A run that does not say what its settings were may have had any.
    let mut unknown = recorded;
    unknown["settings"] = serde_json::json!({});
    store(&unknown);
    run("--set num_epochs=1").fails(5, &["other settings", "not recorded"]);
}

/// A study that has lost the configuration of a run still says what is wrong.
#[test]
fn a_run_without_its_configuration_is_not_taken_for_another() {
    let place = Workplace::with_dataset(CONFIG);
    let study = format!("{STUDY} --set num_epochs=1");
    place.run(study.split(' ')).succeeds();
    fs::remove_file(place.path("model-study/random/seed-7/configuration.toml")).unwrap();
    place.run(study.split(' ')).succeeds();
    let other = format!("{study} --set lr=0.2");
    place
        .run(other.split(' '))
        .fails(5, &["a configuration that it has not recorded", "--study"]);
}

/// Runs of all seeds rank the edges that `eval` draws with the first one.
#[test]
fn all_seeds_rank_the_same_edges() {
    let place = Workplace::with_dataset(CONFIG);
    let study = "--seeds 2 --limit 7 --keep-checkpoints --json s.json";
    let study = format!("{STUDY} --set num_epochs=1 {study}");
    place.run(study.split(' ')).succeeds();
    let study = json(&place, "s.json");
    let runs = study["orders"][0]["runs"].as_array().unwrap();
    let ranks = |checkpoint: &str, seed: &str| {
        let eval = "eval --edges test --filter train,test --limit 7 --json";
        let found = place
            .run(eval.split(' ').chain([checkpoint, "--set", seed]))
            .succeeds();
        let found: Value = serde_json::from_str(&found.stdout).unwrap();
        found["filtered"]["mrr"].as_f64().unwrap()
    };
    for run in runs {
        let checkpoint = format!("model-study/random/seed-{}/checkpoint", run["seed"]);
        let shown = run["epochs"][0]["mrr"].as_f64().unwrap();
        assert_eq!(ranks(&checkpoint, "seed=7"), shown, "{checkpoint}");
    }
    let second = "model-study/random/seed-8/checkpoint";
    assert_ne!(ranks(second, "seed=8"), ranks(second, "seed=7"));
}

#[test]
fn the_statistics_of_a_study_are_written_with_its_runs() {
    let place = Workplace::with_dataset(CONFIG);
    let study =
        "--order inside_out --seeds 5 --json s.json --html s.html --latex s.tex --svg figures";
    let study = format!("{STUDY} --set num_epochs=1 {study}");
    let run = place.run(study.split(' ')).succeeds();
    let json = json(&place, "s.json");
    let mrr = |order: usize, seed: usize| {
        let run = &json["orders"][order]["runs"][seed];
        run["epochs"][0]["mrr"].as_f64().unwrap()
    };
    let difference = &json["differences"]["mrr"][0];
    assert_eq!(difference["order"], "inside_out");
    assert_eq!(difference["seeds"], serde_json::json!([7, 8, 9, 10, 11]));
    let expected: Vec<f64> = (0..5).map(|seed| mrr(1, seed) - mrr(0, seed)).collect();
    assert_eq!(difference["values"], serde_json::json!(expected));
    let mean = difference["mean"].as_f64().unwrap();
    let [low, high] = [0, 1].map(|end| difference["interval"][end].as_f64().unwrap());
    assert!(low < mean && mean < high, "{low} {mean} {high}");
    // The tables and the figure show these numbers.
    for end in [low, mean, high] {
        let shown = format!("{end:+.4}");
        assert!(run.stdout.contains(&shown), "{shown}:\n{}", run.stdout);
        assert!(place.read("s.html").contains(&shown), "{shown}");
        assert!(place.read("s.tex").contains(&shown), "{shown}");
    }
    let drawing = place.read("figures/differences.svg");
    assert!(drawing.contains("difference to random"), "{drawing}");
    let certainty = json["certainties"][0]["certainty"].as_f64().unwrap();
    let shown = format!("{:.1} %", certainty * 100.0);
    assert!(run.stdout.contains(&shown), "{shown}:\n{}", run.stdout);

    // One seed has neither a deviation nor statistics.
    let one = format!(
        "{STUDY} --set num_epochs=1 --study one --html one.html --latex one.tex --json one.json"
    );
    let one = place.run(one.split(' ')).succeeds();
    assert!(
        !one.stdout.contains('±') && !one.stdout.contains("95 %"),
        "{}",
        one.stdout
    );
    assert!(!place.read("one.html").contains('±'));
    let latex = place.read("one.tex");
    assert!(
        !latex.contains("\\pm") && latex.contains("of one seed"),
        "{latex}"
    );
}

/// Everything that a reader needs to repeat a study, in every format.
#[test]
fn a_study_says_where_it_comes_from() {
    let place = Workplace::with_dataset(CONFIG);
    let files = "--json s.json --csv s.csv --html s.html --latex s.tex --manifest m.json";
    let study = format!("{STUDY} --set num_epochs=1 {files}");
    place.run(study.split(' ')).succeeds();
    let manifest = json(&place, "m.json");
    // The loss decides the results as well as the order.
    let plugins = manifest["plugins"].as_array().unwrap();
    let labels: Vec<&str> = plugins
        .iter()
        .map(|p| p["label"].as_str().unwrap())
        .collect();
    assert_eq!(labels, ["random", "loss", "negative sampler"]);
    let loss = hex(&Sha256::digest(component("softmax")));
    assert_eq!(plugins[1]["sha256"], loss.as_str());
    // The checksum is that of the configuration in the file that the page offers.
    let configuration = serde_json::to_string_pretty(&manifest["configuration"]).unwrap();
    let sha256 = hex(&Sha256::digest(configuration.as_bytes()));
    assert_eq!(manifest["configuration_sha256"], sha256.as_str());
    // Anyone can compute that of the dataset with `sha256sum *.arrow | sha256sum`.
    let mut files: Vec<_> = fs::read_dir(place.path("data"))
        .unwrap()
        .flatten()
        .collect();
    files.sort_by_key(|file| file.file_name());
    let list: String = files
        .iter()
        .filter(|file| {
            file.path()
                .extension()
                .is_some_and(|ending| ending == "arrow")
        })
        .map(|file| {
            let sum = hex(&Sha256::digest(fs::read(file.path()).unwrap()));
            format!("{sum}  {}\n", file.file_name().display())
        })
        .collect();
    let dataset = hex(&Sha256::digest(list.as_bytes()));
    assert_eq!(manifest["dataset_sha256"], dataset.as_str());
    let command = "pbg-host orders train pbg.toml --order random";
    for file in ["s.json", "s.csv", "s.html", "s.tex", "m.json"] {
        let text = place.read(file);
        for part in [
            &sha256,
            &dataset,
            command,
            "processor",
            manifest["dataset"].as_str().unwrap(),
        ] {
            assert!(text.contains(part), "{part} in {file}");
        }
    }
}

/// The order lab's page says over what each column of a study's CSV is counted, and the columns are counted so.
#[test]
fn every_column_of_a_study_is_described() {
    let page = fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/order-lab.md"
    ));
    let page = page.unwrap();
    let rows = page.split("| column | over | what it counts |").nth(1);
    let rows = rows.unwrap().lines().skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let mut described = Vec::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let names = cells[1].split(", ").map(|name| name.trim_matches('`'));
        described.extend(names.map(|name| (name.to_owned(), cells[2].to_owned())));
    }
    let place = Workplace::with_dataset(CONFIG);
    let study = format!("{STUDY} --csv s.csv");
    place.run(study.split(' ')).succeeds();
    let text = place.read("s.csv");
    // The figures are before the columns with text that contains commas.
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    let names: Vec<&str> = described.iter().map(|(name, _)| name.as_str()).collect();
    let [head, first, second] = &lines[..] else {
        panic!("{text}")
    };
    assert_eq!(head, &names);
    for (at, (name, over)) in described.iter().enumerate() {
        let [first, second] = [first, second].map(|row| row[at].parse::<f64>());
        match (over.as_str(), first, second) {
            // Every epoch trains every edge and loads about as many partitions.
            ("run so far", Ok(first), Ok(second)) => assert!(second >= first, "{name}"),
            ("epoch", Ok(first), Ok(second)) if name != "loss" => {
                assert!(second < 1.9 * first, "{name}: {first}, then {second}");
            }
            _ => {}
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Formulas of plugins decide the results as well, although the runs have them from the configuration.
#[test]
fn a_study_names_every_plugin_that_decides_it() {
    let place = Workplace::with_dataset(CONFIG);
    let config = CONFIG
        .replace("\"translation\"", "\"turns.wasm\"")
        .replace("\"dot\"", "\"hyperbolic\"");
    place.write(
        "pbg.toml",
        format!("{config}\n[lr_schedule]\ndecay = \"step_decay\"\n"),
    );
    fs::write(place.path("turns.wasm"), component("rotate")).unwrap();
    let study = format!("{STUDY} --set num_epochs=1 --manifest m.json --keep-checkpoints");
    place.run(study.split(' ')).succeeds();
    let plugins = json(&place, "m.json")["plugins"].clone();
    let plugins: Vec<[&str; 3]> = plugins
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| ["label", "name", "sha256"].map(|key| plugin[key].as_str().unwrap()))
        .collect();
    let sums = [
        "random",
        "softmax",
        "uniform_negatives",
        "step_decay",
        "rotate",
        "hyperbolic",
    ]
    .map(|name| hex(&Sha256::digest(component(name))));
    assert_eq!(
        plugins,
        [
            ["random", "random", &sums[0]],
            ["loss", "softmax", &sums[1]],
            ["negative sampler", "uniform_negatives", &sums[2]],
            ["learning rate schedule", "step_decay", &sums[3]],
            ["operator", "rotate", &sums[4]],
            ["comparator", "hyperbolic", &sums[5]],
        ]
    );
    // A checkpoint says it of its model, and so does a study of the checkpoint's configuration.
    let checkpoint = "model-study/random/seed-7/checkpoint";
    let report = place.run(["report", checkpoint]).succeeds().stdout;
    for (what, sum) in [("operator", &sums[4]), ("comparator", &sums[5])] {
        let shown = format!("({what}, {})", &sum[..12]);
        assert!(report.contains(&shown), "{shown}:\n{report}");
    }
}

/// Orders with random choices are shown with their range and the seeds.
#[test]
fn a_comparison_shows_the_spread_of_random_orders() {
    let place = Workplace::empty();
    let compare = "orders compare -p 8 -c 3 --order random --order beta";
    let files = "--seeds 3 --json c.json --html c.html --latex c.tex";
    let compared = format!("{compare} {files}");
    let run = place.run(compared.split(' ')).succeeds();
    let orders = json(&place, "c.json")["cases"][0]["orders"].clone();
    let random = orders.as_array().unwrap().iter();
    let mut random = random.filter(|order| order["order"] == "random");
    let seeds = random.next().unwrap()["seeds"].as_array().unwrap().clone();
    let swaps: Vec<u64> = seeds.iter().map(|s| s["swaps"].as_u64().unwrap()).collect();
    let (low, high) = (swaps.iter().min().unwrap(), swaps.iter().max().unwrap());
    assert!(low < high, "{swaps:?}");
    for (text, range) in [
        (&run.stdout, format!("({low}-{high})")),
        (&place.read("c.html"), format!("({low}–{high})")),
        (&place.read("c.tex"), format!("({low}--{high})")),
    ] {
        assert!(text.contains(&range), "{range}:\n{text}");
        assert!(text.contains("0, 1, 2"), "{text}");
    }
    let one = place.run(compare.split(' ')).succeeds();
    assert!(one.stdout.contains("--seeds N shows"), "{}", one.stdout);
}

/// Two rows with one name would show one order twice, and two orders with one folder one's runs as the other's.
#[test]
fn an_order_is_given_once() {
    let place = Workplace::with_dataset(CONFIG);
    for command in ["orders train pbg.toml", "orders compare -p 4 -c 2"] {
        let fails = |orders: &str, message: &[&str]| {
            let line = format!("{command} {orders}");
            place.run(line.split(' ')).fails(2, message);
        };
        fails(
            "--order beta --order random --order beta",
            &["--order beta is given twice"],
        );
        fails(
            "--order comet:fine_to_coarse_ratio=1 --order comet:fine_to_coarse_ratio=1",
            &["comet:fine_to_coarse_ratio=1 is given twice"],
        );
        fails(
            "--order beta:assignment=random --order beta:assignment=\"random\"",
            &["are the same order"],
        );
    }
    let files = "orders train pbg.toml --order a/own.wasm --order b/own.wasm";
    place
        .run(files.split(' '))
        .fails(2, &["would both have the folder own-wasm"]);
    for (numbers, message) in [
        ("-p 4,8,4 -c 2", "--partitions: 4 is given twice"),
        ("-p 4 -c 2,2", "--buffer: 2 is given twice"),
        ("-p 4 -c 2 -m 3,3", "--machines: 3 is given twice"),
    ] {
        let line = format!("orders compare --order beta {numbers}");
        place.run(line.split(' ')).fails(2, &[message]);
    }
}
