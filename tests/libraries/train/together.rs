//! Whole runs of several trainers, in threads that share a register: every bucket is trained once per epoch whatever
//! happens, and the bytes equal those of one machine that trains the buckets in the order of their commits.

#![expect(
    clippy::unwrap_used,
    reason = "a lock that a failed test holds ends the others"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use pbg_checkpoint::ReadCheckpoint;
use pbg_config::Config;
use pbg_core::event::Event;
use pbg_core::graph::{Bucket, Side};
use pbg_core::model::Operator;
use pbg_core::schedule::PassId;
use pbg_core::strategy::{BucketOrder, Pass, StrategyError, StrategyId};
use pbg_distributed::{ClusterOptions, SyncLimits};
use pbg_import::{self as import, ImportOptions};
use pbg_ledger::{BucketState, LedgerRecord, OperatorCommand};
use pbg_model::{AllowedChanges, ResolvedConfig, RunError};
use pbg_train::{GuardedLoss, RunOutcome, Strategies};

mod faults;
mod fixed;
mod grown;
mod kept;
mod losses;
mod memory;
mod parameters;
mod ranking;
mod refused;

use crate::train::dataset::import_into;
use crate::train::strategies::standard as strategies;
use memory::{Connection, Hub};

const ENTITIES: usize = 80;

const CONFIG: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
comparator = "dot"
num_epochs = 2
lr = 0.1
workers = 1
seed = 7
batch_size = 20
num_batch_negs = 5
num_uniform_negs = 10
buffer_partitions = 3
global_emb = false

[entities.place]
num_partitions = 4

[[relations]]
name = "*"
lhs = "place"
rhs = "place"
operator = "none"
"#;

const STEPS: [usize; 4] = [1, 2, 7, 40];

fn edges(steps: &[usize]) -> String {
    let mut text = String::new();
    for place in 0..ENTITIES {
        for step in steps {
            let other = (place + step) % ENTITIES;
            writeln!(text, "place {place}\tnear\tplace {other}").expect("a string");
        }
    }
    text
}

/// A folder with the imported edges.
struct World {
    folder: tempfile::TempDir,
    text: String,
}

impl World {
    fn new() -> Self {
        Self::of(CONFIG)
    }

    fn of(text: &str) -> Self {
        Self::importing(text, &[("train", &STEPS)])
    }

    /// Imports edge sets whose edges join places at these distances from each other.
    fn importing(text: &str, sets: &[(&str, &[usize])]) -> Self {
        let sets: Vec<_> = sets
            .iter()
            .map(|(name, steps)| (*name, edges(steps)))
            .collect();
        Self::made(text, &sets, &[])
    }

    /// Imports one edge set, and features of entity types.
    fn with(text: &str, edges: &str, features: &[(&str, &str)]) -> Self {
        Self::made(text, &[("train", edges.to_owned())], features)
    }

    fn made(text: &str, sets: &[(&str, String)], features: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("room on the disk");
            path
        };
        let list = |(name, edges): &(&str, String)| {
            (
                (*name).to_owned(),
                vec![write(&format!("{name}.tsv"), edges)],
            )
        };
        let sets: Vec<_> = sets.iter().map(list).collect();
        let features = features.iter().map(|(entity_type, text)| {
            (
                (*entity_type).to_owned(),
                write(&format!("{entity_type}.txt"), text),
            )
        });
        let features = features.collect();
        let text = text.to_owned();
        let world = Self { folder, text };
        let config = world.config("none", &[]);
        import_into(world.folder.path(), &config, &sets, features);
        world
    }

    fn config(&self, model: &str, changes: &[(&str, &str)]) -> Config {
        let path =
            |name: &str| format!("{:?}", self.folder.path().join(name).display().to_string());
        let mut set: Vec<(String, String)> = changes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        set.push(("dataset".to_owned(), path("data")));
        set.push(("checkpoint_path".to_owned(), path(model)));
        Config::parse(&self.text, "test", &set).expect("a configuration")
    }
}

fn cluster(connection: &Arc<Connection>, rank: u32, machines: u32) -> ClusterOptions {
    ClusterOptions {
        servers: None,
        register: Arc::clone(connection) as _,
        live: Arc::clone(connection) as _,
        name: format!("trainer {rank}"),
        rank: Some(rank),
        machines,
        tree_init: true,
        lease: Duration::from_secs(60),
        heartbeat: Duration::from_millis(100),
        sync_limits: SyncLimits {
            rounds: 200.0,
            bytes: 1e9,
        },
        // If many tests run at the same time, trainers may be suspended for a while.
        patience: Duration::from_secs(20),
        lease_ahead: None,
        on_event: Arc::new(drop),
    }
}

/// Asserts that a trainer has finished its run.
fn finished(outcome: &Result<RunOutcome, RunError>) {
    assert!(
        matches!(outcome, Ok(RunOutcome::Finished { .. })),
        "{outcome:?}"
    );
}

/// Trains as one of several trainers.
fn join(
    config: &Config,
    cluster: &ClusterOptions,
    stop: &Arc<AtomicBool>,
    watch: &mut dyn FnMut(Event),
) -> Result<RunOutcome, RunError> {
    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
    pbg_distributed::train_distributed(
        &resolved,
        strategies(config),
        cluster,
        AllowedChanges::default(),
        stop,
        watch,
    )
}

/// Returns the buckets in the order of their commits, by pass. Panics if one was trained twice.
fn committed(history: &[LedgerRecord]) -> BTreeMap<PassId, Vec<Bucket>> {
    let mut passes: BTreeMap<PassId, Vec<Bucket>> = BTreeMap::new();
    for pair in history.windows(2) {
        let [before, after] = pair else { continue };
        let pass = after.work().pass;
        if before.work().pass != pass {
            continue;
        }
        // In the order of the leases, which is that of training.
        let leases = before.trainers().values().flat_map(|t| t.leases.clone());
        for bucket in leases {
            if after.state(bucket) == Some(BucketState::Done) {
                let done = passes.entry(pass).or_default();
                assert!(!done.contains(&bucket), "{bucket} twice in {pass:?}");
                done.push(bucket);
            }
        }
    }
    passes
}

/// Order that repeats a recorded plan.
struct Recorded {
    id: StrategyId,
    passes: BTreeMap<PassId, Vec<Bucket>>,
}

impl BucketOrder for Recorded {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let id = PassId {
            epoch: pass.epoch,
            edge_set: pass.edge_set,
            edge_chunk: pass.edge_chunk,
        };
        Ok(self.passes[&id].clone())
    }

    fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
        Ok(0)
    }
}

/// Order that returns to partitions which it has just left: it picks the bucket that needs most loads.
struct Restless(StrategyId);

impl BucketOrder for Restless {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let row = |lhs| (0..pass.rhs_partitions).map(move |rhs| Bucket::new(lhs, rhs));
        Ok((0..pass.lhs_partitions).flat_map(row).collect())
    }

    fn pick(&mut self, pass: &Pass, _: &[Bucket], free: &[Bucket]) -> Result<usize, StrategyError> {
        let is_new = |partition| !pass.resident.contains(&(Side::Lhs, partition));
        let loads = |bucket: &Bucket| {
            let both = usize::from(is_new(bucket.lhs)) + usize::from(is_new(bucket.rhs));
            (both, bucket.lhs != bucket.rhs)
        };
        let most = (0..free.len()).max_by_key(|index| loads(&free[*index]));
        Ok(most.unwrap_or_default())
    }
}

/// Returns embeddings and accumulators of all partitions.
fn bytes(config: &Config) -> Vec<(Vec<f32>, Vec<f32>)> {
    let checkpoint = ReadCheckpoint::open(Path::new(&config.checkpoint_path)).expect("a model");
    let read = |partition| {
        let data = checkpoint
            .read_partition("place", partition)
            .expect("a file");
        let data = data.expect("a partition");
        (data.embeddings.to_vec(), data.state.to_vec())
    };
    (0..4).map(read).collect()
}

/// Asserts that one machine which trains the buckets in the order of `history` gets the bytes of `config`'s checkpoint.
fn replays(world: &World, config: &Config, history: &[LedgerRecord], changes: &[(&str, &str)]) {
    let passes = committed(history);
    for (pass, buckets) in &passes {
        assert_eq!(buckets.len(), 16, "{pass:?}");
    }
    assert_eq!(passes.len(), config.num_epochs as usize);
    let alone = world.config("alone", changes);
    let id = strategies(config).order.id().clone();
    let strategies = Strategies {
        order: Box::new(Recorded { id, passes }),
        ..strategies(&alone)
    };
    let resolved = ResolvedConfig::new(alone.clone()).expect("they fit");
    let stop = Arc::new(AtomicBool::new(false));
    let outcome = pbg_train::train(
        &resolved,
        strategies,
        AllowedChanges::default(),
        &stop,
        &mut |_| (),
    );
    finished(&outcome);
    assert!(
        bytes(config) == bytes(&alone),
        "the bytes differ from those of one machine"
    );
}

/// Trains with one thread per connection.
fn train(config: &Config, connections: &[Arc<Connection>]) -> Vec<Result<RunOutcome, RunError>> {
    let machines = connections.len() as u32;
    thread::scope(|scope| {
        let trainers = connections.iter().zip(0..).map(|(connection, rank)| {
            scope.spawn(move || {
                let stop = Arc::new(AtomicBool::new(false));
                join(
                    config,
                    &cluster(connection, rank, machines),
                    &stop,
                    &mut |_| (),
                )
            })
        });
        let trainers: Vec<_> = trainers.collect();
        trainers
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn any_number_of_trainers_gives_the_bytes_of_one_machine() {
    for (trainers, changes) in [
        (1, vec![]),
        (2, vec![]),
        (3, vec![("num_edge_chunks", "1"), ("eval_fraction", "0.2")]),
        (3, vec![("storage", "bf16"), ("max_norm", "0.5")]),
        (2, vec![("optimizer", "adagrad"), ("storage", "bf16")]),
    ] {
        let world = World::new();
        let hub = Arc::new(Hub::default());
        let config = world.config("together", &changes);
        let connections: Vec<_> = (0..trainers).map(|i| Connection::new(&hub, i)).collect();
        for outcome in train(&config, &connections) {
            finished(&outcome);
        }
        replays(&world, &config, &hub.history(), &changes);
    }
}

#[test]
fn partitions_that_are_needed_again_before_they_are_settled_lose_nothing() {
    for (trainers, buffer) in [(1, "2"), (1, "4"), (2, "2")] {
        let world = World::new();
        let hub = Arc::new(Hub::default());
        let config = world.config("together", &[("buffer_partitions", buffer)]);
        let connections: Vec<_> = (0..trainers).map(|i| Connection::new(&hub, i)).collect();
        thread::scope(|scope| {
            for (connection, rank) in connections.iter().zip(0..) {
                let config = &config;
                scope.spawn(move || {
                    let stop = Arc::new(AtomicBool::new(false));
                    let cluster = ClusterOptions {
                        lease_ahead: Some(true),
                        ..cluster(connection, rank, trainers as u32)
                    };
                    let id = strategies(config).order.id().clone();
                    let strategies = Strategies {
                        order: Box::new(Restless(id)),
                        ..strategies(config)
                    };
                    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
                    let outcome = pbg_distributed::train_distributed(
                        &resolved,
                        strategies,
                        &cluster,
                        AllowedChanges::default(),
                        &stop,
                        &mut |_| (),
                    );
                    finished(&outcome);
                });
            }
        });
        replays(&world, &config, &hub.history(), &[]);
    }
}

#[test]
fn one_machine_goes_on_from_what_several_committed_and_the_reverse() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let connection = Connection::new(&hub, 0);
    let stop = Arc::new(AtomicBool::new(false));
    // A trainer is stopped within the first epoch, and commits because it is the last to leave.
    let mut stopping = |event: Event| {
        if matches!(event, Event::BucketFinished { index: 6, .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let outcome = join(&config, &cluster(&connection, 0, 1), &stop, &mut stopping);
    assert!(
        matches!(outcome, Ok(RunOutcome::Interrupted { .. })),
        "{outcome:?}"
    );
    // One machine resumes, and is stopped, too.
    stop.store(false, Ordering::Relaxed);
    let mut buckets = Vec::new();
    let mut stopping = |event: Event| {
        if let Event::BucketFinished {
            pass,
            bucket,
            index,
            ..
        } = event
        {
            buckets.push((pass, bucket));
            stop.store(index >= 20, Ordering::Relaxed);
        }
    };
    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
    let outcome = pbg_train::train(
        &resolved,
        strategies(&config),
        AllowedChanges::default(),
        &stop,
        &mut stopping,
    );
    assert!(
        matches!(outcome, Ok(RunOutcome::Interrupted { .. })),
        "{outcome:?}"
    );
    // The old record does not match the checkpoint, and is replaced.
    stop.store(false, Ordering::Relaxed);
    let before = hub.history().len();
    let outcome = join(&config, &cluster(&connection, 0, 1), &stop, &mut |_| ());
    finished(&outcome);
    let history = hub.history();
    let mut passes = committed(&history[..before]);
    for (pass, bucket) in buckets {
        passes.entry(pass).or_default().push(bucket);
    }
    for (pass, more) in committed(&history[before..]) {
        passes.entry(pass).or_default().extend(more);
    }
    for (pass, buckets) in &passes {
        let mut unique = buckets.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!((unique.len(), buckets.len()), (16, 16), "{pass:?}");
    }
    assert_eq!(passes.len(), 2);
}
