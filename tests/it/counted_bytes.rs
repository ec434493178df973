//! Bytes of bucket orders: plans, runs, studies and the system count the same, and a limited disk stalls as predicted.

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::CONFIG;

/// Wide embeddings, so that partitions are most of what a run reads and writes.
const WIDE: &str = "--set dimension=4000 --set num_epochs=1";

/// Bytes of the 80 embeddings of such a run, each with a number of the optimizer.
const EMBEDDINGS: u64 = 80 * 4 * (4000 + 1);

fn json(place: &Workplace, path: &str) -> Value {
    serde_json::from_str(&place.read(path)).unwrap()
}

fn run(place: &Workplace, command: &str) {
    place.run(command.split_whitespace()).succeeds();
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// A study with reads and writes limited to `megabytes` per second, and the last epoch of its only run.
fn limited_study(place: &Workplace, order: &str, megabytes: &str) -> Value {
    let limit = format!("--io-limit {megabytes} --json s.json");
    run(
        place,
        &format!("orders train pbg.toml --order {order} {WIDE} {limit}"),
    );
    json(place, "s.json")["orders"][0]["runs"][0]["epochs"][0].clone()
}

#[test]
fn bytes_mean_the_same_everywhere() {
    let place = Workplace::with_dataset(CONFIG);
    run(
        &place,
        &format!("orders compare pbg.toml --order random {WIDE} --json c.json"),
    );
    let planned = json(&place, "c.json")["cases"][0]["orders"][0]["seeds"][0].clone();
    // Without a limit, commits would be as frequent as they are cheap.
    let trained = limited_study(&place, "random", "1000000");
    let metrics = place.read("model-study/random/seed-7/metrics.jsonl");
    let events = metrics
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut epochs = events.filter(|event| event["event"] == "epoch_finished");
    let told = epochs.next().unwrap()["io"].clone();
    for key in ["bytes_read", "bytes_written"] {
        assert!(number(&planned[key]) > 0, "{planned}");
        assert_eq!(planned[key], trained[key], "{key}");
        assert_eq!(told[key], trained[key], "{key}");
    }
    // Nothing was committed before the end, so evictions wrote everything that left the buffer, and the commit the rest.
    let disk = &trained["disk"];
    assert_eq!(disk["evicted"], trained["bytes_written"]);
    assert_eq!(disk["committed"], planned["bytes_final"]);
    if cfg!(target_os = "linux") {
        let stored = number(&disk["evicted"]) + number(&disk["committed"]);
        let written = number(&disk["process"]["written"]);
        // Parameters, manifests and metrics come on top.
        assert!(
            (stored..stored + 300_000).contains(&written),
            "{written} written, of which {stored} are partitions"
        );
    }
}

/// Every partition that left the buffer was written by some process, whichever of them was stopped or killed.
#[test]
fn an_epoch_counts_the_bytes_of_all_processes_that_trained_it() {
    for signal in ["INT", "KILL"] {
        let place = Workplace::with_dataset(CONFIG);
        // Commits after every bucket, so that a killed process leaves most of its work.
        let study = format!(
            "orders train pbg.toml --order random {WIDE} --set checkpoint_interval=0 --json s.json"
        );
        let slow = format!("{study} --io-limit 2,2");
        let metrics = "model-study/random/seed-7/checkpoint/metrics.jsonl";
        let trained = || match place.path(metrics).exists() {
            true => place.read(metrics).matches("bucket_finished").count(),
            false => 0,
        };
        let mut first = place.start(slow.split_whitespace());
        assert!(first.wait_until(|| trained() >= 6), "{}", first.stderr());
        match signal {
            "INT" => {
                first.signal("INT");
                assert_eq!(first.finish().code(), Some(130));
            }
            _ => first.kill(),
        }
        assert!(trained() < 9, "the epoch is over");
        let manifest = json(&place, "model-study/random/seed-7/checkpoint/manifest.json");
        let before = manifest["run"]["state"]["epoch"]["disk"].clone();
        run(&place, &slow);
        let epoch = json(&place, "s.json")["orders"][0]["runs"][0]["epochs"][0].clone();
        let written = |disk: &Value| number(&disk["evicted"]) + number(&disk["committed"]);
        let left = number(&epoch["bytes_written"]);
        let all = written(&epoch["disk"]);
        assert!(
            all >= left,
            "{signal}: {all} of {left} were written: {epoch}"
        );
        // Nor is anything counted twice: each of the nine buckets changes its partitions, which are then written at most
        // once. Every partition is in five buckets.
        assert!(all <= 5 * EMBEDDINGS, "{signal}: {all}: {epoch}");
        // Both processes have written partitions.
        let began = written(&before);
        assert!(began > 0 && all > began, "{signal}: {began} of {all}");
        // So says the file with the events of the run, which a single run has too.
        let kept = place.read("model-study/random/seed-7/metrics.jsonl");
        let mut events = kept
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let told = events
            .find(|event| event["event"] == "epoch_finished")
            .unwrap()["disk"]
            .clone();
        assert!(
            written(&told) > began && written(&told) < all,
            "{signal}: {told}"
        );
        if cfg!(target_os = "linux") {
            let process = number(&told["process"]["written"]);
            assert!(process > left / 2, "{signal}: {process} of {left}");
            // Parameters, manifests and metrics come on top.
            assert!(process < all + 2_000_000, "{signal}: {process} of {all}");
        }
    }
}

/// A disk that the configuration limits is one that the option limits, also in one direction.
#[test]
fn keys_limit_a_disk_as_the_option_does() {
    let place = Workplace::with_dataset(CONFIG);
    let keys = "--set execution.write_mbps=4 --json s.json --html s.html";
    let study = format!("orders train pbg.toml --order random {WIDE} {keys}");
    let printed = place.run(study.split_whitespace()).succeeds().stdout;
    let epoch = json(&place, "s.json")["orders"][0]["runs"][0]["epochs"][0].clone();
    let predicted = epoch["predicted_stall_seconds"].as_f64();
    assert!(
        predicted.is_some_and(|seconds| seconds > 0.0),
        "{printed}\n{epoch}"
    );
    assert!(place.read("s.html").contains("writes 4 MB/s"));
    // Nothing is committed before the end, which the prediction would not know.
    assert_eq!(epoch["disk"]["evicted"], epoch["bytes_written"]);
}

#[test]
fn a_limited_disk_stalls_at_least_as_predicted() {
    let place = Workplace::with_dataset(CONFIG);
    let epoch = limited_study(&place, "lexicographic", "4,2");
    let seconds = |key: &str| epoch[key].as_f64().unwrap();
    let bytes = seconds("bytes_read") / 4e6 + seconds("bytes_written") / 2e6;
    let predicted = seconds("predicted_stall_seconds");
    assert!(
        0.5 * bytes < predicted && predicted <= bytes,
        "{predicted} of {bytes} s"
    );
    // A busy machine stalls longer.
    assert!(seconds("stall_seconds") > 0.8 * predicted, "{epoch}");
    let table = place.run(
        format!("orders train pbg.toml --order lexicographic {WIDE} --io-limit 4,2")
            .split_whitespace(),
    );
    let table = table.succeeds().stdout;
    for heading in [
        "stall predicted",
        "Bytes by what counts them",
        "process wrote",
    ] {
        assert!(table.contains(heading), "{heading}:\n{table}");
    }
    // Runs with another disk are other runs.
    place
        .run(format!("orders train pbg.toml --order lexicographic {WIDE}").split_whitespace())
        .fails(5, &["execution.read_mbps", "--study"]);
    place
        .run([
            "orders",
            "train",
            "pbg.toml",
            "--order",
            "beta",
            "--io-limit",
            "0",
        ])
        .fails(2, &["200,100"]);
}

#[test]
fn partitions_of_a_grid_may_differ_in_size() {
    let place = Workplace::empty();
    let compare =
        "orders compare -p 12 -c 3 --order optimal --order beta --order legend --json c.json";
    let read = |more: &str| {
        run(&place, &format!("{compare} {more}"));
        let case = json(&place, "c.json")["cases"][0].clone();
        let orders = case["orders"].as_array().unwrap().iter();
        let of = |order: &Value| {
            let name = order["order"].as_str().unwrap().to_owned();
            (name, number(&order["seeds"][0]["bytes_read"]))
        };
        orders.map(of).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (even, skewed) = (read(""), read("--skew 1 --entity-skew 1"));
    let saved = |read: &std::collections::BTreeMap<String, u64>| {
        read["beta"] as f64 / read["optimal"] as f64
    };
    assert!(
        saved(&even) >= 1.0 && saved(&skewed) > 1.1,
        "{even:?} {skewed:?}"
    );
    assert!(skewed["optimal"] <= skewed["legend"], "{skewed:?}");
    place
        .run(["orders", "compare", "-p", "4", "--skew=-1"])
        .fails(2, &["between 0 and 10"]);
    place
        .run(["orders", "compare", "--skew", "1"])
        .fails(2, &["--partitions"]);
}
