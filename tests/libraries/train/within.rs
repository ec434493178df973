//! Runs that are interrupted within a bucket, after any batch, any number of times: the results are those of an
//! undisturbed run, and every edge is trained once per epoch.

#![expect(
    clippy::unwrap_used,
    reason = "a lock that a failed test holds ends the others"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use pbg_checkpoint::{Checkpoint, PartitionData, ReadCheckpoint, Tensor};
use pbg_config::Config;
use pbg_core::event::{Event, RankStats, Resumed};
use pbg_core::graph::Bucket;
use pbg_core::loss::{LossState, ParameterSchedule, ScheduleProgress};
use pbg_core::schedule::PassId;
use pbg_core::strategy::{
    BucketOrder, Loss, LossWorker, Pass, RelationDraw, RelationSampler, SamplerFactory,
    StrategyError, StrategyId,
};
use pbg_kernels::device::OpenDevice;
use pbg_model::{AllowedChanges, ErrorKind, ResolvedConfig, RunError};
use pbg_train::{Fallbacks, GuardedLoss, RunOutcome, Strategies};
use proptest::prelude::*;

use crate::train::dataset::import_into;
use crate::train::strategies::{id, weighted_logistic};

mod learning_rates;
mod panics;

const CONFIG: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
comparator = "dot"
num_epochs = 3
lr = 0.1
workers = 1
seed = 7
batch_size = 10
num_batch_negs = 5
num_uniform_negs = 4
eval_fraction = 0.0
checkpoint_interval = 1000000

[entities.place]
num_partitions = 1

[[relations]]
name = "*"
lhs = "place"
rhs = "place"
"#;

/// Relations, each with its number of edges.
const RELATIONS: [(&str, usize); 3] = [("next", 41), ("near", 23), ("opposite", 7)];
const EDGES: u64 = 41 + 23 + 7;
const EPOCHS: u32 = 3;

/// Order of a single bucket.
struct Alone(StrategyId);

impl BucketOrder for Alone {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn plan(&mut self, _: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        Ok(vec![Bucket::new(0, 0)])
    }

    fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
        Ok(0)
    }
}

/// Sampler that draws the relation with the highest loss, in batches whose sizes all depend on the earlier ones.
struct Hardest(StrategyId, u64);

struct Walk {
    left: Vec<u64>,
    last: Vec<f32>,
    batch_size: u64,
    state: u64,
}

impl SamplerFactory for Hardest {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        seed: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError> {
        Ok(Box::new(Walk {
            left: counts.to_vec(),
            last: vec![f32::MAX; counts.len()],
            batch_size: batch_size.into(),
            state: seed ^ self.1,
        }))
    }
}

impl RelationSampler for Walk {
    fn next(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
        let there = (0..self.left.len()).filter(|&relation| self.left[relation] > 0);
        let hardest = there.max_by(|a, b| self.last[*a].total_cmp(&self.last[*b]));
        Ok(hardest.map(|relation| {
            self.state = self.state.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0x1405_7b7e;
            let most = self.left[relation].min(self.batch_size);
            let edges = 1 + (self.state >> 33) % most;
            self.left[relation] -= edges;
            RelationDraw {
                relation: relation as u32,
                edges: edges as u32,
            }
        }))
    }

    fn observe(&mut self, relation: u32, mean_loss: f32) -> Result<(), StrategyError> {
        self.last[relation as usize] = mean_loss;
        self.state ^= u64::from(mean_loss.to_bits());
        Ok(())
    }
}

/// Schedule in which the weight of negatives follows the loss.
struct Following;

impl ParameterSchedule for Following {
    fn update(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError> {
        let follow = |value| 0.9 * value + 0.01 * progress.mean_loss;
        Ok(values.iter().map(follow).collect())
    }
}

/// Returns a loss whose parameter changes after every third batch, or never if `weight` is 0.
fn logistic(weight: f32) -> Box<dyn Loss> {
    let following = || (3, Box::new(Following) as Box<dyn ParameterSchedule>);
    weighted_logistic(weight, (weight != 0.0).then(following))
}

/// Loss that requests the end after a number of batches, and counts what is trained.
struct Stopping {
    loss: Box<dyn Loss>,
    left: AtomicI64,
    stop: Arc<AtomicBool>,
    /// Numbers of batches and edges.
    heard: Arc<Mutex<(u64, u64)>>,
}

impl Loss for Stopping {
    fn id(&self) -> &StrategyId {
        self.loss.id()
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        self.loss.worker()
    }

    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        self.loss.observe(edges, loss)?;
        let mut heard = self.heard.lock().unwrap();
        *heard = (heard.0 + 1, heard.1 + edges as u64);
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn state(&self) -> Option<LossState> {
        self.loss.state()
    }

    fn restore(&self, state: &LossState) -> Result<(), String> {
        self.loss.restore(state)
    }
}

/// A folder with imported edges.
struct World {
    folder: tempfile::TempDir,
    dynamic: bool,
}

impl World {
    /// Imports edges; `ends` returns the two places that the edge with a number joins.
    fn new(dynamic: bool, ends: impl Fn(usize) -> (usize, usize)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut text, mut number) = (String::new(), 0);
        for (relation, count) in RELATIONS {
            for _ in 0..count {
                let (lhs, rhs) = ends(number);
                writeln!(text, "place {lhs}\t{relation}\tplace {rhs}").expect("a string");
                number += 1;
            }
        }
        let list = folder.path().join("train.tsv");
        std::fs::write(&list, text).expect("room on the disk");
        let world = Self { folder, dynamic };
        let config = world.config("none", &[]);
        let sets = vec![("train".to_owned(), vec![list])];
        import_into(world.folder.path(), &config, &sets, Vec::new());
        world
    }

    /// Imports edges between few places, each of which is in many of them.
    fn of_neighbours(dynamic: bool) -> Self {
        Self::new(dynamic, |number| (number % 30, (number * 7 + 1) % 30))
    }

    /// Imports edges that have no place in common.
    fn of_pairs(dynamic: bool) -> Self {
        Self::new(dynamic, |number| (2 * number, 2 * number + 1))
    }

    fn config(&self, model: &str, changes: &[(&str, String)]) -> Config {
        let path =
            |name: &str| format!("{:?}", self.folder.path().join(name).display().to_string());
        let mut set: Vec<(String, String)> = changes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        if self.dynamic {
            set.push(("dynamic_relations".to_owned(), "true".to_owned()));
            set.push(("relations.0.name".to_owned(), "any".to_owned()));
        }
        set.push(("dataset".to_owned(), path("data")));
        set.push(("checkpoint_path".to_owned(), path(model)));
        Config::parse(CONFIG, "test", &set).expect("a configuration")
    }
}

/// Settings of a run that are not in its configuration.
#[derive(Clone, Copy)]
struct With {
    /// Weight of negatives in the loss.
    weight: f32,
    /// Number of one of the two samplers.
    sampler: u64,
    /// Whether a device trains, whose operations are computed in main memory.
    device: bool,
}

const ON_CORES: With = With {
    weight: 1.0,
    sampler: 0,
    device: false,
};

fn main_memory() -> Arc<dyn OpenDevice> {
    // The check of a model needs libtorch.
    pbg_torch::load_found();
    Arc::new(pbg_torch::TorchDevice::MAIN_MEMORY)
}

/// Reports of all parts of a run.
#[derive(Debug, Default)]
struct Told {
    outcome: Option<RunOutcome>,
    resumed: Vec<Resumed>,
    /// Edges, loss and ranks before training, of each bucket.
    buckets: BTreeMap<PassId, (u64, f64, Option<RankStats>)>,
    /// Edges of each epoch.
    epochs: Vec<u64>,
    /// Numbers of batches and edges that were trained.
    heard: (u64, u64),
}

impl Told {
    fn hear(&mut self, event: Event) {
        match event {
            Event::RunStarted { resumed, .. } => self.resumed.extend(resumed),
            Event::BucketFinished {
                pass,
                stats,
                eval_before,
                ..
            } => {
                let told = (stats.count, stats.loss, eval_before);
                let twice = self.buckets.insert(pass, told);
                assert!(twice.is_none(), "{pass:?} was told twice");
            }
            Event::EpochFinished { stats, .. } => self.epochs.push(stats.count),
            _ => {}
        }
    }

    /// Resumes the run until `ends` batches are trained, or until its end.
    fn go_on(&mut self, config: &Config, with: With, ends: Option<u32>) -> Result<(), RunError> {
        let stop = Arc::new(AtomicBool::new(ends == Some(0)));
        let heard = Arc::new(Mutex::new(self.heard));
        let loss = Stopping {
            loss: logistic(with.weight),
            left: AtomicI64::new(ends.map_or(-1, i64::from)),
            stop: Arc::clone(&stop),
            heard: Arc::clone(&heard),
        };
        let strategies = Strategies {
            order: Box::new(Alone(id("alone"))),
            sampler: Box::new(Hardest(
                id(&format!("hardest {}", with.sampler)),
                with.sampler,
            )),
            negatives: None,
            schedule: None,
            loss: GuardedLoss::new(Box::new(loss), None),
            fallbacks: Fallbacks::default(),
        };
        let allowed = AllowedChanges {
            plugin_change: true,
            data_change: false,
        };
        let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
        let mut watch = |event| self.hear(event);
        let place = with.device.then(main_memory);
        let outcome = pbg_train::train_at(&resolved, strategies, allowed, place, &stop, &mut watch);
        self.heard = *heard.lock().unwrap();
        self.outcome = Some(outcome?);
        Ok(())
    }

    fn is_finished(&self) -> bool {
        matches!(self.outcome, Some(RunOutcome::Finished { .. }))
    }
}

/// Returns the contents of a checkpoint.
fn numbers(config: &Config) -> (PartitionData, Vec<Tensor>, serde_json::Value) {
    let checkpoint = ReadCheckpoint::open(Path::new(&config.checkpoint_path)).expect("a model");
    let data = checkpoint.read_partition("place", 0).expect("a file");
    let model = checkpoint.model().expect("a file");
    let loss = checkpoint.run().state["loss"].clone();
    (data.expect("a partition"), model, loss)
}

/// Returns the position at which the run of a checkpoint stopped.
fn left(config: &Config) -> serde_json::Value {
    let checkpoint = ReadCheckpoint::open(Path::new(&config.checkpoint_path)).expect("a model");
    let run = checkpoint.run();
    assert_eq!(run.within_bucket, !run.state["within"].is_null());
    run.state["within"].clone()
}

/// Generates settings of the models whose training is interrupted within a bucket.
fn kinds() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let choices = (1..=2_u32, any::<bool>(), any::<bool>(), any::<bool>());
    choices.prop_map(|(chunks, held_out, all, scheduled)| {
        let mut keys = vec![
            ("num_edge_chunks", chunks.to_string()),
            ("relations.0.operator", "translation".to_owned()),
        ];
        if held_out {
            keys.push(("eval_fraction", "0.2".to_owned()));
        }
        if scheduled {
            keys.push(("lr_schedule.warmup_epochs", "0.7".to_owned()));
            keys.push(("lr_schedule.decay", "cosine".to_owned()));
        }
        if all {
            keys.push(("relations.0.all_negs", "true".to_owned()));
            keys.push(("num_batch_negs", "0".to_owned()));
            keys.push(("num_uniform_negs", "0".to_owned()));
        }
        keys
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// With one worker the bytes are the same, wherever and however often the run is interrupted.
    #[test]
    fn a_run_that_is_left_anywhere_comes_to_the_same_bytes(
        dynamic in any::<bool>(),
        keys in kinds(),
        stops in proptest::collection::vec(0..14_u32, 1..6),
    ) {
        let world = World::of_neighbours(dynamic);
        let (whole, parts) = (world.config("whole", &keys), world.config("parts", &keys));
        let mut once = Told::default();
        once.go_on(&whole, ON_CORES, None).unwrap();
        let mut told = Told::default();
        for stop in stops {
            if told.is_finished() {
                break;
            }
            let before = told.heard.0;
            told.go_on(&parts, ON_CORES, Some(stop)).unwrap();
            // It ends after that batch, and not a batch later.
            prop_assert!(told.is_finished() || told.heard.0 == before + u64::from(stop));
            let within = left(&parts);
            if !within.is_null() {
                prop_assert!(within["shares"].as_array().is_some_and(|shares| shares.len() == 1));
            }
        }
        told.go_on(&parts, ON_CORES, None).unwrap();
        prop_assert_eq!(numbers(&parts), numbers(&whole));
        prop_assert_eq!(told.heard, once.heard);
        prop_assert_eq!(&told.epochs, &once.epochs);
        prop_assert_eq!(told.buckets.len(), once.buckets.len());
        for (pass, (edges, loss, ranks)) in &once.buckets {
            let (told_edges, told_loss, told_ranks) = &told.buckets[pass];
            prop_assert_eq!((told_edges, told_ranks), (edges, ranks));
            prop_assert!((told_loss - loss).abs() < 1e-9 * loss.abs());
        }
        prop_assert!(left(&parts).is_null());
    }

    /// For any number of workers in each part and any sampler. If edges have no entity in common, the result shows how
    /// often each was trained.
    #[test]
    fn every_edge_is_trained_once_per_epoch(
        dynamic in any::<bool>(),
        parts in proptest::collection::vec((0..9_u32, 1..=3_u32, 0..2_u64), 1..8),
    ) {
        let world = World::of_pairs(dynamic);
        // Negatives have weight zero. Still, unchanged rows of negatives drawn from all entities would be written back
        // over another worker's updates.
        let weight = 0.0;
        let keys = |workers: u32| [
            ("num_uniform_negs", "0".to_owned()),
            ("relations.0.operator", "none".to_owned()),
            ("global_emb", "false".to_owned()),
            ("workers", workers.to_string()),
        ];
        let whole = world.config("whole", &keys(1));
        let mut once = Told::default();
        once.go_on(&whole, With { weight, ..ON_CORES }, None).unwrap();
        let mut told = Told::default();
        for (stop, workers, sampler) in parts {
            if told.is_finished() {
                break;
            }
            let config = world.config("parts", &keys(workers));
            told.go_on(&config, With { weight, sampler, device: false }, Some(stop)).unwrap();
        }
        let config = world.config("parts", &keys(2));
        told.go_on(&config, With { weight, ..ON_CORES }, None).unwrap();
        prop_assert_eq!(told.heard.1, u64::from(EPOCHS) * EDGES);
        prop_assert_eq!(&told.epochs, &[EDGES; EPOCHS as usize]);
        let ((found, ..), (expected, ..)) = (numbers(&config), numbers(&whole));
        for (found, expected) in [
            (&found.embeddings, &expected.embeddings),
            (&found.state, &expected.state),
        ] {
            let same = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1e-3);
            prop_assert!(found.iter().zip(expected.iter()).all(same));
        }
    }
}

/// Stops a run after the fifth batch, in the first epoch.
fn left_early(world: &World, keys: &[(&str, String)]) -> (Config, Told) {
    let config = world.config("parts", keys);
    let mut told = Told::default();
    told.go_on(&config, ON_CORES, Some(5)).unwrap();
    (config, told)
}

#[test]
fn who_goes_on_is_told_how_far_it_was() {
    let world = World::of_neighbours(true);
    let (config, mut told) = left_early(&world, &[]);
    assert_eq!(left(&config)["sums"]["stats"]["count"], 50);
    assert_eq!(told.heard, (5, 50));
    told.go_on(&config, ON_CORES, Some(1)).unwrap();
    assert_eq!(told.resumed[0].edges, 50);
    assert_eq!(
        (told.resumed[0].pass, told.resumed[0].done),
        Default::default()
    );
}

/// A run does not stop at a position from which it could not resume.
#[test]
fn what_is_rounded_behind_its_bucket_is_trained_to_its_end() {
    let world = World::of_neighbours(true);
    let keys = [("storage", "bf16".to_owned())];
    let (config, told) = left_early(&world, &keys);
    assert!(left(&config).is_null());
    assert_eq!(told.heard, (8, EDGES));
}

/// A position within a bucket is accepted only if it is possible.
#[test]
fn a_position_within_a_bucket_that_cannot_be_is_refused() {
    for dynamic in [true, false] {
        let world = World::of_neighbours(dynamic);
        let (config, mut told) = left_early(&world, &[]);
        let path = Path::new(&config.checkpoint_path);
        let run = ReadCheckpoint::open(path).unwrap().run().clone();
        for (pointer, value) in [
            ("/within/shares/0/batches", serde_json::json!(1000)),
            ("/within/shares", serde_json::json!([])),
            ("/within/bucket/lhs", serde_json::json!(1)),
            (
                "/within/shares/0/draws",
                serde_json::json!("AAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            ),
        ] {
            let mut forged = run.clone();
            let Some(place) = forged.state.pointer_mut(pointer) else {
                // Batches of all relations are not stored one by one.
                assert_eq!((dynamic, pointer), (true, "/within/shares/0/draws"));
                continue;
            };
            *place = value;
            Checkpoint::open_or_create(path)
                .unwrap()
                .commit(forged)
                .unwrap();
            let error = told.go_on(&config, ON_CORES, None).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Checkpoint, "{pointer}: {error}");
        }
    }
}

/// Batches that are planned ahead are also drawn ahead.
#[test]
fn a_device_goes_on_behind_the_batches_that_it_trained() {
    let with = With {
        device: true,
        ..ON_CORES
    };
    for dynamic in [true, false] {
        let world = World::of_neighbours(dynamic);
        let keys = [
            ("execution.device", "\"cuda:0\"".to_owned()),
            ("execution.batches_ahead", "3".to_owned()),
        ];
        let (whole, parts) = (world.config("whole", &keys), world.config("parts", &keys));
        let (mut once, mut told) = <(Told, Told)>::default();
        once.go_on(&whole, with, None).unwrap();
        for stop in [3, 0, 1, 6, 2] {
            let before = told.heard.0;
            told.go_on(&parts, with, Some(stop)).unwrap();
            assert_eq!(told.heard.0, before + u64::from(stop));
        }
        told.go_on(&parts, with, None).unwrap();
        assert_eq!(numbers(&parts), numbers(&whole));
        assert_eq!((told.heard, &told.epochs), (once.heard, &once.epochs));
    }
}
