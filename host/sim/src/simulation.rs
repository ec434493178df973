//! A simulated run from its seed to its outcome.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use pbg_core::lock::lock;
use pbg_model::resolved::ResolvedConfig;

use crate::check;
use crate::dice::Dice;
use crate::director::Director;
use crate::fault::SimFault;
use crate::graph;
use crate::invariants::{FileSizes, RecordCheck};
use crate::outcome::{SimOutcome, SimTotals};
use crate::partition_memory::SimServers;
use crate::register::SharedRegister;
use crate::scenario::SimScenario;
use crate::store::SharedStore;
use crate::store_connection::{OpenedStore, size_at};
use crate::trainer::{Narrator, SharedRun};
use crate::world::SimWorld;

/// What is simulated, and where.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Seed that decides what happens.
    pub seed: u64,
    /// Kinds of faults that are not injected.
    pub without: BTreeSet<SimFault>,
    /// When the disturbances end at the latest, in virtual time; `None` to let the seed decide.
    pub disturbed: Option<Duration>,
    /// Folder of [`crate::import_datasets`].
    pub datasets: PathBuf,
    /// Receiver of lines about what happens and when, in virtual time.
    pub narrator: Narrator,
}

/// Simulates a run. `folder` is an empty folder for its files.
///
/// # Errors
/// When the run cannot be simulated. What it violates is part of the outcome.
pub fn simulate(options: &SimOptions, folder: &Path) -> Result<SimOutcome> {
    let mut scenario = SimScenario::draw(&mut Dice::new(options.seed));
    if let Some(disturbed) = options.disturbed {
        scenario.disturbed = scenario.disturbed.min(disturbed);
    }
    let model = folder.join("model");
    let url = scenario.store.map(|_| OpenedStore::new_url());
    let checkpoint = url.as_ref().map_or(model.as_path(), Path::new);
    let config = graph::config(&scenario.run, &options.datasets, checkpoint)?;
    let resolved = ResolvedConfig::new(config)?;
    let violations = Arc::<Mutex<String>>::default();
    let register = SharedRegister::new(RecordCheck::new(sizes_in(&model), &violations));
    let (mut outcome, trained) = SimWorld::run(options.seed, options.without.clone(), |world| {
        let store = url.as_ref().map(|url| {
            let check = RecordCheck::new(sizes_at(url), &violations);
            OpenedStore::new(SharedStore::new(world, check, folder), url)
        });
        let run = Arc::new(SharedRun {
            world: Arc::clone(world),
            store,
            register: Arc::new(register),
            network: Arc::default(),
            servers: SimServers::new(world),
            replicas: scenario.servers.map(|(replicas, _)| replicas),
            resolved: resolved.clone(),
            trainers: scenario.trainers,
            lease: scenario.lease,
            bucket: scenario.bucket,
            lease_ahead: scenario.lease_ahead,
            narrator: options.narrator,
            violations: Arc::clone(&violations),
            trained: Mutex::default(),
        });
        let disturbed = Director::new(&run, &scenario).direct()?;
        if world.panics() > 0 {
            run.violate(&format!("{} threads panicked", world.panics()));
        }
        if let Some(opened) = &run.store {
            opened.store.write_all(&model)?;
        }
        let trained = *lock(&run.trained);
        let outcome = SimOutcome {
            violation: None,
            digest: world.digest(),
            disturbed,
            totals: SimTotals {
                time: world.time(),
                turns: world.turns(),
                buckets: 0,
                repeated: 0,
                training: trained.time,
                faults: world.faults(),
            },
        };
        anyhow::Ok((outcome, trained.buckets))
    })??;
    let mut violations = std::mem::take(&mut *lock(&violations));
    if violations.is_empty() {
        let model = model.to_string_lossy().into_owned();
        let written = resolved.with(|config| config.checkpoint_path = model)?;
        let finished = check::finished_run(&written, &scenario.run, folder)?;
        violations = finished.violations;
        let totals = &mut outcome.totals;
        totals.buckets = finished.buckets;
        totals.repeated = trained.saturating_sub(finished.buckets);
    }
    outcome.violation = (!violations.is_empty()).then_some(violations);
    Ok(outcome)
}

/// Returns the sizes of the files in a folder.
fn sizes_in(folder: &Path) -> FileSizes {
    let folder = folder.to_owned();
    Box::new(move |name| {
        let found = fs::metadata(folder.join(name));
        found.map_or(0, |metadata| metadata.len())
    })
}

/// Returns the sizes of the objects at a URL.
fn sizes_at(url: &str) -> FileSizes {
    let url = url.to_owned();
    Box::new(move |name| size_at(&url, name))
}
