//! Joining of a trainer: all checks, finding or creating the record, and the start of its work.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pbg_core::event::{Event, IoStats, Resumed};
use pbg_core::ledger::{Record, Sums, Validation};
use pbg_core::schedule::{Extent, PassId};
use pbg_core::strategy::Loss as _;
use pbg_kernels::device::Place;
use pbg_kernels::params::Params;
use pbg_store::checkpoint::SharedCheckpoint;
use pbg_store::dataset::EdgeSet;

use super::checkpoints::stored_state;
use super::ends::Earlier;
use super::growth;
use super::joining::{Finding, admit, draw};
use super::ledger::{Attendance, Ledger, User};
use super::not_yet::{refuse_no_epochs, refuse_shared};
use super::parameters::{Arrays, Parameters};
use super::ranking::{Rankings, validation_terms};
use super::tables::SharedTables;
use super::watch::Watch;
use super::work::{grid, terms};
use super::{Cluster, ClusterError, Member};
use crate::check::CheckReport;
use crate::commit;
use crate::error::{Mismatch, RunError};
use crate::executor;
use crate::identity::Allowed;
use crate::machine::{Machine, Parts};
use crate::memory;
use crate::resolved::Resolved;
use crate::run::Strategies;
use crate::tables::Initial;

impl<'a> Member<'a> {
    /// Joins the run of `cluster`, replacing `earlier` if this trainer was part of the run before.
    pub(crate) fn join(
        resolved: &'a Resolved,
        strategies: Strategies,
        cluster: &'a Cluster,
        (allowed, earlier): (Allowed, Option<Earlier>),
        stop: &'a Arc<AtomicBool>,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, RunError> {
        resolved.check_checkpoint_path()?;
        allow_grid(resolved, cluster)?;
        refuse_no_epochs(resolved)?;
        let mut ready = Ready::new(resolved, &strategies)?;
        let token = draw()?;
        let folder = Path::new(&resolved.config().checkpoint_path);
        let files = SharedCheckpoint::open(folder, token)?;
        let (register, live) = (Arc::clone(&cluster.register), Arc::clone(&cluster.live));
        let user = User {
            stop: Arc::clone(stop),
            tell: Arc::clone(&cluster.tell),
        };
        let ledger = Ledger::new(register, live, token, cluster.patience);
        let ledger = Arc::new(ledger.of(user));
        let attendance = Attendance::start(&ledger)?;
        let mut other_validation = false;
        if let Some(manifest) = &files.newest()? {
            let admitted = admit(manifest, resolved, &strategies, &files, allowed);
            let admitted = admitted.inspect_err(|_| drop(files.forget(token)))?;
            other_validation = admitted.other_validation;
        }
        let (ids, validation) = (strategies.ids(), ready.validation.take());
        let terms = terms(resolved, cluster, &ids, ready.extent, validation);
        let finding = Finding {
            resolved,
            strategies: &strategies,
            cluster,
            stop,
            ledger: &ledger,
            files: &files,
            terms: &terms,
            shares_parameters: !ready.params.tensors().is_empty()
                || resolved.blueprint().layout.fixed_tables().next().is_some()
                || strategies.loss.state().is_some(),
            allowed,
            other_validation,
        };
        let joined = finding.join(earlier.map(|earlier| earlier.token), sink);
        // A trainer that does not join removes its sign file.
        let (record, changes) = joined.inspect_err(|_| drop(files.forget(token)))?;
        if let Some(earlier) = earlier {
            files.forget(earlier.token)?;
        }
        go_on_with_loss(&strategies, &record, &files, resolved)?;
        let tables = Self::tables(resolved, files, &ledger, &record, &mut ready.params)?;
        let machine = ready.machine(resolved, strategies, tables, &record, sink)?;
        let told = earlier.map(|earlier| earlier.told);
        let member = Self::begin((machine, attendance), ledger, cluster, stop, told)?;
        Ok(Self { changes, ..member })
    }

    /// Creates the tables of a trainer that has joined `record`. Parameters, and tables of types with one partition,
    /// start from the newest checkpoint or `init_path`. They are not read before joining, because a trainer that left
    /// just before may have written a checkpoint with newer values.
    fn tables(
        resolved: &Resolved,
        files: SharedCheckpoint,
        ledger: &Arc<Ledger>,
        record: &Record,
        params: &mut Params,
    ) -> Result<SharedTables, RunError> {
        let newest = files.newest()?;
        let lacks_files = record.work().partitions.iter().any(|p| p.files.is_empty());
        let initial = Initial::new(resolved, newest.is_none() || lacks_files)?;
        match (&newest, initial.checkpoint()) {
            (Some(manifest), _) => commit::read_model(files.read_model(manifest)?, params)?,
            (None, Some(init)) => commit::read_model(init.model()?, params)?,
            (None, None) => {}
        }
        let blueprint = resolved.blueprint();
        let new_rows = match &newest {
            Some(manifest) => growth::new_rows(resolved, manifest)?,
            None => Default::default(),
        };
        Ok(SharedTables::new(
            files,
            Arc::clone(ledger),
            (initial, new_rows),
            blueprint.layout.clone(),
            grid(&blueprint.layout),
            blueprint.features(resolved.dataset())?,
            newest.as_ref(),
        ))
    }

    /// Starts a trainer that has joined. `told` is the number of epochs at the last ranking that its previous
    /// participation has reported.
    fn begin(
        (mut machine, attendance): (Machine<'a, SharedTables>, Attendance),
        ledger: Arc<Ledger>,
        cluster: &'a Cluster,
        stop: &'a AtomicBool,
        told: Option<u32>,
    ) -> Result<Self, RunError> {
        let watch = Watch::start(cluster, &ledger)?;
        let epochs_told = ledger.seen().map_or(0, |record| record.work().pass.epoch);
        let mut parameters = None;
        let tables = machine.line.buffer.fixed_tables();
        let arrays = Arrays::new(Arc::clone(&machine.params), tables);
        let loss = machine.strategies.loss.clone();
        if !arrays.is_empty() || loss.state().is_some() {
            let patience = cluster.patience.min(cluster.lease);
            let live = &cluster.live;
            let (loss, limits) = (Some(loss), cluster.exchange);
            let started = Parameters::start(arrays, loss, &ledger, live, limits, patience)?;
            machine.gate = Some(started.gate());
            parameters = Some(started);
        }
        Ok(Self {
            _attendance: attendance,
            machine,
            watch,
            parameters,
            rankings: Rankings::before(&ledger, told),
            ledger,
            cluster,
            changes: None,
            stop,
            pass: None,
            leased: Default::default(),
            turns: Default::default(),
            unsettled: Vec::new(),
            sums: Sums::default(),
            totals: (0, 0, IoStats::default()),
            handed_on: IoStats::default(),
            last_checkpoint: Instant::now(),
            started: Instant::now(),
            lines: Vec::new(),
            leased_at: Default::default(),
            epochs_told,
            last_epoch: None,
            gathered: 0,
        })
    }

    /// Returns the event that reports the start.
    pub(super) fn announcement(&self, record: &Record) -> Event {
        let (machine, work) = (&self.machine, record.work());
        let done = work.buckets.count(pbg_core::ledger::BucketState::Done) as u64;
        let begins = work.pass == PassId::default() && done == 0;
        let version = record.checkpoints().base().map_or(0, |base| base.version);
        Event::RunStarted {
            epochs: machine.extent.epochs,
            passes_per_epoch: machine.extent.edge_sets * machine.extent.edge_chunks,
            buckets: machine.blueprint().layout.buckets(),
            edges_per_epoch: machine.edge_sets.iter().map(|set| set.len()).sum(),
            workers: machine.workers() as u32,
            resumed: (!begins).then_some(Resumed {
                pass: work.pass,
                done,
                edges: 0,
                version,
            }),
        }
    }
}

/// State that does not depend on other trainers, checked before this trainer becomes visible to them.
struct Ready {
    edge_sets: Arc<Vec<EdgeSet>>,
    extent: Extent,
    needs: CheckReport,
    params: Params,
    place: Option<Arc<dyn Place>>,
    validation: Option<Validation>,
}

impl Ready {
    fn new(resolved: &Resolved, strategies: &Strategies) -> Result<Self, RunError> {
        let place = executor::place(resolved)?;
        executor::allow(resolved, place.is_some())?;
        let edge_sets = Arc::new(resolved.edge_sets()?);
        let needs = resolved.check(Some(&strategies.loss))?;
        memory::require("training", needs.taken(), needs.threads())?;
        let params = Params::new(&resolved.blueprint().spec, resolved.config().seed);
        refuse_shared(resolved, &params, place.is_some())?;
        Ok(Self {
            extent: resolved.extent(&edge_sets)?,
            edge_sets,
            needs,
            params,
            place,
            validation: validation_terms(resolved)?,
        })
    }

    /// Creates the machine of a trainer that has joined `record`.
    fn machine<'a>(
        self,
        resolved: &'a Resolved,
        strategies: Strategies,
        tables: SharedTables,
        record: &Record,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Machine<'a, SharedTables>, RunError> {
        let parts = Parts {
            strategies,
            edge_sets: self.edge_sets,
            extent: self.extent,
            pipeline: &self.needs.execution,
            tables,
            params: self.params,
            place: self.place,
            lr_factor: record.work().progress.plateau.lr_factor,
        };
        Machine::new(resolved, parts, sink)
    }
}

/// Checks that a run of several trainers has several buckets.
fn allow_grid(resolved: &Resolved, cluster: &Cluster) -> Result<(), ClusterError> {
    let buckets = resolved.blueprint().layout.buckets();
    match cluster.machines > 1 && buckets < 2 {
        true => Err(ClusterError::OneBucket),
        false => Ok(()),
    }
}

/// Sets the loss's parameters to the newest state in the ledger or the checkpoint. Their owner may have a newer one.
fn go_on_with_loss(
    strategies: &Strategies,
    record: &Record,
    files: &SharedCheckpoint,
    resolved: &Resolved,
) -> Result<(), RunError> {
    let checkpoint = &resolved.config().checkpoint_path;
    let stored = match files.newest()? {
        Some(manifest) => stored_state(&manifest, checkpoint)?.loss,
        None => None,
    };
    let states = stored
        .into_iter()
        .chain(record.work().progress.loss.clone());
    let Some(state) = states.max_by_key(|state| state.step) else {
        return Ok(());
    };
    let restored = strategies.loss.restore(&state);
    restored.map_err(|reason| {
        let checkpoint = checkpoint.into();
        Mismatch::Loss { checkpoint, reason }.into()
    })
}
