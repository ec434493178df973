//! Scores of candidates for negatives, as a plugin gets them, next to those of a model in double precision.

use std::path::Path;
use std::sync::{Arc, Mutex};

use pbg_checkpoint::ReadCheckpoint;
use pbg_config::Config;
use pbg_core::graph::Side;
use pbg_core::lock::lock;
use pbg_core::strategy::{
    MASKED, NegativeChunk, NegativeSelection, NegativeSelector, SelectionRequirements,
    SelectionWorker, StrategyError, StrategyId,
};
use pbg_kernels::negatives::NegativeDraws;
use pbg_model::{ResolvedConfig, commit};
use pbg_reference::model::{Edges, Model};
use pbg_reference::twin::{global, packed};
use pbg_rows::params::Params;
use pbg_train::{NegativeStrategy, Strategies};

use crate::train::device_run::{dataset, train_with};
use crate::train::strategies::{id, standard};

/// Edges of a full chunk.
const CHUNK: usize = 4;

/// Negative selector that keeps its chunks, and selects the first candidates.
#[derive(Clone)]
struct Recorder {
    id: StrategyId,
    chunks: Arc<Mutex<Vec<NegativeChunk>>>,
}

impl NegativeSelector for Recorder {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn required(&self) -> SelectionRequirements {
        SelectionRequirements {
            candidates_per_negative: 3,
            scores: true,
        }
    }

    fn worker(&self) -> Box<dyn SelectionWorker> {
        Box::new(self.clone())
    }
}

impl SelectionWorker for Recorder {
    fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection, StrategyError> {
        lock(&self.chunks).push(chunk.clone());
        let first = &chunk.candidates[..chunk.negatives as usize];
        Ok(NegativeSelection::Entities(first.to_vec()))
    }
}

/// Returns the chunks of the first batch of the second epoch, whose model is that of the first.
fn first_batch(config: &mut Config) -> Vec<NegativeChunk> {
    let recorder = Recorder {
        id: id("recorder"),
        chunks: Arc::default(),
    };
    let strategies = |config: &Config| Strategies {
        negatives: Some(NegativeStrategy::Selection(Arc::new(recorder.clone()))),
        ..standard(config)
    };
    config.num_epochs = 1;
    train_with(config, strategies(config), None);
    lock(&recorder.chunks).clear();
    let before = Path::new(&config.checkpoint_path).with_extension("before");
    copy(Path::new(&config.checkpoint_path), &before);
    config.num_epochs = 2;
    train_with(config, strategies(config), None);
    let mut chunks = std::mem::take(&mut *lock(&recorder.chunks));
    let of_lhs = chunks.iter().take_while(|chunk| chunk.side == Side::Lhs);
    let both = 2 * of_lhs.count();
    chunks.truncate(both);
    chunks
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a checkpoint") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("a type").is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
        }
    }
}

/// Returns the model of the first epoch, with the tables of a chunk.
fn model_before(config: &Config, chunk: &NegativeChunk) -> Model {
    let folder = Path::new(&config.checkpoint_path).with_extension("before");
    let checkpoint = ReadCheckpoint::open(&folder).expect("a model");
    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
    let spec = resolved.blueprint().spec.clone();
    let mut params = Params::new(&spec, 0);
    commit::read_model(checkpoint.model().expect("a file"), &mut params).expect("parameters");
    let table = |partition| -> Vec<Vec<f64>> {
        let data = checkpoint.read_partition("place", partition);
        let data = data.expect("a file").expect("a partition");
        let rows = data.embeddings.chunks(data.dim);
        rows.map(|row| row.iter().map(|&x| x.into()).collect())
            .collect()
    };
    let mut partitions = [chunk.partition, chunk.kept_partition];
    if chunk.side == Side::Rhs {
        partitions.reverse();
    }
    Model {
        tables: partitions.map(table),
        shared: partitions[0] == partitions[1],
        features: [None, None],
        operators: Side::BOTH.map(|side| packed(&spec, &params, side)),
        globals: (0..spec.entities.len())
            .map(|entity| global(&spec, &params, entity))
            .collect(),
        spec,
    }
}

fn assert_close(found: f32, expected: f64) {
    let found = f64::from(found);
    assert!(
        (found - expected).abs() <= 1e-4 * (1.0 + expected.abs()),
        "{found} {expected}"
    );
}

/// Compares the scores of a chunk; returns the number of candidates that an edge of the chunk has.
fn compare(config: &Config, chunk: &NegativeChunk) -> usize {
    let model = model_before(config, chunk);
    let mut sides = [chunk.replaced.clone(), chunk.kept.clone()];
    if chunk.side == Side::Rhs {
        sides.reverse();
    }
    let edges = Edges {
        sides,
        relations: chunk.relations.clone(),
        weights: None,
        draws: NegativeDraws::default(),
    };
    let scores = chunk.scores.as_ref().expect("scores are required");
    let score = |edge, entity| model.score(&edges, chunk.side, edge, entity);
    for (edge, (&entity, &found)) in chunk.replaced.iter().zip(&scores.positives).enumerate() {
        assert_close(found, score(edge, entity));
    }
    assert_eq!(scores.positives.len(), chunk.replaced.len());
    assert_eq!(scores.means.len(), chunk.candidates.len());
    assert_eq!(scores.highest.len(), chunk.candidates.len());
    for (at, &candidate) in chunk.candidates.iter().enumerate() {
        let others = (0..edges.relations.len()).filter(|&edge| chunk.replaced[edge] != candidate);
        let of_edges: Vec<f64> = others.map(|edge| score(edge, candidate)).collect();
        let (mean, highest) = match of_edges.len() {
            0 => (f64::from(MASKED), f64::from(MASKED)),
            count => (
                of_edges.iter().sum::<f64>() / count as f64,
                of_edges.iter().copied().fold(f64::MIN, f64::max),
            ),
        };
        assert_close(scores.means[at], mean);
        assert_close(scores.highest[at], highest);
    }
    let right = chunk.candidates.iter();
    right
        .filter(|entity| chunk.replaced.contains(entity))
        .count()
}

/// A plugin gets the scores of the model as it is before the batch, on both sides and in every chunk.
#[test]
fn candidates_are_scored_by_the_model_before_the_batch() {
    let chunk = CHUNK.to_string();
    for (dynamic, bias, batch_negatives) in [
        (false, false, CHUNK),
        (false, true, 0),
        (true, false, 0),
        (true, true, CHUNK),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let (dynamic, name) = match dynamic {
            true => ("true", "\"any\""),
            false => ("false", "\"*\""),
        };
        let changes = [
            ("dynamic_relations", dynamic),
            ("relations.0.name", name),
            ("bias", if bias { "true" } else { "false" }),
            ("num_batch_negs", &batch_negatives.to_string()),
            ("chunk_size", &chunk),
            ("max_norm", "1000.0"),
            ("init_scale", "0.5"),
        ];
        let mut config = dataset(folder.path(), &changes);
        let chunks = first_batch(&mut config);
        let on = |side| chunks.iter().filter(|chunk| chunk.side == side).count();
        assert!(on(Side::Lhs) > 1 && on(Side::Lhs) == on(Side::Rhs));
        let last = chunks.last().map(|chunk| chunk.replaced.len());
        assert!(last.is_some_and(|edges| edges < CHUNK), "{last:?}");
        let right: usize = chunks.iter().map(|chunk| compare(&config, chunk)).sum();
        assert!(right > 0, "some candidates are right answers");
    }
}
