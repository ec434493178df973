//! Whole runs on a device, compared with the cores: the loop, the partition buffer, held-out edges and checkpoints.
//! Here the device's operations are computed in main memory; `pbg_steps` tests them on a GPU.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_checkpoint::{PartitionData, ReadCheckpoint};
use pbg_config::Config;
use pbg_core::event::{Event, RankStats};
use pbg_kernels::device::OpenDevice;
use pbg_model::{AllowedChanges, ResolvedConfig};
use pbg_train::{RunOutcome, Strategies};

use crate::train::dataset::import_into;
use crate::train::strategies::{neighbors, standard};

const ENTITIES: usize = 60;
const PARTITIONS: u32 = 3;

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
eval_fraction = 0.1
max_norm = 2.0

[entities.place]
num_partitions = 3

[[relations]]
name = "*"
lhs = "place"
rhs = "place"
operator = "complex_diagonal"
"#;

/// Returns two rings of places, with roads between them.
fn edges() -> String {
    let mut text = String::new();
    for place in 0..ENTITIES {
        for (step, relation) in [(1, "next"), (2, "near"), (30, "opposite")] {
            let other = (place + step) % ENTITIES;
            writeln!(text, "place {place}\t{relation}\tplace {other}").expect("a string");
        }
    }
    text
}

/// Imports the edges into a folder; returns the configuration of a run there.
pub(crate) fn dataset(folder: &Path, changes: &[(&str, &str)]) -> Config {
    let path = |name: &str| folder.join(name).display().to_string();
    let mut set: Vec<(String, String)> = changes
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    set.push(("dataset".to_owned(), format!("{:?}", path("data"))));
    set.push(("checkpoint_path".to_owned(), format!("{:?}", path("model"))));
    let config = Config::parse(CONFIG, "test", &set).expect("a configuration");
    let list = folder.join("train.tsv");
    std::fs::write(&list, edges()).expect("room on the disk");
    let sets = vec![("train".to_owned(), vec![list])];
    import_into(folder, &config, &sets, Vec::new());
    config
}

/// Results of a run.
pub(crate) struct Ran {
    /// Groups that reported their time, and whether they worked.
    groups: Vec<(String, bool)>,
    losses: Vec<f64>,
    held_out: Vec<RankStats>,
    partitions: Vec<PartitionData>,
}

fn main_memory() -> Option<Arc<dyn OpenDevice>> {
    // The check of a model needs libtorch.
    pbg_torch::load_found();
    Some(Arc::new(pbg_torch::TorchDevice::MAIN_MEMORY))
}

fn train(config: &Config, place: Option<Arc<dyn OpenDevice>>) -> Ran {
    train_with(config, standard(config), place)
}

pub(crate) fn train_with(
    config: &Config,
    strategies: Strategies,
    place: Option<Arc<dyn OpenDevice>>,
) -> Ran {
    let (mut losses, mut held_out, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let mut watch = |event: Event| match event {
        Event::BucketFinished {
            stats, eval_after, ..
        } => {
            losses.push(stats.mean_loss());
            held_out.extend(eval_after);
        }
        Event::EpochFinished { groups, .. } => {
            let worked = groups
                .into_iter()
                .map(|group| (group.group, group.busy > 0.0));
            told = worked.collect();
        }
        _ => {}
    };
    let stop = AtomicBool::new(false);
    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
    let allowed = AllowedChanges::default();
    let outcome = pbg_train::train_at(&resolved, strategies, allowed, place, &stop, &mut watch);
    assert!(
        matches!(outcome, Ok(RunOutcome::Finished { .. })),
        "{outcome:?}"
    );
    let checkpoint = ReadCheckpoint::open(Path::new(&config.checkpoint_path)).expect("a model");
    let read = |partition| {
        checkpoint
            .read_partition("place", partition)
            .expect("a file")
    };
    Ran {
        groups: told,
        losses,
        held_out,
        partitions: (0..PARTITIONS)
            .map(|partition| read(partition).expect("a partition"))
            .collect(),
    }
}

fn close(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 2e-3 * (1.0 + expected.abs())
}

fn compare(found: &Ran, expected: &Ran) {
    for (found, expected) in found.partitions.iter().zip(&expected.partitions) {
        for (found, expected) in [
            (&found.embeddings, &expected.embeddings),
            (&found.state, &expected.state),
        ] {
            assert_eq!(found.len(), expected.len());
            for (&found, &expected) in found.iter().zip(expected) {
                assert!(close(found.into(), expected.into()), "{found} {expected}");
            }
        }
    }
}

fn both(changes: &[(&str, &str)]) {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [on_cores, on_device] = &folders;
    let expected = train(&dataset(on_cores.path(), changes), None);
    let config = dataset(on_device.path(), changes);
    let found = train(&config, main_memory());
    assert_eq!(found.losses.len(), 2 * 9);
    for (found, expected) in found.losses.iter().zip(&expected.losses) {
        assert!(close(*found, *expected), "{found} {expected}");
    }
    assert!(!found.held_out.is_empty());
    for (found, expected) in found.held_out.iter().zip(&expected.held_out) {
        assert_eq!(found.count, expected.count);
        let [found, expected] = [found, expected].map(|ranks| ranks.loss.expect("it is computed"));
        assert!(close(found, expected), "{found} {expected}");
    }
    compare(&found, &expected);
}

#[test]
fn a_run_with_static_relations_out_of_core() {
    both(&[]);
}

#[test]
fn a_run_with_dynamic_relations_and_a_computed_loss() {
    both(&[
        ("dynamic_relations", "true"),
        ("relations.0.name", "any"),
        ("loss_fn", "\"softmax_computed\""),
        ("negatives_from", "\"bucket\""),
        ("execution.prefetch", "false"),
    ]);
}

/// A plugin without scores selects the same negatives on a device, where batches are planned ahead.
#[test]
fn selected_negatives_are_those_of_the_cores() {
    for dynamic in ["true", "false"] {
        let changes = [
            ("dynamic_relations", dynamic),
            (
                "relations.0.name",
                if dynamic == "true" {
                    "\"any\""
                } else {
                    "\"*\""
                },
            ),
            ("execution.batches_ahead", "2"),
        ];
        let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
        let [on_cores, on_device, uniform] = &folders;
        let selected = |folder: &Path, device: Option<&str>, place| {
            let device = device.map(|device| ("execution.device", device));
            let changes: Vec<_> = changes.into_iter().chain(device).collect();
            let config = dataset(folder, &changes);
            let strategies = Strategies {
                negatives: Some(neighbors(false)),
                ..standard(&config)
            };
            train_with(&config, strategies, place)
        };
        let expected = selected(on_cores.path(), None, None);
        let found = selected(on_device.path(), Some("\"cuda:0\""), main_memory());
        compare(&found, &expected);
        let uniform = train(&dataset(uniform.path(), &changes), None);
        assert_ne!(uniform.losses, expected.losses);
    }
}

#[test]
fn scores_of_candidates_are_refused_on_a_device() {
    // The check of a model needs libtorch.
    pbg_torch::load_found();
    let folder = tempfile::tempdir().expect("a folder");
    let config = dataset(folder.path(), &[("execution.device", "\"cuda:0\"")]);
    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
    for (scores, refused) in [(false, false), (true, true)] {
        let strategies = Strategies {
            negatives: Some(neighbors(scores)),
            ..standard(&config)
        };
        let checked = pbg_train::check(&resolved, Some(&strategies));
        let reason = checked.err().map(|error| error.to_string());
        let named = reason.as_ref().is_some_and(|reason| {
            reason.contains("neighbors") && reason.contains("execution.device = \"cpu\"")
        });
        assert_eq!((reason.is_some(), named), (refused, refused), "{reason:?}");
    }
}

/// Batches planned ahead by their own group are the same batches.
#[test]
fn planning_ahead_changes_nothing() {
    let train_with = |ahead: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let changes = [
            ("dynamic_relations", "true"),
            ("relations.0.name", "any"),
            ("execution.device", "\"cuda:0\""),
            ("execution.batches_ahead", ahead),
        ];
        train(&dataset(folder.path(), &changes), main_memory())
    };
    let (within, beside) = (train_with("0"), train_with("3"));
    let names = |ran: &Ran| -> Vec<String> { ran.groups.iter().map(|g| g.0.clone()).collect() };
    assert_eq!(names(&within), ["storage", "edges", "training"]);
    assert_eq!(names(&beside), ["storage", "edges", "planning", "training"]);
    assert!(
        beside.groups.iter().all(|(_, worked)| *worked),
        "{:?}",
        beside.groups
    );
    assert_eq!(within.losses, beside.losses);
    for (within, beside) in within.partitions.iter().zip(&beside.partitions) {
        assert_eq!(within.embeddings, beside.embeddings);
        assert_eq!(within.state, beside.state);
    }
}

/// A checkpoint does not depend on the device.
#[test]
fn a_run_goes_on_elsewhere_than_where_it_began() {
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [on_cores, moved] = &folders;
    let expected = train(&dataset(on_cores.path(), &[]), None);
    let mut config = dataset(moved.path(), &[]);
    config.num_epochs = 1;
    train(&config, main_memory());
    config.num_epochs = 2;
    let found = train(&config, None);
    assert_eq!(found.losses.len(), 9);
    compare(&found, &expected);
}

/// The partitions of such a bucket may not be in memory.
#[test]
fn a_bucket_without_edges_plans_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let changes = [
        ("dynamic_relations", "true"),
        ("relations.0.name", "any"),
        ("execution.device", "\"cuda:0\""),
        ("eval_fraction", "0"),
        ("num_edge_chunks", "32"),
        ("buffer_partitions", "2"),
    ];
    let ran = train(&dataset(folder.path(), &changes), main_memory());
    assert_eq!(ran.losses.len(), 2 * 32 * 9);
    assert!(ran.losses.contains(&0.0));
}
