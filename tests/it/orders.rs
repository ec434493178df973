//! The order lab: orders compared, shown and trained, runs reported, pages drawn by a browser.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::graph::CONFIG;
use crate::support::{Workplace, finish, is_long};
use crate::tools::without;

/// Swaps after the first fill, from reference simulations: partitions, buffer, lower bound, then
/// the orders of [`EXACT`].
const EXACT: [&str; 5] = [
    "beta",
    "hilbert_symmetric",
    "hilbert",
    "snake",
    "lexicographic",
];
const EXACT_SWAPS: [(u32, u32, u64, [u64; 5]); 12] = [
    (8, 2, 27, [27, 28, 51, 54, 60]),
    (16, 2, 119, [119, 122, 231, 238, 252]),
    (32, 2, 495, [495, 502, 975, 990, 1020]),
    (8, 4, 8, [9, 10, 18, 32, 37]),
    (16, 4, 38, [42, 56, 102, 192, 205]),
    (32, 4, 164, [173, 244, 462, 896, 925]),
    (16, 8, 14, [17, 20, 36, 128, 136]),
    (32, 8, 67, [78, 112, 204, 768, 792]),
    (64, 8, 284, [308, 488, 924, 3584, 3640]),
    (64, 16, 127, [150, 224, 408, 3072, 3120]),
    (128, 16, 534, [588, 976, 1848, 14336, 14448]),
    (128, 32, 247, [294, 448, 816, 12288, 12384]),
];

/// The same for orders with random choices; the swaps are means over seeds.
const RANDOM: [&str; 5] = [
    "inside_out",
    "affinity",
    "chained_symmetric_pairs",
    "random_symmetric",
    "random",
];
const RANDOM_SWAPS: [(u32, u32, [f64; 5]); 10] = [
    (8, 2, [30.0, 29.0, 35.0, 43.0, 89.0]),
    (16, 2, [129.0, 123.0, 137.0, 212.0, 432.0]),
    (32, 2, [520.0, 503.0, 532.0, 931.0, 1889.0]),
    (8, 4, [14.0, 14.0, 18.0, 20.0, 39.0]),
    (16, 4, [90.0, 82.0, 100.0, 134.0, 277.0]),
    (32, 4, [434.0, 388.0, 439.0, 697.0, 1424.0]),
    (16, 8, [44.0, 40.0, 56.0, 65.0, 134.0]),
    (32, 8, [324.0, 270.0, 328.0, 478.0, 971.0]),
    (64, 8, [1652.0, 1357.0, 1558.0, 2570.0, 5157.0]),
    (64, 16, [1224.0, 959.0, 1181.0, 1801.0, 3584.0]),
];

/// Runs a comparison with one case of these orders; returns the lower bound and each order's mean swaps.
fn swaps(
    place: &Workplace,
    (partitions, buffer): (u32, u32),
    orders: &[&str],
    seeds: u32,
) -> (u64, BTreeMap<String, f64>) {
    let mut args = format!(
        "orders compare --partitions {partitions} --buffer {buffer} --seeds {seeds} --json c.json"
    );
    for order in orders {
        args.push_str(&format!(" --order {order}"));
    }
    place.run(args.split(' ')).succeeds();
    let json: Value = serde_json::from_str(&place.read("c.json")).unwrap();
    let case = &json["cases"][0];
    let mut means = BTreeMap::new();
    for entry in case["orders"].as_array().unwrap() {
        let seeds = entry["seeds"].as_array().unwrap();
        let sum: f64 = seeds
            .iter()
            .map(|seed| seed["swaps"].as_f64().unwrap())
            .sum();
        let name = entry["order"].as_str().unwrap().to_owned();
        means.insert(name, sum / seeds.len() as f64);
    }
    (case["lower_bound"].as_u64().unwrap(), means)
}

#[test]
fn swaps_are_the_published_ones() {
    let place = Workplace::empty();
    for (p, c, bound, expected) in EXACT_SWAPS {
        let (found_bound, found) = swaps(&place, (p, c), &EXACT, 1);
        assert_eq!(found_bound, bound, "p={p} c={c}");
        for (order, swaps) in EXACT.iter().zip(expected) {
            assert_eq!(found[*order], swaps as f64, "{order} p={p} c={c}");
        }
    }
}

#[test]
fn swaps_of_random_orders_are_the_published_ones_on_average() {
    let place = Workplace::empty();
    for (p, c, expected) in RANDOM_SWAPS {
        let (_, found) = swaps(&place, (p, c), &RANDOM, 12);
        for (order, swaps) in RANDOM.iter().zip(expected) {
            let found = found[*order];
            // Means of few swaps over a dozen seeds differ by one or two.
            let tolerance = (0.05 * swaps).max(2.0);
            assert!(
                (found - swaps).abs() <= tolerance,
                "{order} p={p} c={c}: {found}, not {swaps}"
            );
        }
    }
}

#[test]
fn compare_tells_all_orders_and_why_one_takes_no_part() {
    let place = Workplace::empty();
    place.write("broken.wasm", "no component");
    let run = place
        .run([
            "orders",
            "compare",
            "-p",
            "8",
            "-c",
            "3",
            "--csv",
            "o.csv",
            "--order",
            "random",
            "--order",
            "broken.wasm",
        ])
        .succeeds();
    for word in [
        "random",
        "broken.wasm is left out",
        "at least",
        "bias",
        "prefetched",
    ] {
        assert!(run.stdout.contains(word), "{word}:\n{}", run.stdout);
    }
    let csv = place.read("o.csv");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.starts_with("lhs_partitions,rhs_partitions,shared,buffer,order,seed,"));

    let all = place
        .run(["orders", "compare", "-p", "4"])
        .succeeds()
        .stdout;
    for standard in pbg_wasm::standard_plugins() {
        let takes_part = all.contains(&format!("| {}", standard.name))
            || all.contains(&format!("{} takes", standard.name));
        let is_order = standard.kind == pbg_wasm::PluginSlot::BucketOrder;
        assert!(
            takes_part || !is_order || standard.name == "from_file",
            "{}:\n{all}",
            standard.name
        );
    }
}

#[test]
fn a_plan_that_is_too_long_names_the_limit() {
    let place = Workplace::empty();
    let show = [
        "orders",
        "show",
        "random",
        "-p",
        "512",
        "--limit",
        "result_mib=1",
    ];
    place.run(show).fails(
        6,
        &["262144 buckets", "1 MiB", "raise plugins.limits.result_mib"],
    );
}

#[test]
fn orders_plan_for_the_rates_that_stalls_are_predicted_for() {
    let place = Workplace::empty();
    let rates = "read_bytes_per_second=2e8,write_bytes_per_second=2e8,edges_per_second=2e5";
    let orders = [
        "overlap".to_owned(),
        format!("overlap:{rates}"),
        "overlap:edges_per_second=1e9".to_owned(),
    ];
    let mut args = "orders compare -p 32 -c 8 --read-mbps 200 --write-mbps 200 --edges-per-second 200000 --json c.json"
        .to_owned();
    for order in &orders {
        args.push_str(&format!(" --order {order}"));
    }
    place.run(args.split(' ')).succeeds();
    let json: Value = serde_json::from_str(&place.read("c.json")).unwrap();
    let stall = |order: &String| {
        let mut entries = json["cases"][0]["orders"].as_array().unwrap().iter();
        let entry = entries
            .find(|entry| entry["order"] == order.as_str())
            .unwrap();
        entry["seeds"][0]["stall_ahead"].as_f64().unwrap()
    };
    let [told, set, other] = [0, 1, 2].map(|n| stall(&orders[n]));
    assert_eq!(told, set);
    assert!(told < other, "{told}, for another rate {other}");
}

/// Makes the table of several trainers in docs/order-lab.md with the command above it, and compares the advice with it.
/// Only a long test makes all rows, since the searches of some orders take minutes.
#[test]
fn advice_on_several_trainers_follows_from_a_table_that_is_made() {
    let page = include_str!("../../docs/order-lab.md");
    let command = page.lines().find(|line| line.contains("--machines 2,4,8"));
    let command = command.unwrap().trim_start_matches("pbg-host ");
    let (without_orders, _) = command.split_once(" --order").unwrap();
    let arguments = match is_long() {
        true => command.to_owned(),
        false => format!("{without_orders} --order stratified --order lexicographic"),
    };
    // Only the whole table shows which order reads least.
    let page = match is_long() {
        true => page.to_owned(),
        false => page.replace("**", ""),
    };
    let place = Workplace::empty();
    place
        .run(arguments.split(' ').chain(["--json", "c.json"]))
        .succeeds();
    let json: Value = serde_json::from_str(&place.read("c.json")).unwrap();
    let orders = json["cases"][0]["orders"].as_array().unwrap();
    let read = |order: &Value, trainers: u64| {
        let costs = order["seeds"].as_array().unwrap().iter();
        let costs = costs.flat_map(|seed| seed["together"].as_array().unwrap());
        let of = costs.filter(|cost| cost["trainers"].as_u64() == Some(trainers));
        let bytes: Vec<f64> = of.map(|c| c["bytes_read"].as_f64().unwrap()).collect();
        bytes.iter().sum::<f64>() / bytes.len() as f64 / f64::from(1 << 30)
    };
    let trainers = [2, 4, 8];
    let least = trainers.map(|n| {
        let all = orders.iter().map(|order| read(order, n));
        all.fold(f64::INFINITY, f64::min)
    });
    for order in orders {
        let cell = |(n, least): (u64, f64)| match read(order, n) {
            gib if gib <= least && is_long() => format!("**{gib:.1}**"),
            gib => format!("{gib:.1}"),
        };
        let cells: Vec<String> = trainers.into_iter().zip(least).map(cell).collect();
        let name = order["order"].as_str().unwrap();
        let row = format!("| `{name}` | {} |", cells.join(" | "));
        assert!(page.contains(&row), "the page lacks:\n{row}");
        // The advice names the orders that read least, and for how many trainers they do.
        for (n, least) in trainers.into_iter().zip(least).filter(|_| is_long()) {
            let advised = page.contains(&format!("With {n} trainers, `{name}` reads least"));
            assert_eq!(advised, read(order, n) <= least, "{name} with {n} trainers");
        }
    }
}

#[test]
fn results_are_written_for_papers_and_say_where_they_come_from() {
    let place = Workplace::empty();
    let command = "orders compare -p 12 -c 3 --order beta --order legend --order comet --csv o.csv --json o.json \
                   --html o.html --latex o.tex --svg figures --manifest m.json";
    let run = place.run(command.split_whitespace()).succeeds();
    let published = "published swaps: ";
    let line = run.stdout.lines().find(|line| line.starts_with(published));
    let line = line.unwrap_or_else(|| panic!("{}", run.stdout));
    for value in ["beta 34 (mohoney2021marius)", "legend 34 (li2025legend)"] {
        assert!(line.contains(value), "{line}");
    }
    let manifest: Value = serde_json::from_str(&place.read("m.json")).unwrap();
    let command = manifest["command"].as_str().unwrap();
    assert!(
        command.starts_with("pbg-host orders compare -p 12 -c 3"),
        "{command}"
    );
    let json: Value = serde_json::from_str(&place.read("o.json")).unwrap();
    assert_eq!(json["provenance"]["plugins"], manifest["plugins"]);
    let beta = &manifest["plugins"][0];
    let sha256 = beta["sha256"].as_str().unwrap();
    assert_eq!((beta["label"].as_str(), sha256.len()), (Some("beta"), 64));
    let program = manifest["program"]["sha256"].as_str().unwrap();
    for file in ["o.csv", "o.html", "o.tex"] {
        let text = place.read(file);
        assert!(text.contains(sha256) && text.contains(program), "{file}");
    }
    let latex = place.read("o.tex");
    assert!(latex.contains("34 \\cite{mohoney2021marius}"), "{latex}");
    let drawing = place.read("figures/swaps.svg");
    assert!(
        drawing.starts_with("<svg") && drawing.contains(">legend</text>"),
        "{drawing}"
    );
    assert!(place.path("figures/grids.svg").exists());
}

/// Figures of one grid say which one where several are compared.
#[test]
fn figures_name_their_grid() {
    let place = Workplace::empty();
    let command =
        "orders compare -p 8,12 -c 3 --order beta --order legend --html o.html --svg figures";
    place.run(command.split(' ')).succeeds();
    for name in ["swaps", "miss-curve", "grids", "bias", "stalls"] {
        let drawing = place.read(&format!("figures/{name}.svg"));
        let grid = "12 x 12 partitions, buffer 3";
        assert!(drawing.contains(grid), "{name}: {drawing}");
    }
    let page = place.read("o.html");
    let explained = "Figures that show a single grid show 12 x 12 partitions, buffer 3";
    assert!(page.contains(explained));
}

#[test]
fn compare_asks_for_what_it_lacks() {
    let place = Workplace::empty();
    place.run(["orders", "compare"]).fails(2, &["--partitions"]);
    place
        .run(["orders", "compare", "--dimension", "3"])
        .fails(2, &["--partitions"]);
    place
        .run(["orders", "compare", "x.toml", "-p", "4"])
        .fails(2, &["cannot be combined with a configuration"]);
    place
        .run(["orders", "compare", "-p", "4", "--order", "nosuch"])
        .fails(6, &["all orders failed"]);
    place
        .run(["orders", "show", "random"])
        .fails(2, &["--partitions"]);
    place
        .run(["orders", "show", "nosuch", "-p", "4"])
        .fails(6, &["nosuch"]);
    place
        .run(["orders", "compare", "-p", "4", "--read-mbps", "0"])
        .fails(2, &["positive"]);
}

#[test]
fn a_configuration_is_compared_on_its_dataset() {
    let place = Workplace::with_dataset(CONFIG);
    let run = place
        .run(["orders", "compare", "--order", "inside_out"])
        .succeeds();
    assert!(
        run.stdout.contains("3 x 3 partitions, buffer 2"),
        "{}",
        run.stdout
    );
}

/// The plan of a configuration is the plan of its run: its grid, buffer, seed, and parameters of plugins.
#[test]
fn the_plan_of_a_configuration_is_shown() {
    let place = Workplace::with_dataset(CONFIG);
    let show = |more: &[&str]| {
        let args = ["orders", "show", "random"].iter().chain(more);
        place.run(args).succeeds().stdout
    };
    let shown = show(&[]);
    assert!(shown.contains(", seed 7"), "{shown}");
    let plan = show(&["--json"]);
    assert_eq!(show(&["pbg.toml", "--seed", "7", "--json"]), plan);
    assert_ne!(show(&["--set", "seed=8", "--json"]), plan);
    place
        .run([
            "train",
            "--set",
            "bucket_order=random",
            "--progress",
            "none",
        ])
        .succeeds();
    let metrics = place.read("model/metrics.jsonl");
    let events = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let finished = events.filter(|event| event["event"] == "bucket_finished");
    let trained: Vec<Value> = finished
        .take(9)
        .map(|event| serde_json::json!([event["lhs"], event["rhs"]]))
        .collect();
    assert_eq!(serde_json::from_str::<Vec<Value>>(&plan).unwrap(), trained);
    assert_eq!(show(&["model", "--json"]), plan, "of the checkpoint");
    place
        .run(["orders", "show", "random", "pbg.toml", "-p", "4"])
        .fails(2, &["cannot be combined with a configuration"]);
    place
        .run(["orders", "show", "random", "-p", "4,8"])
        .fails(2, &["only one grid can be shown"]);
}

#[test]
fn a_plan_is_shown_and_written_as_json() {
    let place = Workplace::empty();
    let args = [
        "orders",
        "show",
        "inside_out",
        "-p",
        "4",
        "-c",
        "2",
        "--seed",
        "3",
    ];
    let shown = place.run(args).succeeds().stdout;
    for word in ["inside_out", "position", "loads", "bias", "+3"] {
        assert!(shown.contains(word), "{word}:\n{shown}");
    }
    let json = place.run(args.iter().chain(&["--json"])).succeeds().stdout;
    let plan: Vec<[u32; 2]> = serde_json::from_str(&json).unwrap();
    let mut sorted = plan.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 16);
    let two_types = [
        "orders",
        "show",
        "random",
        "-p",
        "2",
        "--rhs-partitions",
        "5",
        "-c",
        "3",
    ];
    let shown = place.run(two_types).succeeds().stdout;
    assert!(shown.contains("+l") && shown.contains("+r"), "{shown}");
}

/// Returns the arguments of a study of two orders on the small graph.
fn study<'a>(more: &'a [&'a str]) -> Vec<&'a str> {
    let study = [
        "orders",
        "train",
        "--order",
        "random",
        "--order",
        "inside_out",
        "--seeds",
        "2",
    ];
    study.iter().chain(more).copied().collect()
}

#[test]
fn a_study_trains_each_order_once_and_does_what_plans_predict() {
    let place = Workplace::with_dataset(CONFIG);
    let first = place
        .run(study(&["--json", "s.json", "--csv", "s.csv"]))
        .succeeds();
    assert_eq!(
        first.stderr.matches("epoch 2/2").count(),
        4,
        "{}",
        first.stderr
    );
    let json = place.read("s.json");
    let study_of: Value = serde_json::from_str(&json).unwrap();
    for order in study_of["orders"].as_array().unwrap() {
        for run in order["runs"].as_array().unwrap() {
            let epochs = run["epochs"].as_array().unwrap();
            assert_eq!(epochs.len(), 2);
            for epoch in epochs {
                assert_eq!(epoch["loads"], epoch["predicted_loads"], "{epoch}");
                assert!(epoch["mrr"].as_f64().unwrap() > 0.0);
            }
            assert_eq!(epochs[1]["edges"].as_u64().unwrap(), 2 * 324);
        }
    }
    assert_eq!(place.read("s.csv").lines().count(), 1 + 8);
    // Finished runs keep their results and metrics, and are not repeated.
    let run = "model-study/random/seed-7";
    assert!(place.path(run).join("metrics.jsonl").exists());
    assert!(!place.path(run).join("checkpoint").exists());
    let second = place.run(study(&["--json", "s.json"])).succeeds();
    assert_eq!(
        second.stderr.matches("already finished").count(),
        4,
        "{}",
        second.stderr
    );
    // All but the provenance, which has the date, is the same.
    let again: Value = serde_json::from_str(&place.read("s.json")).unwrap();
    assert_eq!(again["orders"], study_of["orders"]);
    assert_eq!(again["setting"], study_of["setting"]);
    // A study of something else is not mixed with it.
    place
        .run(study(&["--set", "lr=0.2"]))
        .fails(5, &["lr: 0.2, not 0.1", "--study"]);
    place
        .run(study(&["--set", "workers=2"]))
        .fails(5, &["workers: 2, not 1", "--study"]);
    place
        .run(study(&["--set", "execution.prefetch=false"]))
        .fails(5, &["execution.prefetch: false, not true"]);
}

#[test]
fn a_study_says_how_certain_its_differences_are() {
    let config = CONFIG.replace("workers = 1\n", "");
    assert!(!config.contains("workers"), "{config}");
    let place = Workplace::with_dataset(&config);
    // One worker unless told, and a single seed has no deviation.
    let single = ["orders", "train", "--order", "random", "--study", "single"];
    let single = place.run(single).succeeds();
    assert!(!single.stdout.contains('±'), "{}", single.stdout);
    assert!(single.stdout.contains("workers: 1"), "{}", single.stdout);
    assert!(!single.stderr.contains("workers"), "{}", single.stderr);

    let paired = place
        .run(study(&[
            "--limit",
            "20",
            "--html",
            "study.html",
            "--json",
            "s.json",
        ]))
        .succeeds();
    for words in [
        "Difference to random",
        "Who has the higher MRR",
        "2 seeds allow at most 75.0 %",
        "seeds: 7, 8",
    ] {
        assert!(paired.stdout.contains(words), "{words}:\n{}", paired.stdout);
    }
    let page = place.read("study.html");
    assert!(page.contains("Filtered MRR: difference to random"));
    // The difference shown is that of the runs.
    let json: Value = serde_json::from_str(&place.read("s.json")).unwrap();
    let mrr = |order: usize, run: usize| {
        let epochs = json["orders"][order]["runs"][run]["epochs"].as_array();
        epochs.unwrap().last().unwrap()["mrr"].as_f64().unwrap()
    };
    let difference = ((mrr(1, 0) - mrr(0, 0)) + (mrr(1, 1) - mrr(0, 1))) / 2.0;
    let shown = format!("{difference:+.4}");
    assert!(
        paired.stdout.contains(&shown),
        "{shown}:\n{}",
        paired.stdout
    );

    // With several workers a seed is repeated.
    let several = study(&["--set", "workers=2", "--study", "several"]);
    let several = place.run(several).succeeds();
    assert!(
        several.stderr.contains("differ with 2 workers"),
        "{}",
        several.stderr
    );
    assert!(
        several.stdout.contains("Runs of one seed"),
        "{}",
        several.stdout
    );
    assert!(
        place
            .path("several/random/seed-7-run-2/result.json")
            .exists()
    );
    assert!(!place.path("several/random/seed-8-run-2").exists());
}

/// Returns the newest committed version of every run in a study.
fn study_versions(place: &Workplace, orders: &[&str]) -> Vec<String> {
    let manifest = |order: &&str| {
        let run = place.path("model-study").join(order).join("seed-7");
        let manifest = fs::read_to_string(run.join("checkpoint/manifest.json"));
        let manifest: Value =
            serde_json::from_str(&manifest.unwrap_or_default()).unwrap_or_default();
        format!(
            "{} {}",
            manifest["version"],
            run.join("result.json").exists()
        )
    };
    orders.iter().map(manifest).collect()
}

/// Returns the measurements of a study that do not depend on the clock.
fn results(place: &Workplace) -> Vec<Value> {
    let study: Value = serde_json::from_str(&place.read("s.json")).unwrap();
    let mut epochs = Vec::new();
    for order in study["orders"].as_array().unwrap() {
        for epoch in order["runs"][0]["epochs"].as_array().unwrap() {
            let mut epoch = epoch.clone();
            // Processes that were stopped do not say how many bytes they have written in fact.
            for clock in ["seconds", "stall_seconds", "commit_seconds", "disk"] {
                epoch.as_object_mut().unwrap().remove(clock);
            }
            epochs.push(epoch);
        }
    }
    epochs
}

/// Stops the study up to 24 times; `PBG_TEST_KILLS=N` for more stops.
#[test]
fn a_study_that_was_stopped_again_and_again_has_the_table_of_one_that_was_not() {
    let orders = ["random", "inside_out"];
    let kills = std::env::var("PBG_TEST_KILLS").ok();
    let rounds: u64 = kills.map_or(24, |kills| {
        kills.parse().expect("PBG_TEST_KILLS is a number")
    });
    // Enough work for that many stops.
    let epochs = (rounds / 8) as usize;
    let study = [
        "orders",
        "train",
        "--order",
        orders[0],
        "--order",
        orders[1],
        "--json",
        "s.json",
        "--set",
        &format!("num_epochs={epochs}"),
        "--set",
        "checkpoint_interval=0",
    ];
    let whole = Workplace::with_dataset(CONFIG);
    // An undisturbed study need not save often.
    whole
        .run(study.iter().chain(&["--set", "checkpoint_interval=600"]))
        .succeeds();
    let whole = results(&whole);
    assert_eq!(whole.len(), orders.len() * epochs);

    let place = Workplace::with_dataset(CONFIG);
    let mut stopped = 0;
    for round in 0..rounds {
        let mut run = place.start(study);
        let before = study_versions(&place, &orders);
        // Every round makes progress, and ends at another moment between two commits.
        if !run.wait_until(|| study_versions(&place, &orders) != before) {
            break;
        }
        let (pause, start) = (Duration::from_millis(round * 7 % 23), Instant::now());
        if !run.wait_until(|| start.elapsed() >= pause) {
            break;
        }
        run.signal(if round % 3 == 0 { "INT" } else { "KILL" });
        let ended = run.finish();
        if ended.code() == Some(0) {
            // The study was done before the signal arrived.
            break;
        }
        assert!(
            ended.code() == Some(130) || ended.signal() == Some(9),
            "{}",
            ended.stderr
        );
        stopped += 1;
    }
    eprintln!("stopped {stopped} times");
    assert!(3 * stopped >= rounds, "stopped {stopped} times only");
    place.run(study).succeeds();
    assert_eq!(results(&place), whole);
    for order in orders {
        let run = place.path("model-study").join(order).join("seed-7");
        let names = fs::read_dir(&run).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert_eq!(
            names,
            ["configuration.toml", "metrics.jsonl", "result.json"],
            "{order}"
        );
    }
}

#[test]
fn a_study_epoch_by_epoch_is_the_run_in_one_go() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(["orders", "train", "--order", "random", "--keep-checkpoints"])
        .succeeds();
    place
        .run(["train", "--plugin", "random", "--progress", "none"])
        .succeeds();
    assert_eq!(
        place.committed("model"),
        place.committed("model-study/random/seed-7/checkpoint")
    );
}

#[test]
fn a_run_is_reported_in_the_terminal_and_for_tensorboard() {
    let place = Workplace::with_dataset(CONFIG);
    place
        .run(["train", "--progress", "none", "--tensorboard", "curves"])
        .succeeds();
    let report = place
        .run(["report", "model", "--csv", "r.csv"])
        .succeeds()
        .stdout;
    for word in [
        "inside_out",
        "softmax",
        "translation",
        "0.1",
        "memory",
        "stalled",
        "partition loads",
    ] {
        assert!(report.contains(word), "{word}:\n{report}");
    }
    assert!(!report.contains("MRR"), "nothing was ranked:\n{report}");
    // The configuration refers to its run.
    for named in [&["report"][..], &["report", "pbg.toml"]] {
        let found = place.run(named).succeeds().stdout;
        assert_eq!(found, report);
    }
    assert_eq!(place.read("r.csv").lines().count(), 1 + 2 * 9);
    place.run(["report", "nowhere"]).fails(5, &["nowhere"]);
    let mut elsewhere = place.command(["report".into(), place.path("model")]);
    let found = finish(elsewhere.current_dir("/")).succeeds();
    assert_eq!(found.stderr, "");
    assert!(found.stdout.contains("maximum memory"), "{}", found.stdout);
    // A run is found from folders below it, and from its own folder.
    fs::create_dir_all(place.path("notes/today")).unwrap();
    for (below, run) in [("notes/today", "../../model\n"), ("model", ".\n")] {
        let mut command = place.command(["report"]);
        let found = finish(command.current_dir(place.path(below))).succeeds();
        let named = format!("run                       {run}");
        assert!(found.stdout.contains(&named), "{}", found.stdout);
        assert!(!found.stdout.contains("/model/.."), "{}", found.stdout);
    }
    let nothing = tempfile::tempdir().unwrap();
    let mut command = place.command(["report"]);
    finish(command.current_dir(nothing.path()))
        .fails(3, &["nor a folder above it contains pbg.toml"]);
    // `check` predicts the figures of a pass that the report shows.
    let planned = place.run(["check"]).succeeds().stdout;
    let predicted = planned.split_once("bucket order ").unwrap().1;
    let predicted = predicted.split_once("),").unwrap().0;
    assert!(report.contains(predicted), "{predicted}:\n{report}");

    let files: Vec<PathBuf> = fs::read_dir(place.path("curves"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let bytes = fs::read(&files[0]).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("bucket/loss").count(), 18);
    assert_eq!(text.matches("epoch/loss").count(), 2);
}

#[test]
fn a_browser_draws_every_page_without_a_complaint() {
    let Some(browser) = browser() else {
        without(
            "chromium",
            "there is none here (the Debian package `chromium` has one)",
        );
        return;
    };
    let place = Workplace::with_dataset(CONFIG);
    place
        .run("orders compare -p 4,8 -c 2,3 --seeds 2 --html compare.html".split(' '))
        .succeeds();
    place.run(study(&["--html", "study.html"])).succeeds();
    place.run(["train", "--progress", "none"]).succeeds();
    place
        .run(["report", "model", "--html", "run.html"])
        .succeeds();
    for page in ["compare.html", "study.html", "run.html"] {
        drawn(&browser, &place.path(page), page);
    }
}

/// Opens a page and waits for its figures.
fn drawn(browser: &Path, page: &Path, name: &str) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--virtual-time-budget=60000",
            "--enable-logging=stderr",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let console: Vec<&str> = errors
        .lines()
        .filter(|line| line.contains(":CONSOLE"))
        .collect();
    assert!(console.is_empty(), "{name}: {console:#?}");
    let dom = String::from_utf8_lossy(&output.stdout);
    let figures = dom.matches("<figure>").count();
    assert!(figures > 0, "{name}");
    assert!(
        dom.contains(&format!("data-drawn=\"{figures}\"")),
        "{name}: not all of {figures} figures are drawn"
    );
    assert!(
        dom.matches("class=\"main-svg\"").count() >= figures,
        "{name}"
    );
}

fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&folders)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|path| path.is_file())
}

/// An order has one colour on a page, even if the cases in its figures sort the orders differently.
#[test]
fn an_order_has_one_colour_in_all_figures() {
    let place = Workplace::empty();
    let orders = "--order stratified --order hilbert --order beta --order random";
    let compare = format!("orders compare -p 4,8 -c 2,4 {orders} --html compare.html");
    place.run(compare.split(' ')).succeeds();
    let page = place.read("compare.html");
    let (_, rest) = page.split_once(r#"id="figures">"#).unwrap();
    let (figures, _) = rest.split_once("</script>").unwrap();
    let figures: Vec<Value> = serde_json::from_str(figures).unwrap();
    let mut colours: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut shown = |order: &Value, colour: &Value| {
        let colours = colours.entry(order.as_str().unwrap().to_owned());
        colours
            .or_default()
            .push(colour.as_str().unwrap().to_owned());
    };
    for figure in &figures {
        for trace in figure["data"].as_array().unwrap() {
            if figure["id"] == "swaps" {
                let bars = trace["y"].as_array().unwrap().iter();
                bars.zip(trace["marker"]["color"].as_array().unwrap())
                    .for_each(|(order, colour)| shown(order, colour));
            } else if trace["line"]["color"].is_string() && trace["showlegend"] != false {
                shown(&trace["name"], &trace["line"]["color"]);
            }
        }
    }
    for order in ["stratified", "hilbert", "beta", "random"] {
        let found = &colours[order];
        assert!(found.len() > 4, "{order}: {found:?}");
        assert!(
            found.iter().all(|colour| *colour == found[0]),
            "{order}: {found:?}"
        );
    }
}

#[test]
fn check_warns_of_orders_that_leave_a_buffer_unused() {
    let config = CONFIG.replace("num_partitions = 3", "num_partitions = 16");
    assert!(config.contains("num_partitions = 16"), "{config}");
    let place = Workplace::with_dataset(&config);
    let check = |order: &str| {
        let order = format!("bucket_order={order}");
        let buffer = "buffer_partitions=4";
        place
            .run(["check", "--set", buffer, "--set", &order])
            .succeeds()
            .stderr
    };
    let warned = check("inside_out");
    let words = "pbg-host orders compare --partitions 16 --buffer 4";
    assert!(warned.contains(words), "{warned}");
    assert!(!check("optimal").contains(words));
}
