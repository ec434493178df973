//! Benchmarks, each of which reports its ceiling next to its figures.

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::CONFIG;
use crate::together::nats_server;

/// Returns the figures of a benchmark, and asserts that all are positive.
fn figures<'a>(place: &Workplace, args: &str, names: &[&'a str]) -> Vec<(&'a str, f64)> {
    let run = place.run(args.split(' ').chain(["--json"])).succeeds();
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let figure = |name: &&'a str| {
        let figure = json.pointer(name).and_then(Value::as_f64);
        let figure = figure.unwrap_or_else(|| panic!("no {name}: {json}"));
        assert!(figure > 0.0, "{name}: {json}");
        (*name, figure)
    };
    names.iter().map(figure).collect()
}

#[test]
fn storage_is_measured_beside_plain_files() {
    let place = Workplace::empty();
    figures(
        &place,
        "bench storage --size 1M",
        &[
            "/bytes",
            "/write/bytes_per_second",
            "/plain_write/bytes_per_second",
            "/read/bytes_per_second",
            "/plain_read/bytes_per_second",
            "/memory_copy/bytes_per_second",
        ],
    );
    let text = place.run(["bench", "storage", "--size", "1M"]).succeeds();
    assert!(text.stdout.contains("of plain files"), "{}", text.stdout);
    place
        .run(["bench", "storage", "--size", "much"])
        .fails(2, &["not a size"]);
    nothing_stays(&place);
}

#[test]
fn imports_are_measured_beside_reading_lines() {
    let place = Workplace::empty();
    let found = figures(
        &place,
        "bench import --edges 20000 --entities 1000 --memory 64M",
        &["/edges", "/entities", "/edges_per_cpu_second", "/ceiling"],
    );
    assert_eq!(found[0].1, 20_000.0);
    assert!(found[1].1 <= 1000.0);
    assert!(
        found[2].1 < found[3].1,
        "faster than its ceiling: {found:?}"
    );
    place
        .run(["bench", "import", "--entities", "1"])
        .fails(2, &["--entities must be at least 2"]);
    nothing_stays(&place);
}

#[test]
fn ranking_is_measured_beside_its_products() {
    let place = Workplace::with_dataset(CONFIG);
    place.run(["bench", "eval"]).fails(5, &["model"]);
    place.run(["train", "--progress", "none"]).succeeds();
    let found = figures(
        &place,
        "bench eval --edges test --limit 10",
        &["/scores", "/scores_per_cpu_second", "/ceiling"],
    );
    // Both sides of ten edges, each ranked among all eighty entities.
    assert_eq!(found[0].1, 10.0 * 2.0 * 80.0);
}

fn nothing_stays(place: &Workplace) {
    let entries = std::fs::read_dir(place.path("")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains("bench")),
        "{names:?}"
    );
}

#[test]
fn training_steps_are_measured_beside_their_products() {
    let place = Workplace::empty();
    figures(
        &place,
        "bench kernels --case DistMult --seconds 0.05",
        &[
            "/0/edges_per_cpu_second",
            "/0/ceiling",
            "/0/loss_by_hand",
            "/0/buffer_bytes",
        ],
    );
    place
        .run(["bench", "kernels", "--case", "gnn"])
        .fails(2, &["no case contains `gnn` in its name", "DistMult"]);
    nothing_stays(&place);
}

#[test]
fn workers_are_measured_beside_one_and_beside_as_many_threads_of_products() {
    let place = Workplace::with_dataset(CONFIG);
    let found = figures(
        &place,
        "bench scale-up --workers 1,2 --epochs 2",
        &[
            "/cores",
            "/edges",
            "/runs/0/edges_per_second",
            "/runs/1/edges_per_second",
            "/runs/1/speed_up",
            "/runs/1/efficiency",
            "/runs/0/products_per_second",
            "/runs/1/products_per_second",
        ],
    );
    assert!((found[4].1 - found[3].1 / found[2].1).abs() < 1e-9);
    assert!((found[5].1 - found[4].1 / 2.0).abs() < 1e-9);
    let text = place.run(["bench", "scale-up"]).succeeds().stdout;
    assert!(text.contains("| workers |"), "{text}");
    place
        .run(["bench", "scale-up", "--workers", "0"])
        .fails(2, &["--workers", "1..=4096"]);
    let gpu = ["bench", "scale-up", "--set", "execution.device=\"cuda:0\""];
    place.run(gpu).fails(3, &["execution.device"]);
    nothing_stays(&place);
}

#[test]
fn trainers_are_measured_beside_rounds_without_waits() {
    let Some(server) = nats_server() else {
        return;
    };
    let place = Workplace::empty();
    let server = server.display();
    let found = figures(
        &place,
        &format!("bench cluster -p 4 -m 2 --seconds 0.01 --jitter 0.5 --nats-server {server}"),
        &[
            "/buckets",
            "/ideal_rounds",
            "/rounds",
            "/counted_rounds",
            "/mean_busy",
            "/busy/1",
            "/transaction_ms_p50",
            "/transaction_ms_p99",
            "/loads",
            "/writes",
        ],
    );
    assert_eq!((found[0].1, found[1].1), (16.0, 8.0));
    assert!(found[3].1 >= 8.0 && found[4].1 <= 1.0, "{found:?}");
    let text = format!("bench cluster -p 4 -m 2 --seconds 0.01 --tree-init --nats-server {server}");
    let text = place.run(text.split(' ')).succeeds();
    assert!(
        text.stdout.contains("grown from one bucket"),
        "{}",
        text.stdout
    );
    place
        .run(["bench", "cluster", "--seconds", "0"])
        .fails(2, &["seconds from 0.001"]);
    place
        .run(["bench", "cluster", "--nats-server", "nowhere"])
        .fails(10, &["nowhere"]);
    place
        .run(["bench", "cluster", "--folder", "nowhere/deep"])
        .fails(2, &["nowhere/deep is not a folder"]);
    nothing_stays(&place);
}

#[test]
fn check_says_how_long_an_epoch_takes() {
    let place = Workplace::with_dataset(CONFIG);
    let found = figures(
        &place,
        "check --time",
        &[
            "/time/edges",
            "/time/measured_edges",
            "/time/measured_seconds",
            "/time/seconds_per_epoch",
        ],
    );
    // The graph is small, so it was trained whole.
    assert_eq!(found[0].1, found[1].1);
    assert_eq!(found[2].1, found[3].1);
    let text = place.run(["check", "--time"]).succeeds().stdout;
    assert!(text.contains("estimated time"), "{text}");
    assert!(!place.path("model").exists());
    nothing_stays(&place);
}
