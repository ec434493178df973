//! The graphs that simulated runs train, and strategies without a sandbox.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use pbg_config::Config;
use pbg_core::graph::Bucket;
use pbg_core::strategy::{
    BucketOrder, Pass, RelationDraw, RelationSampler, SamplerFactory, StrategyError, StrategyId,
};
use pbg_import::ImportOptions;
use pbg_kernels::losses::handwritten::HandwrittenLoss;
use pbg_ledger::Grid;
use pbg_train::{Fallbacks, GuardedLoss, Strategies};

/// Grid of a run's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GridShape {
    /// One entity type on both sides.
    Shared(u32),
    /// An entity type for each side.
    Bipartite(u32, u32),
}

/// All grids that are simulated.
pub(crate) const SHAPES: [GridShape; 4] = [
    GridShape::Shared(3),
    GridShape::Shared(4),
    GridShape::Shared(6),
    GridShape::Bipartite(4, 2),
];

impl GridShape {
    /// Returns the name of the folder with its dataset.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Shared(partitions) => format!("shared_{partitions}"),
            Self::Bipartite(lhs, rhs) => format!("bipartite_{lhs}_{rhs}"),
        }
    }

    fn types(self, operator: &str) -> String {
        let entity = |name: &str, partitions: u32| {
            format!("\n[entities.{name}]\nnum_partitions = {partitions}\n")
        };
        let (rhs, entities) = match self {
            Self::Shared(partitions) => ("node", entity("node", partitions)),
            Self::Bipartite(lhs, rhs) => ("item", entity("node", lhs) + &entity("item", rhs)),
        };
        format!(
            "{entities}\n[[relations]]\nname = \"edge\"\nlhs = \"node\"\nrhs = \"{rhs}\"\noperator = {operator:?}\n"
        )
    }
}

/// Settings of a run that a simulation varies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimSettings {
    pub(crate) shape: GridShape,
    pub(crate) epochs: u32,
    pub(crate) chunks: u32,
    pub(crate) checkpoint_seconds: f64,
    /// Whether the relation has a translation, which all trainers train.
    pub(crate) shares_parameters: bool,
}

/// Returns the configuration of a run whose dataset is in `datasets`.
///
/// # Errors
/// When the configuration is invalid.
pub(crate) fn config(settings: &SimSettings, datasets: &Path, checkpoint: &Path) -> Result<Config> {
    let SimSettings {
        shape,
        epochs,
        chunks,
        checkpoint_seconds,
        shares_parameters,
    } = settings;
    let operator = if *shares_parameters {
        "translation"
    } else {
        "none"
    };
    let dataset = datasets.join(shape.name());
    let text = format!(
        "dataset = {dataset:?}\ncheckpoint_path = {checkpoint:?}\ndimension = 4\ncomparator = \"dot\"\n\
         loss_fn = \"softmax\"\nnum_epochs = {epochs}\nnum_edge_chunks = {chunks}\nglobal_emb = false\n\
         checkpoint_interval = {checkpoint_seconds}\nworkers = 1\nseed = 7\nbatch_size = 16\nnum_batch_negs = 4\n\
         num_uniform_negs = 4\neval_fraction = 0.0\nlr_schedule.decay = \"cosine\"\n\
         lr_schedule.warmup_epochs = 0.5\n{}",
        shape.types(operator)
    );
    Config::parse(&text, "the simulation's configuration", &[]).context("configuration")
}

/// Imports the datasets of all shapes into a folder.
///
/// # Errors
/// When an import fails.
pub fn import_all(datasets: &Path) -> Result<()> {
    for shape in SHAPES {
        let mut text = String::new();
        for edge in 0_u32..400 {
            let rhs = (edge * 17 + edge / 40) % 48;
            writeln!(text, "n{}\tedge\tn{rhs}", edge % 48)?;
        }
        let file = datasets.join(format!("{}.tsv", shape.name()));
        fs::write(&file, text)?;
        let settings = SimSettings {
            shape,
            epochs: 1,
            chunks: 1,
            checkpoint_seconds: 1.0,
            shares_parameters: false,
        };
        let config = config(&settings, datasets, &datasets.join("none"))?;
        let options = ImportOptions {
            target: datasets.join(shape.name()),
            trained: config.edge_sets.clone(),
            threads: Some(1),
            ..ImportOptions::default()
        };
        let sets: Vec<_> = config
            .edge_sets
            .iter()
            .map(|name| (name.clone(), vec![file.clone()]))
            .collect();
        let go_on = &mut |_| std::ops::ControlFlow::Continue(());
        pbg_import::run(&config.graph_schema(), &sets, &options, go_on)?;
    }
    Ok(())
}

/// Returns the strategies of a trainer.
pub(crate) fn strategies() -> Strategies {
    Strategies {
        order: Box::new(RowByRow(id("row-by-row"))),
        sampler: Box::new(FirstRelation(id("first-relation"))),
        negatives: None,
        schedule: None,
        loss: GuardedLoss::new(Box::new(HandwrittenLoss::softmax()), None),
        fallbacks: Fallbacks::default(),
    }
}

fn id(name: &str) -> StrategyId {
    StrategyId {
        name: name.to_owned(),
        version: "1".to_owned(),
        sha256: String::new(),
    }
}

/// Bucket order in the sequence of the grid.
struct RowByRow(StrategyId);

impl BucketOrder for RowByRow {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let grid = Grid::of(pass);
        Ok((0..pass.buckets())
            .map(|index| grid.bucket(index))
            .collect())
    }

    fn pick(&mut self, _: &Pass, _: &[Bucket], _: &[Bucket]) -> Result<usize, StrategyError> {
        Ok(0)
    }
}

/// Relation sampler that draws all edges of the first relation, then those of the next.
struct FirstRelation(StrategyId);

impl SamplerFactory for FirstRelation {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn create(
        &self,
        counts: &[u64],
        batch_size: u32,
        _: u64,
    ) -> Result<Box<dyn RelationSampler>, StrategyError> {
        Ok(Box::new(Remaining {
            counts: counts.to_vec(),
            batch_size,
        }))
    }
}

/// Edges that are not drawn yet, by relation.
struct Remaining {
    counts: Vec<u64>,
    batch_size: u32,
}

impl RelationSampler for Remaining {
    fn next(&mut self) -> Result<Option<RelationDraw>, StrategyError> {
        let left = self
            .counts
            .iter_mut()
            .enumerate()
            .find(|(_, count)| **count > 0);
        Ok(left.map(|(relation, count)| {
            let edges = u64::from(self.batch_size).min(*count);
            *count -= edges;
            RelationDraw {
                relation: relation as u32,
                edges: edges as u32,
            }
        }))
    }

    fn observe(&mut self, _: u32, _: f32) -> Result<(), StrategyError> {
        Ok(())
    }
}
