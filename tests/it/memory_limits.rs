//! Memory is computed before it is allocated: `check` needs little, whatever it announces. Under limits that the system
//! sets, every command succeeds or is refused with numbers; none is killed, and none aborts.
//!
//! `PBG_MEMORY_CASES=N` tries N random configurations, `PBG_MEMORY_CASE=SEED` one of them.

use std::process::Command;

use pbg_fuzz::Dice;
use serde_json::Value;

use crate::support::graph::CONFIG;
use crate::support::world::World;
use crate::support::{Finished, Workplace, cases, finish, with};

/// Random configurations in the test command, and in a long one.
const CASES: [u64; 2] = [24, 300];
/// Limit of the main memory that `check` may occupy, in bytes.
const CHECK_BYTES: u64 = 100 << 20;
/// Limit of the CPU seconds that `check` may take.
const CHECK_SECONDS: u64 = 2;
/// Bytes of address space for the program's own libraries and code, which occupy little memory, and for the stacks of
/// its threads.
const MARGIN: u64 = 256 << 20;
/// Limit of the address space of a test's run, in bytes.
const MOST: u64 = 1 << 30;

/// Runs the program in a shell after `limit`, a shell command.
fn limited(place: &Workplace, limit: &str, arguments: &[&str]) -> Finished {
    let program = place.command([""; 0]);
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")]);
    shell.arg(program.get_program()).args(arguments);
    shell.current_dir(place.path("."));
    for (name, value) in program.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    finish(&mut shell)
}

/// Runs the program with at most `bytes` bytes of address space.
fn within(place: &Workplace, bytes: u64, arguments: &[&str]) -> Finished {
    limited(place, &format!("ulimit -v {}", bytes >> 10), arguments)
}

/// Asserts that a command succeeded or was refused with numbers; returns whether it ran.
#[track_caller]
fn done_or_refused(what: &str, run: Finished) -> bool {
    match run.code() {
        Some(0) => true,
        // A model with such numbers may diverge.
        Some(7) => true,
        Some(8) => {
            let words = ["of memory", "are left"];
            let has_numbers = words.iter().all(|word| run.stderr.contains(word));
            assert!(has_numbers, "{what}:\n{}", run.stderr);
            false
        }
        code => panic!(
            "{what}: {code:?}, signal {:?}\n{}",
            run.signal(),
            run.stderr
        ),
    }
}

/// Returns the peak of main memory that a command with `--verbose` reports, in bytes.
fn peak(stderr: &str) -> u64 {
    let (_, behind) = stderr
        .split_once("of main memory used at peak (")
        .unwrap_or_else(|| panic!("no peak in\n{stderr}"));
    behind.split_once(" bytes)").unwrap().0.parse().unwrap()
}

/// Runs `check` with these keys within its own limits; returns the bytes that it announces, or nothing if the keys are
/// refused.
fn checked(place: &Workplace, keys: &[&str]) -> Option<u64> {
    let check = with(&["check", "--json", "-v"], keys);
    let check = limited(place, &format!("ulimit -t {CHECK_SECONDS}"), &check);
    match check.code() {
        Some(0) => {}
        // The keys contradict each other.
        Some(3) => return None,
        code => panic!("{code:?}, signal {:?}\n{}", check.signal(), check.stderr),
    }
    let occupied = peak(&check.stderr);
    assert!(occupied < CHECK_BYTES, "check occupied {occupied} bytes");
    let report: Value = serde_json::from_str(&check.stdout).unwrap();
    let parts = report["memory"].as_array().unwrap();
    let bytes = parts.iter().map(|part| part[1].as_u64().unwrap());
    Some(bytes.fold(0, u64::saturating_add))
}

/// Returns random keys, from small values to the largest that are allowed.
fn random_keys(dice: &mut Dice) -> Vec<String> {
    let mut power = |most: usize| 1_u64 << dice.from(0, most);
    let (negatives, uniform) = (power(12), power(31));
    let mut keys = vec![
        format!("dimension={}", 4 * power(14)),
        format!("num_batch_negs={negatives}"),
        format!("batch_size={}", negatives * power(19)),
        format!("num_uniform_negs={uniform}"),
        format!("eval_num_batch_negs={}", power(31)),
        format!("eval_num_uniform_negs={}", power(31)),
        format!("workers={}", power(5)),
    ];
    let operators = [
        "none",
        "diagonal",
        "linear",
        "affine",
        "complex_diagonal",
        "rotate",
    ];
    keys.push(format!("relations.0.operator={}", dice.pick(&operators)));
    if dice.once_in(2) {
        keys.push(format!(
            "execution.slice_bytes={}",
            1_u64 << dice.from(0, 40)
        ));
    }
    // Most configurations must be small enough to be trained.
    keys.retain(|_| !dice.once_in(3));
    keys
}

/// Tests a random world: announces its memory, trains it within that memory and a margin, and runs every query below
/// limits of any size.
fn one(seed: u64) {
    let (world, mut dice) = (World::new(seed), Dice::new(seed ^ 0x6d65_6d6f));
    let place = world.imported();
    let keys = random_keys(&mut dice);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    eprintln!("case {seed}: {keys:?}");
    let Some(announced) = checked(&place, &keys) else {
        return;
    };
    let enough = announced.saturating_add(MARGIN);
    let train = with(&["train", "--progress", "none"], &keys);
    // A limit that may be too low, before a checkpoint exists.
    let below = dice.from(160 << 20, enough.min(MOST) as usize) as u64;
    let trained = done_or_refused("train with less", within(&place, below, &train));
    let run = within(&place, enough.min(MOST), &train);
    let trained = done_or_refused("train", run) || trained;
    assert!(
        trained || enough > MOST,
        "{announced} bytes were announced and available, but it was refused"
    );
    if !trained {
        return;
    }
    let commands: [&[&str]; 4] = [
        &["eval", "--edges", "valid", "--checkpoint", "model"],
        &[
            "export",
            "--format",
            "npy",
            "--checkpoint",
            "model",
            "--out",
            "exported",
        ],
        &["neighbors", "model", "kind0 1"],
        &["index", "model"],
    ];
    for command in commands {
        let bytes = dice.from(160 << 20, enough.min(MOST) as usize) as u64;
        let run = within(&place, bytes, command);
        // A run that diverged may leave no checkpoint, and a name may be in no edge.
        if !matches!(run.code(), Some(3..=5)) {
            done_or_refused(&command.join(" "), run);
        }
    }
}

#[test]
fn random_configurations_are_announced_and_run_or_are_refused() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    if let Some(seed) = number("PBG_MEMORY_CASE") {
        return one(seed);
    }
    for seed in 0..number("PBG_MEMORY_CASES").unwrap_or(cases(CASES[0], CASES[1])) {
        one(seed);
    }
}

const MATRICES: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 400
dynamic_relations = true
comparator = "dot"
loss_fn = "softmax"
num_epochs = 1
workers = 1
eval_fraction = 0.0

[entities.node]
num_partitions = 1

[[relations]]
name = "any"
lhs = "node"
rhs = "node"
operator = "linear"
"#;

/// Imports a graph of 1,345 relations.
fn many_relations() -> Workplace {
    let place = Workplace::empty();
    place.write("pbg.toml", MATRICES);
    let line = |i: u32| format!("n{}\tr{}\tn{}\n", i % 50, i % 1345, i * 7 % 50);
    place.write("train.tsv", (0..2000).map(line).collect::<String>());
    place
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    place
}

#[test]
fn parameters_of_relations_are_announced_and_not_taken() {
    let place = many_relations();
    // Two matrices per relation, the optimizer's state and a copy: 16 bytes for each of these numbers.
    let numbers = |dimension: u64| 2 * 1345 * dimension * dimension;
    for (dimension, memory) in [(400, "GiB of memory"), (65536, "TiB of memory")] {
        let key = format!("dimension={dimension}");
        let announced = checked(&place, &[&key]).unwrap();
        assert!(announced > 16 * numbers(dimension), "{announced} bytes");
        let limit = "ulimit -v 3000000";
        let check = limited(&place, limit, &with(&["check"], &[&key])).succeeds();
        assert!(check.stderr.contains("of memory"), "{}", check.stderr);
        let train = with(&["train", "--progress", "none"], &[&key]);
        let words = ["training takes up to", memory, "are left"];
        limited(&place, limit, &train).fails(8, &words);
    }
    // Without a limit, the machine's own memory is compared.
    let train = with(&["train", "--progress", "none"], &["dimension=65536"]);
    place
        .run(train)
        .fails(8, &["training takes up to", "TiB of memory", "are left"]);
    assert!(!place.path("model/manifest.json").exists());
}

#[test]
fn what_reads_a_model_is_refused_where_it_has_no_room() {
    let place = many_relations();
    place
        .run(with(&["train", "--progress", "none"], &["dimension=100"]))
        .succeeds();
    // Matrices of 1,345 relations in both directions: 215 MB with the optimizer's state, and as much again while they
    // are read.
    let commands: [&[&str]; 8] = [
        &["eval", "--edges", "train", "--checkpoint", "model"],
        &[
            "export",
            "--format",
            "npy",
            "--checkpoint",
            "model",
            "--out",
            "exported",
        ],
        &["neighbors", "model", "n1"],
        &["predict", "model", "--head", "n1", "--relation", "r1"],
        &["score", "model"],
        &["index", "model"],
        &["combine", "average", "model", "model", "--out", "combined"],
        &[
            "train",
            "--progress",
            "none",
            "--set",
            "dimension=100",
            "--set",
            "checkpoint_path=second",
            "--set",
            "init_path=model",
        ],
    ];
    for command in commands {
        let run = within(&place, 320 << 20, command);
        run.fails(8, &["MiB of memory", "are left"]);
        within(&place, 1200 << 20, command).succeeds();
    }
}

const GRID: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
num_epochs = 1
workers = 1
eval_fraction = 0.0

[entities.node]
num_partitions = 700

[[relations]]
name = "follows"
lhs = "node"
rhs = "node"
"#;

#[test]
fn plans_of_large_grids_are_announced_and_refused() {
    let place = Workplace::empty();
    place.write("pbg.toml", GRID);
    let line = |i: u32| format!("n{}\tn{}\n", i % 900, i * 7 % 900);
    place.write("train.tsv", (0..2000).map(line).collect::<String>());
    place
        .run(["import", "--edges", "train=train.tsv"])
        .succeeds();
    // `check` does not compute an order of 490,000 buckets, and a run that needs it is refused if there is no room for
    // it.
    let announced = checked(&place, &[]).unwrap();
    assert!(announced > 1 << 30, "{announced} bytes");
    let check = place.run(["check"]).succeeds();
    assert!(check.stdout.contains("not asked"), "{}", check.stdout);
    let words = ["of memory", "are left"];
    within(&place, 900 << 20, &["train", "--progress", "none"]).fails(8, &words);
    let machines = ["check", "--machines", "2"];
    within(&place, 400 << 20, &machines).fails(8, &words);
    let compare = ["orders", "compare", "--partitions", "2048"];
    within(&place, 900 << 20, &compare).fails(8, &words);
}

#[test]
fn check_counts_the_memory_of_partition_servers() {
    let place = Workplace::with_dataset(CONFIG);
    let check = |servers: &str, machines: &str| {
        let set = [
            format!("num_partition_servers={servers}"),
            "distributed_init_method=file:///nowhere/rendezvous".to_owned(),
        ];
        let set = set.iter().flat_map(|key| ["--set", key.as_str()]);
        let command = ["check", "--machines", machines].into_iter().chain(set);
        place.run(command).succeeds().stdout
    };
    let own = check("-1", "2");
    assert!(own.contains("partition server of this trainer"), "{own}");
    let line = |said: &str, part: &str| {
        let found = said.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    // Each of several machines has a smaller share.
    let of_all = line(&check("-1", "1"), "partition server of this trainer");
    assert_ne!(of_all, line(&own, "partition server of this trainer"));
    let others = check("3", "2");
    assert!(!others.contains("of this trainer"), "{others}");
    assert!(line(&others, "3 partition servers").contains("`--memory` of at least"));
    assert!(!check("0", "2").contains("partition server"));
}
