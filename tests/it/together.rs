//! Several trainers of one run, as separate processes, with a real NATS server between them.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::Workplace;
use crate::support::graph::CONFIG;
use crate::tools::without;

mod encrypted;
mod evaluating;
mod faults;
mod killed;
mod outage;
mod partition_servers;
mod paused;
mod refused;
mod schedules;
mod scripts;
mod selectors;
mod validating;

/// Longest wait of a test, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the server's program, which the set-up of the tests installs.
pub(crate) fn nats_server() -> Option<PathBuf> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.deps/nats/nats-server");
    let program = env::var_os("PBG_TEST_NATS").map_or_else(|| installed.into(), PathBuf::from);
    let exists = program.is_file();
    if !exists {
        let why = format!("there is no nats-server ({})", program.display());
        assert!(
            env::var_os("PBG_TEST_NATS").is_none(),
            "{why}: PBG_TEST_NATS is an absolute path"
        );
        without("nats", &why);
    }
    exists.then_some(program)
}

/// A folder with the dataset and the configuration of one run's trainers.
struct Meeting {
    place: Workplace,
    nats: PathBuf,
    /// The lease is long unless a trainer is to die: a busy machine may keep one silent for seconds.
    lease: String,
}

/// Whether a server that a trainer in `place` has started is running.
pub(crate) fn server_runs(place: &Workplace) -> bool {
    let store = place.path("rendezvous.nats").display().to_string();
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    processes
        .into_iter()
        .any(|line| line.contains("nats-server") && line.contains(&store))
}

/// Trainer process; it is killed at the end of the test.
pub(crate) struct Trainer {
    child: Child,
    events: PathBuf,
    errors: PathBuf,
}

impl Meeting {
    fn new(partitions: u32) -> Option<Self> {
        let nats = nats_server()?;
        let config = CONFIG.replace(
            "num_partitions = 3",
            &format!("num_partitions = {partitions}"),
        );
        let place = Workplace::with_dataset(&config);
        let lease = "distributed.lease=60".to_owned();
        Some(Self { place, nats, lease })
    }

    fn command(&self, rank: u32, machines: u32, keys: &[&str]) -> Command {
        self.command_showing("json", rank, machines, keys)
    }

    fn command_showing(&self, how: &str, rank: u32, machines: u32, keys: &[&str]) -> Command {
        let rendezvous = format!(
            "distributed_init_method=\"file://{}\"",
            self.place.path("rendezvous").display()
        );
        let nats = format!(
            "distributed.nats_server={:?}",
            self.nats.display().to_string()
        );
        let (rank, machines) = (rank.to_string(), format!("num_machines={machines}"));
        let mut args = vec!["train", "--rank", &rank, "--progress", how];
        for key in [
            &*machines,
            &rendezvous,
            &nats,
            &self.lease,
            "distributed.heartbeat=0.2",
            "distributed.patience=60",
        ]
        .iter()
        .chain(keys)
        {
            args.extend(["--set", key]);
        }
        let mut command = self.place.command(args);
        command.env("PBG_HOST_LISTEN", "127.0.0.1");
        command
    }

    fn start(&self, rank: u32, machines: u32, keys: &[&str]) -> Trainer {
        self.spawn(rank, &mut self.command(rank, machines, keys))
    }

    fn spawn(&self, rank: u32, command: &mut Command) -> Trainer {
        Trainer::spawn(&self.place, rank, command)
    }

    /// Returns the files of trainers and servers that are left.
    fn left(&self) -> Vec<String> {
        let names = fs::read_dir(self.place.path("model")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("trainer.")).collect()
    }

    fn server_runs(&self) -> bool {
        server_runs(&self.place)
    }
}

impl Drop for Meeting {
    /// Stops the server that a failed test has left.
    fn drop(&mut self) {
        let record = fs::read_to_string(self.place.path("rendezvous")).unwrap_or_default();
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        if let Some(pid) = record["pid"].as_u64().filter(|_| self.server_runs()) {
            let _ended = Command::new("kill").arg(pid.to_string()).status();
        }
    }
}

impl Trainer {
    /// Starts `command`, with files for its output in `place`.
    pub(crate) fn spawn(place: &Workplace, rank: u32, command: &mut Command) -> Self {
        let unique = |what: &str| {
            let all = (0..).map(|n| place.path(&format!("{what}{rank}.{n}")));
            all.into_iter().find(|path| !path.exists()).unwrap()
        };
        let (events, errors) = (unique("events"), unique("errors"));
        let child = command
            .stdout(Stdio::from(fs::File::create(&events).unwrap()))
            .stderr(Stdio::from(fs::File::create(&errors).unwrap()))
            .spawn()
            .unwrap();
        Self {
            child,
            events,
            errors,
        }
    }

    fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.events).unwrap();
        let lines = text.lines();
        lines
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }

    pub(crate) fn of(&self, kind: &str) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["event"] == kind);
        events
    }

    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    /// Returns what a failed test shows: the errors, and the last events but those of buckets.
    fn output(&self) -> String {
        let mut events = self.events();
        events.retain(|event| event["event"] != "bucket_finished");
        let last = events.iter().skip(events.len().saturating_sub(40));
        let last: Vec<_> = last.map(Value::to_string).collect();
        format!("{}\n{}", self.errors(), last.join("\n"))
    }

    /// Waits until it has trained `buckets` buckets; returns false if it ended before.
    pub(crate) fn trains(&mut self, buckets: usize) -> bool {
        let started = Instant::now();
        while self.of("bucket_finished").len() < buckets {
            assert!(started.elapsed() < PATIENCE, "{}", self.output());
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Waits for its end; returns the exit code.
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(started.elapsed() < PATIENCE, "{}", self.output());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends the signal that Ctrl-C sends.
    pub(crate) fn interrupt(&self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &pid]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Returns the edges that each epoch has trained, from the settled sums, which every trainer reports.
pub(crate) fn edges_by_epoch(trainers: &[&Trainer]) -> Vec<(u64, u64)> {
    let events = trainers.iter().flat_map(|t| t.of("epoch_finished"));
    let number = |value: &Value| value.as_u64().unwrap();
    let mut epochs: Vec<_> = events
        .map(|event| (number(&event["epoch"]), number(&event["stats"]["count"])))
        .collect();
    epochs.sort_unstable();
    epochs.dedup();
    epochs
}

pub(crate) fn edges(place: &Path) -> u64 {
    fs::read_to_string(place).unwrap().lines().count() as u64
}

#[test]
fn two_processes_train_every_edge_once_and_leave_nothing_behind() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let mut second = meeting.start(1, 2, &[]);
    let mut first = meeting.start(0, 2, &[]);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
    let mut seen = BTreeSet::new();
    for event in [&first, &second]
        .iter()
        .flat_map(|t| t.of("bucket_finished"))
    {
        let bucket = ["epoch", "lhs", "rhs"].map(|key| event[key].as_u64().unwrap());
        assert!(seen.insert(bucket), "{bucket:?} twice");
    }
    assert_eq!(seen.len(), 2 * 16);
    let all = edges(&meeting.place.path("train.tsv"));
    assert_eq!(edges_by_epoch(&[&first, &second]), [(0, all), (1, all)]);
    assert_eq!(meeting.left(), [""; 0]);
    assert!(!meeting.server_runs());
    is_told_of(&meeting.place, &seen);
    // One machine reads the trainers' checkpoint, and resumes from it.
    meeting.place.run(["eval", "--edges", "test"]).succeeds();
    let on = ["train", "--set", "num_epochs=3"];
    let alone = meeting.place.run(on).succeeds();
    assert!(alone.stderr.contains("resuming"), "{}", alone.stderr);
}

#[test]
fn a_trainer_reads_and_writes_what_was_predicted() {
    let Some(meeting) = Meeting::new(6) else {
        return;
    };
    let once = ["num_epochs=1", "bucket_order=cover"];
    let mut trainer = meeting.start(0, 1, &once);
    assert_eq!(trainer.ends(), Some(0), "{}", trainer.errors());
    let set = once.map(|key| ["--set", key]).concat();
    let check = [&["check", "--machines", "1", "--json"][..], &set].concat();
    let predicted: Value =
        serde_json::from_str(&meeting.place.run(check).succeeds().stdout).unwrap();
    let told = trainer.of("epoch_finished");
    for key in ["loads", "bytes_read", "writes", "bytes_written"] {
        assert_eq!(told[0]["io"][key], predicted["together"][key], "{key}");
    }
    // The event of a bucket includes the settlement before it, so the last settlement is in none.
    let of_buckets: u64 = trainer
        .of("bucket_finished")
        .iter()
        .map(|line| line["io"]["writes"].as_u64().unwrap())
        .sum();
    let of_epoch = told[0]["io"]["writes"].as_u64().unwrap();
    assert!(
        (of_epoch - 2..of_epoch).contains(&of_buckets),
        "{of_buckets} of {of_epoch}"
    );
}

/// Asserts that `metrics.jsonl` has every bucket once, with its trainer, and the sums of every epoch, and that history
/// and report agree.
fn is_told_of(place: &Workplace, trained: &BTreeSet<[u64; 3]>) {
    let lines = place.read("model/metrics.jsonl");
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| {
        let lines = lines.iter().filter(|line| line["event"] == kind);
        lines.collect::<Vec<_>>()
    };
    let mut told = BTreeSet::new();
    for line in of("bucket_finished") {
        let bucket = ["epoch", "lhs", "rhs"].map(|key| line[key].as_u64().unwrap());
        assert!(told.insert(bucket), "{bucket:?} twice");
        assert!(line["trainer"].is_string(), "{line}");
    }
    assert_eq!(&told, trained);
    // The last settlement of every trainer, too.
    let mut settled = Vec::new();
    for line in of("buckets_settled") {
        assert!(line["trainer"].is_string(), "{line}");
        let epoch = line["epoch"].as_u64().unwrap();
        for bucket in line["buckets"].as_array().unwrap() {
            let [lhs, rhs] = ["lhs", "rhs"].map(|side| bucket[side].as_u64().unwrap());
            settled.push([epoch, lhs, rhs]);
        }
    }
    settled.sort_unstable();
    assert_eq!(settled, trained.iter().copied().collect::<Vec<_>>());
    // Every version, including the last one.
    let manifest: Value = serde_json::from_str(&place.read("model/manifest.json")).unwrap();
    let versions: Vec<_> = of("committed")
        .iter()
        .map(|line| line["version"].as_u64())
        .collect();
    let expected: Vec<_> = (1..=manifest["version"].as_u64().unwrap())
        .map(Some)
        .collect();
    assert_eq!(versions, expected);
    let epochs = of("epoch_finished");
    let epochs: Vec<_> = epochs.iter().map(|line| line["epoch"].as_u64()).collect();
    assert_eq!(epochs, [Some(0), Some(1)]);
    let history = place.run(["cluster", "history", "--epoch", "2"]).succeeds();
    assert_eq!(history.stdout.lines().count(), 1 + 16, "{}", history.stdout);
    let order = ["cluster", "history", "--epoch", "2", "--order"];
    let order = place.run(order).succeeds();
    let order: Vec<[u64; 2]> = serde_json::from_str(&order.stdout).unwrap();
    let all: BTreeSet<_> = order.iter().collect();
    assert_eq!((order.len(), all.len()), (16, 16));
    place
        .run(["cluster", "history", "--epoch", "7"])
        .fails(5, &["contains no such bucket"]);
    let html = ["report", "model", "--html", "run.html"];
    place.run(html).succeeds();
    assert!(place.read("run.html").contains("What each trainer did"));
    has_every_bucket_in_the_trace(place, trained.len());
}

/// Asserts that a trace has a span of training and a lease for each bucket, and that settlements have been timed.
fn has_every_bucket_in_the_trace(place: &Workplace, buckets: usize) {
    let trace = ["report", "model", "--trace", "run.trace.json"];
    place.run(trace).succeeds();
    let trace: Value = serde_json::from_str(&place.read("run.trace.json")).unwrap();
    let spans = trace["traceEvents"].as_array().unwrap();
    let count = |is: &dyn Fn(&Value) -> bool| spans.iter().filter(|span| is(span)).count();
    let is_named = |span: &Value, name: &str| span["name"].as_str().unwrap().starts_with(name);
    let trained = |span: &Value| span["ph"] == "X" && is_named(span, "bucket (");
    assert_eq!(count(&trained), buckets);
    assert_eq!(
        count(&|span| span["cat"] == "lease" && span["ph"] == "b"),
        buckets
    );
    assert_eq!(count(&|span| is_named(span, "process_name")), 2);
    for name in ["write partitions", "record in the ledger"] {
        assert!(count(&|span| is_named(span, name)) > 4, "{name}");
    }
}

#[test]
fn one_that_is_killed_again_and_again_costs_no_edge() {
    let Some(mut meeting) = Meeting::new(4) else {
        return;
    };
    meeting.lease = "distributed.lease=2".to_owned();
    let keys = ["num_epochs=40", "checkpoint_interval=0"];
    let mut first = meeting.start(0, 2, &keys);
    let mut killed = 0;
    for after in [1, 2, 5, 3, 4] {
        let mut second = meeting.start(1, 2, &keys);
        if !second.trains(after) {
            break;
        }
        second.kill();
        killed += 1;
    }
    assert!(killed > 0);
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    let all = edges(&meeting.place.path("train.tsv"));
    let epochs = edges_by_epoch(&[&first]);
    assert!(epochs.iter().all(|(_, count)| *count == all), "{epochs:?}");
    assert_eq!(meeting.left(), [""; 0]);
    meeting.place.run(["eval", "--edges", "test"]).succeeds();
}

#[test]
fn ctrl_c_leaves_and_the_others_go_on() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let keys = ["num_epochs=30"];
    let mut first = meeting.start(0, 2, &keys);
    let mut second = meeting.start(1, 2, &keys);
    assert!(second.trains(3), "{}", second.errors());
    second.interrupt();
    assert_eq!(second.ends(), Some(130), "{}", second.errors());
    assert_eq!(first.ends(), Some(0), "{}", first.errors());
    assert!(first.of("trainer_lost").is_empty());
    assert_eq!(meeting.left(), [""; 0]);
}

#[test]
fn ctrl_c_is_heard_while_it_waits_for_rank_0() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let mut second = meeting.start(1, 2, &[]);
    let started = Instant::now();
    while !second.errors().contains("waiting for rank 0") {
        assert!(started.elapsed() < PATIENCE, "{}", second.errors());
        thread::sleep(Duration::from_millis(20));
    }
    second.interrupt();
    assert_eq!(second.ends(), Some(130), "{}", second.errors());
}

#[test]
fn who_is_last_ends_the_server_that_rank_0_has_left() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let keys = ["num_epochs=30"];
    let mut first = meeting.start(0, 2, &keys);
    let mut second = meeting.start(1, 2, &keys);
    assert!(second.trains(3), "{}", second.errors());
    first.interrupt();
    assert_eq!(first.ends(), Some(130), "{}", first.errors());
    assert!(
        meeting.server_runs(),
        "the second trainer still needs the server"
    );
    assert_eq!(second.ends(), Some(0), "{}", second.errors());
    assert!(!meeting.server_runs());
    assert_eq!(meeting.left(), [""; 0]);
}

#[test]
fn a_run_is_looked_at_and_steered_from_outside() {
    let Some(meeting) = Meeting::new(4) else {
        return;
    };
    let keys = ["num_epochs=100000"];
    let mut first = meeting.start(0, 2, &keys);
    let mut second = meeting.start(1, 2, &keys);
    assert!(second.trains(2), "{}", second.errors());
    let method = format!(
        "distributed_init_method=\"file://{}\"",
        meeting.place.path("rendezvous").display()
    );
    let cluster = |command: &[&str]| {
        let mut args = vec!["cluster"];
        args.extend(command);
        args.extend(["--set", &method, "--set", "distributed.heartbeat=0.2"]);
        meeting.place.run(args)
    };
    let status = cluster(&["status", "--json"]).succeeds();
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let phase = status["phase"].as_str();
    assert!(
        matches!(phase, Some("training" | "planning" | "between two passes")),
        "the run must be training or beginning the next pass: {status}"
    );
    let ranks: BTreeSet<_> = status["trainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["rank"].as_u64())
        .collect();
    assert_eq!(ranks, [Some(0), Some(1)].into());
    let table = cluster(&["status"]).succeeds();
    assert!(table.stdout.contains("edges/s"), "{}", table.stdout);
    cluster(&["evict", "--trainer", "7"]).fails(2, &["there is no trainer", "the trainers are"]);
    cluster(&["evict", "--trainer", "1"]).succeeds();
    let started = Instant::now();
    while second.of("rejoining").is_empty() {
        assert!(started.elapsed() < PATIENCE, "{}", second.errors());
        thread::sleep(Duration::from_millis(20));
    }
    cluster(&["forget"]).fails(10, &["the run still has trainers"]);
    cluster(&["stop"]).succeeds();
    assert_eq!(first.ends(), Some(130), "{}", first.errors());
    assert_eq!(second.ends(), Some(130), "{}", second.errors());
    meeting.place.run(["eval", "--edges", "test"]).succeeds();
}
