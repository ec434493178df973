//! Import, an epoch and an evaluation of a small graph with four partitions on disk.

use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use pbg_config::Config;
use pbg_import::ImportOptions;
use pbg_model::{AllowedChanges, ResolvedConfig};
use pbg_query::evaluate::{self, CandidateSet, EvalOptions};
use pbg_reference::losses::{softmax, traced};
use pbg_reference::strategies::{first_relation, row_by_row};
use pbg_train::{Fallbacks, GuardedLoss, Strategies};

/// Names of the cases.
pub(crate) const CASES: [&str; 3] = ["epoch", "evaluation", "import"];

const ENTITIES: u32 = 1000;
const PARTITIONS: u32 = 4;
const EDGE_SETS: [(&str, u32); 2] = [("train", 3000), ("test", 50)];

/// Writes the edges, imports them, and writes an untrained model.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn prepare(folder: &Path) -> Result<()> {
    for (set, edges) in EDGE_SETS {
        let path = folder.join(format!("{set}.tsv"));
        fs::write(&path, text(set, edges)?).with_context(|| path.display().to_string())?;
    }
    import(folder, "dataset")?;
    // The bytes of an untrained model follow from the seed alone, those of a trained one also from the processor.
    train(folder, "untrained", 0)
}

/// Does the work of a case in a prepared folder.
///
/// # Errors
/// When the import, the training or the evaluation fails.
pub(crate) fn run(case: &str, folder: &Path) -> Result<()> {
    match case {
        "import" => import(folder, "imported"),
        "epoch" => train(folder, "trained", 1),
        _ => evaluation(folder),
    }
}

/// Returns edges in which no two have the same entities.
fn text(set: &str, edges: u32) -> Result<String> {
    let mut text = String::new();
    let first = if set == "train" { 0 } else { 1_000_000 };
    for number in first..first + edges {
        let (lhs, step) = (number % ENTITIES, 1 + number / ENTITIES);
        let rhs = (lhs + 37 * step) % ENTITIES;
        writeln!(text, "entity{lhs}\trelation{}\tentity{rhs}", step % 5)?;
    }
    Ok(text)
}

fn config(folder: &Path, model: &str, epochs: u32) -> Result<Config> {
    let (dataset, model) = (folder.join("dataset"), folder.join(model));
    let slice_bytes = crate::slices::SLICE_BYTES;
    let text = format!(
        "dataset = {dataset:?}\ncheckpoint_path = {model:?}\ndimension = 32\ncomparator = \"dot\"\n\
         loss_fn = \"softmax\"\nnum_epochs = {epochs}\nlr = 0.1\ndynamic_relations = true\nworkers = 1\nseed = 7\n\
         batch_size = 200\nnum_batch_negs = 50\nnum_uniform_negs = 50\neval_fraction = 0.0\ncheckpoint_interval = 1e9\n\
         [execution]\nprefetch = false\nslice_bytes = {slice_bytes}\n\
         [entities.entity]\nnum_partitions = {PARTITIONS}\n\
         [[relations]]\nname = \"all\"\nlhs = \"entity\"\nrhs = \"entity\"\noperator = \"complex_diagonal\"\n"
    );
    Config::parse(&text, "the configuration", &[]).context("configuration")
}

fn import(folder: &Path, target: &str) -> Result<()> {
    let config = config(folder, "none", 1)?;
    let options = ImportOptions {
        target: folder.join(target),
        trained: config.edge_sets.clone(),
        threads: Some(1),
        ..ImportOptions::default()
    };
    let file = |set: &str| vec![folder.join(format!("{set}.tsv"))];
    let sets = EDGE_SETS.map(|(set, _)| (set.to_owned(), file(set)));
    let go_on = &mut |_| ControlFlow::Continue(());
    pbg_import::run(&config.graph_schema(), &sets, &options, go_on)?;
    Ok(())
}

fn train(folder: &Path, model: &str, epochs: u32) -> Result<()> {
    let resolved = ResolvedConfig::new(config(folder, model, epochs)?)?;
    let strategies = Strategies {
        order: row_by_row(),
        // Dynamic relations are not sampled.
        sampler: first_relation(),
        negatives: None,
        schedule: None,
        loss: GuardedLoss::new(Box::new(traced(softmax())), None),
        fallbacks: Fallbacks::default(),
    };
    let (allowed, stop) = (AllowedChanges::default(), AtomicBool::new(false));
    pbg_train::train(&resolved, strategies, allowed, &stop, &mut drop)?;
    Ok(())
}

/// Ranks the test edges among all entities.
fn evaluation(folder: &Path) -> Result<()> {
    let resolved = ResolvedConfig::new(config(folder, "untrained", 0)?)?;
    let options = EvalOptions {
        edges: "test".to_owned(),
        filter: EDGE_SETS.map(|(set, _)| set.to_owned()).to_vec(),
        candidates: CandidateSet::All,
        threads: Some(1),
        limit: None,
        by: None,
        seen: false,
    };
    evaluate::evaluate(&resolved, &options, &mut |_, _| ())?;
    Ok(())
}
