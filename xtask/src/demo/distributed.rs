//! Demo with several trainers: one of them is killed in the middle, and every edge is still trained once per epoch.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::example::{FOLDER, pbg_host};
use crate::repo::Repo;
use crate::{setup, step};

/// Number of buckets that the trainer trains before it is killed.
const BEFORE: usize = 60;
/// Seconds without a heartbeat after which a trainer counts as dead; few, so that the demo is short.
const LEASE: &str = "distributed.lease=5";
/// Timeout of all waits.
const TIMEOUT: Duration = Duration::from_secs(900);

/// Returns the configuration with four partitions per trainer; with fewer, trainers wait for each other. Each bucket is
/// visited once per epoch, since a visit costs a transaction. There are few epochs, so that the demo is short.
pub(super) fn partitioned(config: &str, machines: u32) -> String {
    let partitions = format!("num_partitions = {}", 4 * machines);
    config
        .replace("num_partitions = 4", &partitions)
        .replace("num_edge_chunks = 4", "num_edge_chunks = 1")
        .replace("num_epochs = 36", "num_epochs = 12")
}

/// Trains the configuration with `machines` trainers in separate processes.
pub(super) fn train(repo: &Repo, config: &str, machines: u32) -> Result<()> {
    let nats = setup::nats(repo)?;
    step::announce(&format!(
        "training with {machines} trainers; the last one is killed after {BEFORE} buckets"
    ));
    let rendezvous = repo.root.join(FOLDER).join("rendezvous");
    let keys = [
        format!("num_machines={machines}"),
        format!("distributed_init_method=file://{}", rendezvous.display()),
        format!("distributed.nats_server={}", nats.display()),
        LEASE.to_owned(),
        "distributed.heartbeat=1".to_owned(),
        "workers=1".to_owned(),
    ];
    let start = |rank: u32| Trainer::start(repo, config, &keys, rank);
    let mut trainers: Vec<Trainer> = (0..machines).map(start).collect::<Result<_>>()?;
    let mut killed = trainers.pop().context("there are at least two trainers")?;
    killed.wait_until_trained(BEFORE)?;
    killed.child.kill().context("cannot end a trainer")?;
    killed.child.wait().context("cannot end a trainer")?;
    println!("\ntrainer {} was killed (kill -9)", killed.rank);
    for trainer in &mut trainers {
        trainer.wait_for_exit()?;
    }
    let method = &keys[1];
    pbg_host(
        repo,
        &[
            "cluster", "history", config, "--epoch", "1", "--set", method,
        ],
    )?;
    every_edge_once(repo, &trainers)
}

/// Checks, by the sums in the ledger's events, that each epoch has trained every edge, and prints a summary.
fn every_edge_once(repo: &Repo, trainers: &[Trainer]) -> Result<()> {
    let all = edges(repo)?;
    let first = trainers
        .first()
        .context("there are at least two trainers")?;
    let events = first.events()?;
    let finished = events
        .iter()
        .filter(|event| event["event"] == "epoch_finished");
    let mut epochs = 0;
    for event in finished {
        let count = event["stats"]["count"].as_u64();
        ensure!(
            count == Some(all),
            "an epoch trained {count:?} of {all} edges"
        );
        epochs += 1;
    }
    let lost = events
        .iter()
        .filter(|event| event["event"] == "trainer_lost");
    for event in lost {
        let (silent, buckets) = (&event["silent_seconds"], event["buckets"].as_array());
        println!(
            "the killed trainer was silent for {:.1} s: {} of its buckets were leased to others",
            silent.as_f64().unwrap_or_default(),
            buckets.map_or(0, Vec::len)
        );
    }
    println!("{epochs} epochs of {all} edges, each edge once per epoch");
    Ok(())
}

/// Returns the number of training edges, as counted by the import.
fn edges(repo: &Repo) -> Result<u64> {
    let manifest = repo.root.join(FOLDER).join("dataset/manifest.json");
    let text = fs::read_to_string(&manifest);
    let text = text.with_context(|| format!("cannot read {}", manifest.display()))?;
    let manifest: Value = serde_json::from_str(&text).context("the manifest is not valid JSON")?;
    let count = manifest["edge_sets"]["train"]["edges"].as_u64();
    count.context("the manifest has no number of edges")
}

/// Process of a trainer, which is killed when this is dropped.
struct Trainer {
    rank: u32,
    child: Child,
    events: PathBuf,
    errors: PathBuf,
}

impl Trainer {
    fn start(repo: &Repo, config: &str, keys: &[String], rank: u32) -> Result<Self> {
        let file = |what: &str| repo.root.join(FOLDER).join(format!("{what}-{rank}"));
        let (events, errors) = (file("events"), file("messages"));
        let program = repo.program();
        let rank_text = rank.to_string();
        let mut args = vec![
            "train",
            config,
            "--plugin",
            "inside_out.wasm",
            "--rank",
            &rank_text,
        ];
        keys.iter().for_each(|key| args.extend(["--set", key]));
        println!("\n$ {} {}", repo.short(&program), args.join(" "));
        args.extend(["--progress", "json"]);
        let create = |path: &PathBuf| {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))
        };
        let child = Command::new(&program)
            .args(args)
            .env("PBG_HOST_LISTEN", "127.0.0.1")
            .current_dir(&repo.root)
            .stdout(Stdio::from(create(&events)?))
            .stderr(Stdio::from(create(&errors)?))
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Self {
            rank,
            child,
            events,
            errors,
        })
    }

    /// Returns the events that it has written so far, without an incomplete line.
    fn events(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(&self.events).context("cannot read a trainer's events")?;
        complete_events(&text)
    }

    /// Waits until it has trained `buckets` buckets.
    fn wait_until_trained(&mut self, buckets: usize) -> Result<()> {
        let started = Instant::now();
        loop {
            let events = self.events()?;
            let trained = events.iter().filter(|e| e["event"] == "bucket_finished");
            if trained.count() >= buckets {
                return Ok(());
            }
            if self.child.try_wait()?.is_some() || started.elapsed() > TIMEOUT {
                bail!("trainer {} does not train: {}", self.rank, self.messages());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it has ended successfully.
    fn wait_for_exit(&mut self) -> Result<()> {
        let status = self.child.wait().context("cannot wait for a trainer")?;
        ensure!(
            status.success(),
            "trainer {} failed ({status}): {}",
            self.rank,
            self.messages()
        );
        Ok(())
    }

    fn messages(&self) -> String {
        fs::read_to_string(&self.errors).unwrap_or_default()
    }
}

impl Drop for Trainer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Returns the events of the complete lines of `text`; the last line may still be being written.
fn complete_events(text: &str) -> Result<Vec<Value>> {
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let events = complete.lines().map(serde_json::from_str);
    events
        .collect::<Result<_, _>>()
        .context("a trainer wrote an event that is not JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_line_may_be_incomplete() {
        let events = complete_events("{\"event\":\"a\"}\n{\"event\":\"b\"}\n{\"eve").unwrap();
        let kinds: Vec<_> = events.iter().map(|event| &event["event"]).collect();
        assert_eq!(kinds, ["a", "b"]);
        assert_eq!(complete_events("{\"eve").unwrap(), Vec::<Value>::new());
        assert!(complete_events("{\"eve\n{\"event\":\"b\"}\n").is_err());
    }
}
