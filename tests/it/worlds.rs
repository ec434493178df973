//! Complete runs over random small worlds: every edge is trained once per epoch, the bytes are the same however often
//! the run is interrupted, memory stays within the announced bound, and files hold what their format says.
//!
//! `PBG_WORLDS=N` tries N worlds, `PBG_WORLD=SEED` one of them.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use pbg_fuzz::Dice;
use serde_json::Value;

use crate::support::faults::{Fault, inject};
use crate::support::tensors::tensors;
use crate::support::world::World;
use crate::support::{Workplace, cases, finish};

/// Worlds in the test command, and in a long one.
const WORLDS: [u64; 2] = [20, 300];

const TRAIN: [&str; 3] = ["train", "--progress", "none"];

/// Returns the number in the variable `name`.
fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("the variable is a number"))
}

/// Returns the events of a kind in the metrics of a run.
fn events(place: &Workplace, kind: &str) -> Vec<Value> {
    let text = place.read("model/metrics.jsonl");
    let all = text.lines().map(|line| serde_json::from_str(line).unwrap());
    all.filter(|event: &Value| event["event"] == kind).collect()
}

/// Asserts that every epoch trains or holds out each edge of each set once: passes are complete, and their buckets have
/// as many edges as the dataset's.
fn edges_once_per_epoch(world: &World, place: &Workplace) {
    let manifest: Value = serde_json::from_str(&place.read("data/manifest.json")).unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    let mut expected = BTreeMap::new();
    for (index, (name, edges)) in world.sets.iter().enumerate() {
        let set = &manifest["edge_sets"][name];
        assert_eq!(number(&set["edges"]), *edges as u64);
        for epoch in 0..world.epochs as u64 {
            for batch in set["batches"].as_array().unwrap() {
                let bucket = (
                    epoch,
                    index as u64,
                    number(&batch["lhs"]),
                    number(&batch["rhs"]),
                );
                *expected.entry(bucket).or_insert(0) += number(&batch["rows"]);
            }
        }
    }
    let mut found = BTreeMap::new();
    let mut visits = BTreeMap::new();
    for event in events(place, "bucket_finished") {
        let bucket = ["epoch", "edge_set", "lhs", "rhs"].map(|key| number(&event[key]));
        let held_out = event["eval_before"]["count"].as_u64().unwrap_or(0);
        let edges = number(&event["stats"]["count"]) + held_out;
        let [epoch, set, lhs, rhs] = bucket;
        if edges > 0 {
            *found.entry((epoch, set, lhs, rhs)).or_insert(0) += edges;
        }
        let visit = (bucket, number(&event["edge_chunk"]));
        assert!(visits.insert(visit, ()).is_none(), "trained twice: {event}");
    }
    assert_eq!(found, expected);
    let epochs = events(place, "epoch_finished");
    assert_eq!(epochs.len(), world.epochs);
}

/// Asserts that the measured peak of the run is at most what `check` announced.
fn within_the_bound(place: &Workplace, bound: u64) {
    for epoch in events(place, "epoch_finished") {
        let peak = epoch["peak_bytes"]
            .as_u64()
            .expect("Linux reports the peak");
        assert!(peak <= bound, "{peak} bytes at the peak, {bound} announced");
    }
}

/// Returns the sum of the parts that `check` lists.
fn announced(place: &Workplace) -> u64 {
    let report = place.run(["check", "--json"]).succeeds().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let parts = report["memory"].as_array().unwrap().iter();
    parts.map(|part| part[1].as_u64().unwrap()).sum()
}

fn config_has(place: &Workplace, key: &str) -> bool {
    place.read("pbg.toml").lines().any(|line| line == key)
}

/// Asserts that the checkpoint is readable, every table has a row per entity, and every number is finite.
fn files_are_valid(place: &Workplace) {
    place.run(["check"]).succeeds();
    let manifest: Value = serde_json::from_str(&place.read("data/manifest.json")).unwrap();
    let mut tables = 0;
    for ((file, name), tensor) in tensors(place, "model") {
        assert!(tensor.numbers.iter().all(|x| x.is_finite()), "{file}");
        let Some(table) = file.strip_prefix("embeddings_") else {
            continue;
        };
        let half = config_has(place, "storage = \"bf16\"") && name == "embeddings";
        assert_eq!(tensor.dtype, if half { "BF16" } else { "F32" }, "{file}");
        let (kind, partition) = table.rsplit_once('_').unwrap();
        let kind = &manifest["entities"][kind];
        let rows = match kind["featurized"] == true {
            true => &kind["features"]["count"],
            false => &kind["counts"][partition.parse::<usize>().unwrap()],
        };
        let has = |name: &&str| config_has(place, &format!("optimizer = {name:?}"));
        let expected = ["adagrad", "adam"].into_iter().find(has);
        let expected = expected.unwrap_or("row_adagrad");
        assert!(
            ["embeddings", expected].contains(&name.as_str()),
            "{file}: {name}"
        );
        assert_eq!(Some(tensor.shape[0]), rows.as_u64(), "{file}");
        tables += 1;
    }
    assert!(tables > 0);
}

/// Repeats the run, killed or interrupted at random operations on files; returns its folder.
fn interrupted(start: &Workplace, dice: &mut Dice, operations: usize) -> Workplace {
    let place = start.copied();
    let mut stops = 0;
    for _ in 0..dice.from(1, 3) {
        let fault = *dice.pick(&[Fault::Kill, Fault::CtrlC]);
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = place.command(TRAIN);
        let at = dice.from(1, operations);
        inject(&mut command, &place.path("model"), log.path(), fault, at);
        let finished = finish(&mut command);
        stops += match (fault, finished.code(), finished.signal()) {
            (Fault::Kill, None, Some(9)) | (Fault::CtrlC, Some(130), None) => 1,
            // Fewer operations were left than the number before the fault.
            (_, Some(0), None) => 0,
            (_, code, signal) => panic!("{code:?} {signal:?}\n{}", finished.stderr),
        };
        place.run(["check"]).succeeds();
    }
    eprintln!("  stopped {stops} times");
    place.run(TRAIN).succeeds();
    place
}

fn undisturbed(start: &Workplace) -> (Workplace, usize) {
    let place = start.copied();
    let bound = announced(&place);
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut command = place.command(TRAIN);
    inject(
        &mut command,
        &place.path("model"),
        log.path(),
        Fault::Kill,
        0,
    );
    finish(&mut command).succeeds();
    within_the_bound(&place, bound);
    let operations = fs::read_to_string(log.path()).unwrap().lines().count();
    (place, operations)
}

fn holds(seed: u64) {
    let world = World::new(seed);
    let start = world.imported();
    let (whole, operations) = undisturbed(&start);
    edges_once_per_epoch(&world, &whole);
    files_are_valid(&whole);
    let parts = interrupted(&start, &mut Dice::new(!seed), operations);
    edges_once_per_epoch(&world, &parts);
    files_are_valid(&parts);
    if world.workers == 1 {
        assert_eq!(parts.committed("model"), whole.committed("model"));
    }
}

#[test]
fn random_worlds_train_as_promised() {
    if let Some(seed) = variable("PBG_WORLD") {
        eprintln!("{}", World::new(seed).config);
        return holds(seed);
    }
    let worlds = variable("PBG_WORLDS").unwrap_or(cases(WORLDS[0], WORLDS[1]));
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= worlds {
                return;
            }
            eprintln!("PBG_WORLD={seed}");
            holds(seed);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}
