//! A trainer joins: everything checked, the record found or made from the newest checkpoint, its part begun.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use pbg_core::event::{Event, IoStats, Resumed};
use pbg_core::ledger::{Action, Founding, Join, Record, Refusal, Sums, Terms, Token, Work};
use pbg_core::schedule::{Extent, PassId};
use pbg_kernels::device::Place;
use pbg_kernels::params::Params;
use pbg_store::checkpoint::{Manifest, SharedCheckpoint};
use pbg_store::dataset::EdgeSet;

use super::checkpoints::stored_state;
use super::ledger::Ledger;
use super::not_yet::{refuse_rest, refuse_shared};
use super::parameters::Parameters;
use super::tables::SharedTables;
use super::watch::Watch;
use super::work::{grid, terms, work_of};
use super::{Cluster, ClusterError, Denied, Member};
use crate::check::CheckReport;
use crate::commit;
use crate::error::RunError;
use crate::executor;
use crate::identity::{self, Allowed, Purpose};
use crate::machine::{Machine, Parts};
use crate::memory;
use crate::resolved::Resolved;
use crate::run::Strategies;
use crate::tables::Initial;

/// How late a shared folder may show what another machine has written there.
const VISIBLE_WITHIN: Duration = Duration::from_secs(5);

/// How often a record that others change at the same time is tried to be made.
const ATTEMPTS: usize = 100;

impl<'a> Member<'a> {
    /// Takes part in the run of `cluster`, in the place of `earlier` if this trainer did before.
    pub(crate) fn join(
        resolved: &'a Resolved,
        strategies: Strategies,
        cluster: &'a Cluster,
        earlier: Option<Token>,
        stop: &'a AtomicBool,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, RunError> {
        let mut ready = Ready::new(resolved, &strategies)?;
        let token = draw()?;
        let folder = Path::new(&resolved.config().checkpoint_path);
        let files = SharedCheckpoint::open(folder, token)?;
        let ledger = Arc::new(Ledger::new(
            Arc::clone(&cluster.register),
            Arc::clone(&cluster.live),
            token,
            cluster.patience,
        ));
        let newest = files.newest()?;
        if let Some(manifest) = &newest {
            go_on_from(manifest, resolved, &strategies, &files, &mut ready.params)?;
        }
        let terms = terms(resolved, cluster, &strategies.ids(), ready.extent);
        let joined = find_record(resolved, cluster, &ledger, &terms, &files)
            .and_then(|()| Ok(is_shared(&ledger, &files)?))
            .and_then(|()| {
                let join = Join {
                    terms,
                    name: cluster.name.clone(),
                    rank: cluster.rank,
                    instead_of: earlier,
                };
                take_part(&ledger, &files, cluster, join, sink)
            });
        // The sign of one that does not take part is nobody's.
        let record = joined.inspect_err(|_| drop(files.forget(token)))?;
        if let Some(earlier) = earlier {
            files.forget(earlier)?;
        }
        let initial = Initial::new(resolved, newest.is_none())?;
        let machine =
            ready.machine(resolved, strategies, initial, files, &ledger, &record, sink)?;
        Self::begin(machine, ledger, cluster, stop)
    }

    /// Begins the part of a trainer that has joined.
    fn begin(
        mut machine: Machine<'a, SharedTables>,
        ledger: Arc<Ledger>,
        cluster: &'a Cluster,
        stop: &'a AtomicBool,
    ) -> Result<Self, RunError> {
        let watch = Watch::start(cluster, &ledger)?;
        let mut parameters = None;
        if !machine.params.tensors().is_empty() {
            let (params, live) = (&machine.params, &cluster.live);
            let patience = cluster.patience.min(cluster.lease);
            let started = Parameters::start(params, &ledger, live, cluster.exchange, patience)?;
            machine.gate = Some(started.gate());
            parameters = Some(started);
        }
        Ok(Self {
            machine,
            watch,
            parameters,
            ledger,
            cluster,
            stop,
            pass: None,
            leased: Default::default(),
            unsettled: Vec::new(),
            sums: Sums::default(),
            totals: (0, 0, IoStats::default()),
            last_checkpoint: Instant::now(),
            started: Instant::now(),
            gathered: 0,
        })
    }

    /// What is said first.
    pub(super) fn announcement(&self, record: &Record) -> Event {
        let (machine, work) = (&self.machine, record.work());
        let done = work.buckets.count(pbg_core::ledger::BucketState::Done) as u64;
        let begins = work.pass == PassId::default() && done == 0;
        let version = record.checkpoints().base().map_or(0, |base| base.version);
        Event::RunStarted {
            epochs: machine.extent.epochs,
            passes_per_epoch: machine.extent.edge_sets * machine.extent.edge_chunks,
            buckets: machine.blueprint().layout.grid().count() as u64,
            edges_per_epoch: machine.edge_sets.iter().map(|set| set.len()).sum(),
            workers: machine.workers() as u32,
            resumed: (!begins).then_some(Resumed {
                pass: work.pass,
                done,
                version,
            }),
        }
    }
}

/// What does not depend on others, checked before any of them hears of this trainer.
struct Ready {
    edge_sets: Arc<Vec<EdgeSet>>,
    extent: Extent,
    needs: CheckReport,
    params: Params,
    place: Option<Arc<dyn Place>>,
}

impl Ready {
    fn new(resolved: &Resolved, strategies: &Strategies) -> Result<Self, RunError> {
        let place = executor::place(resolved)?;
        executor::allow(resolved, place.is_some())?;
        let edge_sets = Arc::new(resolved.edge_sets()?);
        let needs = resolved.check(Some(&strategies.loss))?;
        memory::require("training", needs.taken())?;
        let params = Params::new(&resolved.blueprint().spec);
        refuse_shared(resolved, &params, place.is_some())?;
        refuse_rest(resolved, strategies)?;
        Ok(Self {
            extent: resolved.extent(&edge_sets)?,
            edge_sets,
            needs,
            params,
            place,
        })
    }

    /// The machine of a trainer that has joined `record`.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the machine")]
    fn machine<'a>(
        self,
        resolved: &'a Resolved,
        strategies: Strategies,
        initial: Initial,
        files: SharedCheckpoint,
        ledger: &Arc<Ledger>,
        record: &Record,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Machine<'a, SharedTables>, RunError> {
        let blueprint = resolved.blueprint();
        let tables = SharedTables::new(
            files,
            Arc::clone(ledger),
            initial,
            blueprint.layout.clone(),
            grid(&blueprint.layout),
            blueprint.features(resolved.dataset())?,
        );
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

/// Checks that the run may go on from a checkpoint, and takes its parameters.
fn go_on_from(
    manifest: &Manifest,
    resolved: &Resolved,
    strategies: &Strategies,
    files: &SharedCheckpoint,
    params: &mut Params,
) -> Result<(), RunError> {
    let purpose = Purpose::Resume {
        strategies: &strategies.ids(),
        allowed: Allowed::default(),
    };
    let admitted = identity::admit(resolved, files.path(), &manifest.run, &purpose)?;
    if admitted.earlier.is_some() {
        let what = "go on with a dataset that has grown".to_owned();
        return Err(ClusterError::NotYet { what }.into());
    }
    commit::read_model(files.read_model(manifest)?, params)
}

/// Joins. An earlier trainer of the same rank that is silent is waited for until it counts as dead: it was stopped or
/// died, and the same command was given again.
fn take_part(
    ledger: &Ledger,
    files: &SharedCheckpoint,
    cluster: &Cluster,
    join: Join,
    sink: &mut dyn FnMut(Event),
) -> Result<Arc<Record>, RunError> {
    loop {
        let refusal = match ledger.submit(Action::Join(Box::new(join.clone()))) {
            Ok(record) => return Ok(record),
            Err(Denied::Refused(refusal)) => refusal,
            Err(Denied::Ended(error)) => return Err(error.into()),
        };
        let record = ledger.seen();
        let mut trainers = record.iter().flat_map(|record| record.trainers());
        let holder = match refusal {
            Refusal::RankTaken { rank, .. } => trainers.find(|(_, t)| t.rank == Some(rank)),
            _ => None,
        };
        let Some((&holder, _)) = holder else {
            return Err(ClusterError::Refused(Box::new(refusal)).into());
        };
        sink(Event::RankHeld {
            rank: join.rank.unwrap_or_default(),
            seconds: cluster.lease.as_secs_f64(),
        });
        let started = Instant::now();
        while started.elapsed() < cluster.lease {
            let heard = cluster.live.heard();
            if heard.iter().any(|heard| heard.beat.token == holder) {
                return Err(ClusterError::Refused(Box::new(refusal)).into());
            }
            let record = ledger.refresh()?;
            if record.is_none_or(|record| !record.trainers().contains_key(&holder)) {
                break;
            }
            thread::sleep(cluster.heartbeat.min(cluster.lease / 20));
        }
        ledger.evict(holder)?;
        files.forget(holder)?;
    }
}

/// Sees to it that the register has a record that goes with the newest checkpoint.
fn find_record(
    resolved: &Resolved,
    cluster: &Cluster,
    ledger: &Ledger,
    terms: &Terms,
    files: &SharedCheckpoint,
) -> Result<(), RunError> {
    for _ in 0..ATTEMPTS {
        let record = ledger.refresh()?;
        let newest = files.newest()?;
        let cut = newest.as_ref().map(Manifest::cut);
        if record.is_some_and(|record| record.stands(cut).is_ok()) {
            return Ok(());
        }
        let work = match &newest {
            Some(manifest) => {
                let state = stored_state(manifest, &resolved.config().checkpoint_path)?;
                work_of(manifest, &state, &resolved.blueprint().layout)
            }
            None => Work::none(&terms.grid),
        };
        let founding = Founding {
            terms: terms.clone(),
            run: draw()?,
            incarnation: draw()?,
            wanted: cluster.machines,
            work,
            base: cut,
        };
        let record = Record::found(founding).map_err(ClusterError::from)?;
        if ledger.found(&record)? {
            return Ok(());
        }
    }
    Err(ClusterError::NoRecord.into())
}

/// Whether every trainer of the record has opened this very folder: each leaves a sign there before it joins. A folder
/// that is shared over a network may show it late.
fn is_shared(ledger: &Ledger, files: &SharedCheckpoint) -> Result<(), ClusterError> {
    let record = ledger.seen();
    for (token, trainer) in record.iter().flat_map(|record| record.trainers()) {
        let started = Instant::now();
        while !files.is_seen_by(*token) {
            if started.elapsed() > VISIBLE_WITHIN {
                return Err(ClusterError::NotShared {
                    folder: files.path().to_owned(),
                    name: trainer.name.escape_debug().to_string(),
                });
            }
            thread::sleep(VISIBLE_WITHIN / 20);
        }
    }
    Ok(())
}

/// 64 random bits.
fn draw() -> Result<Token, RunError> {
    let bits = getrandom::u64().map_err(|e| ClusterError::NoRandomBits(e.to_string()))?;
    Ok(Token(bits))
}
