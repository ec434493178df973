//! A trainer joins: everything checked, the record found or made from the newest checkpoint, its part begun.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pbg_core::event::{Event, IoStats, Resumed};
use pbg_core::ledger::{Join, Record, Sums, Token};
use pbg_core::schedule::{Extent, PassId};
use pbg_kernels::device::Place;
use pbg_kernels::params::Params;
use pbg_store::checkpoint::{Manifest, SharedCheckpoint};
use pbg_store::dataset::EdgeSet;

use super::joining::{Finding, draw};
use super::ledger::Ledger;
use super::not_yet::{refuse_rest, refuse_shared};
use super::parameters::Parameters;
use super::tables::SharedTables;
use super::watch::Watch;
use super::work::{grid, terms};
use super::{Cluster, ClusterError, Member};
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

impl<'a> Member<'a> {
    /// Takes part in the run of `cluster`, in the place of `earlier` if this trainer did before.
    pub(crate) fn join(
        resolved: &'a Resolved,
        strategies: Strategies,
        cluster: &'a Cluster,
        (allowed, earlier): (Allowed, Option<Token>),
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
            let admitted = admit(manifest, resolved, &strategies, &files, allowed);
            admitted.inspect_err(|_| drop(files.forget(token)))?;
        }
        let terms = terms(resolved, cluster, &strategies.ids(), ready.extent);
        let finding = Finding {
            resolved,
            cluster,
            ledger: &ledger,
            files: &files,
            terms: &terms,
            shares_parameters: !ready.params.tensors().is_empty(),
            allowed,
        };
        let join = Join {
            terms: terms.clone(),
            name: cluster.name.clone(),
            rank: cluster.rank,
            instead_of: earlier,
        };
        let joined = finding
            .find(sink)
            .and_then(|()| Ok(finding.is_shared()?))
            .and_then(|()| finding.take_part(join, sink));
        // The sign of one that does not take part is nobody's.
        let record = joined.inspect_err(|_| drop(files.forget(token)))?;
        if let Some(earlier) = earlier {
            files.forget(earlier)?;
        }
        let initial = Self::initial(resolved, &files, &record, &mut ready.params)?;
        let machine =
            ready.machine(resolved, strategies, initial, files, &ledger, &record, sink)?;
        Self::begin(machine, ledger, cluster, stop)
    }

    /// What tables begin with that nobody has written. Parameters become what the newest checkpoint has, or `init_path`.
    fn initial(
        resolved: &Resolved,
        files: &SharedCheckpoint,
        record: &Record,
        params: &mut Params,
    ) -> Result<Initial, RunError> {
        let newest = files.newest()?;
        let lacks_files = record.work().partitions.iter().any(|p| p.files.is_empty());
        let initial = Initial::new(resolved, newest.is_none() || lacks_files)?;
        match (&newest, initial.checkpoint()) {
            (Some(manifest), _) => commit::read_model(files.read_model(manifest)?, params)?,
            (None, Some(init)) => commit::read_model(init.model()?, params)?,
            (None, None) => {}
        }
        Ok(initial)
    }

    /// Begins the part of a trainer that has joined.
    fn begin(
        mut machine: Machine<'a, SharedTables>,
        ledger: Arc<Ledger>,
        cluster: &'a Cluster,
        stop: &'a AtomicBool,
    ) -> Result<Self, RunError> {
        let watch = Watch::start(cluster, &ledger)?;
        let epochs_told = ledger.seen().map_or(0, |record| record.work().pass.epoch);
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
            lines: Vec::new(),
            leased_at: Default::default(),
            epochs_told,
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

/// Checks that the run may go on from a checkpoint.
fn admit(
    manifest: &Manifest,
    resolved: &Resolved,
    strategies: &Strategies,
    files: &SharedCheckpoint,
    allowed: Allowed,
) -> Result<(), RunError> {
    let purpose = Purpose::Resume {
        strategies: &strategies.ids(),
        allowed,
    };
    let admitted = identity::admit(resolved, files.path(), &manifest.run, &purpose)?;
    if admitted.earlier.is_some() {
        let what = "go on with a dataset that has grown".to_owned();
        return Err(ClusterError::NotYet { what }.into());
    }
    Ok(())
}
