//! Joining of a trainer: all checks, finding or creating the record, and the start of its work.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_checkpoint::SharedCheckpoint;
use pbg_core::event::{Event, PartitionIo, Resumed};
use pbg_core::schedule::{PassId, RunExtent};
use pbg_core::strategy::Loss as _;
use pbg_dataset::EdgeSet;
use pbg_kernels::device::OpenDevice;
use pbg_ledger::{BucketPolicy, LedgerRecord, LedgerSums, ValidationTerms};
use pbg_model::compatibility::AllowedChanges;
use pbg_model::error::{CheckpointMismatch, JoinError, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_model::{commit, memory, model_bytes};
use pbg_rows::params::Params;
use pbg_train::bucket_trainer::{BucketTrainer, MachineParts};
use pbg_train::check::{CheckReport, check};
use pbg_train::disk_tables::InitialTables;
use pbg_train::executor;
use pbg_train::own_vectors;
use pbg_train::{ScheduledFactors, Strategies};

use crate::cluster_options::ClusterOptions;
use crate::conversion::{grid, stored_state, terms};
use crate::exchange::{ParameterExchange, SharedArrays};
use crate::heartbeats::Heartbeats;
use crate::ledger::{LedgerClient, LedgerThreads, UserHandle};
use crate::random_token::random_token;
use crate::tables::{ClusterTables, ServerWaits};
use crate::unsupported::{refuse_no_epochs, refuse_shared, require_several_buckets};

use super::joining::{Joining, check_resume};
use super::leaving::PreviousParticipation;
use super::ranking::validation_terms;
use super::ranking_progress::RankingProgress;
use super::{ClusterTrainer, growth};

impl<'a> ClusterTrainer<'a> {
    /// Joins the run of `cluster`, replacing `earlier` if this trainer was part of the run before.
    pub(crate) fn join(
        resolved: &'a ResolvedConfig,
        mut strategies: Strategies,
        cluster: &'a ClusterOptions,
        (allowed, earlier): (AllowedChanges, Option<PreviousParticipation>),
        stop: &'a Arc<AtomicBool>,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, RunError> {
        resolved.check_checkpoint_path()?;
        require_several_buckets(resolved, cluster.machines)?;
        refuse_no_epochs(resolved)?;
        let mut ready = Preparation::new(resolved, &mut strategies)?;
        let token = random_token()?;
        let folder = Path::new(&resolved.config().checkpoint_path);
        let servers = cluster.servers.as_ref();
        let servers = servers.map(|servers| Arc::new(servers.view()));
        let files = SharedCheckpoint::open(folder, token)?.with_servers(servers);
        let (register, live) = (Arc::clone(&cluster.register), Arc::clone(&cluster.live));
        let user = UserHandle {
            stop: Arc::clone(stop),
            tell: Arc::clone(&cluster.on_event),
        };
        let ledger = LedgerClient::new(register, live, token, cluster.patience);
        let ledger = Arc::new(ledger.with_user(user));
        let attendance = LedgerThreads::start(&ledger)?;
        let (mut other_validation, mut vectors) = (false, Vec::new());
        if let Some(manifest) = &files.newest()? {
            let admitted = check_resume(manifest, resolved, &strategies, &files, allowed);
            let admitted = admitted.inspect_err(|_| drop(files.remove_presence(token)))?;
            other_validation = admitted.other_validation;
            vectors = own_vectors::ignored(resolved, &manifest.run);
        }
        let (ids, validation) = (strategies.ids(), ready.validation.take());
        let terms = terms(resolved, cluster, &ids, ready.extent, validation);
        let finding = Joining {
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
            earlier: earlier.map(|earlier| earlier.token),
            lost: earlier.and_then(|earlier| earlier.lost),
            other_validation,
        };
        let carries = cluster.live.carries_questions();
        if finding.shares_parameters && cluster.machines > 1 && !carries {
            files.remove_presence(token)?;
            return Err(JoinError::NoExchange.into());
        }
        let joined = finding.join(earlier.map(|earlier| earlier.token), sink);
        // A trainer that does not join removes its sign file.
        let (record, changes) = joined.inspect_err(|_| drop(files.remove_presence(token)))?;
        if let Some(earlier) = earlier {
            files.remove_presence(earlier.token)?;
        }
        restore_loss(&strategies, &record, &files, resolved)?;
        let tables = Self::tables(
            (resolved, cluster, stop),
            files,
            &ledger,
            &record,
            &mut ready.params,
        )?;
        vectors.extend(tables.initial().own.events());
        let mut machine = ready.machine(resolved, strategies, tables, &record, sink)?;
        vectors.into_iter().for_each(|event| machine.emit(event));
        let told = earlier.map(|earlier| earlier.reported_epochs);
        let member = Self::begin((machine, attendance), ledger, cluster, stop, told)?;
        Ok(Self {
            admitted: changes,
            ..member
        })
    }

    /// Creates the tables of a trainer that has joined `record`. Parameters, and tables of types with one partition,
    /// start from the newest checkpoint or `init_path`. They are not read before joining, because a trainer that left
    /// just before may have written a checkpoint with newer values.
    fn tables(
        (resolved, cluster, stop): (&ResolvedConfig, &ClusterOptions, &Arc<AtomicBool>),
        files: SharedCheckpoint,
        ledger: &Arc<LedgerClient>,
        record: &LedgerRecord,
        params: &mut Params,
    ) -> Result<ClusterTables, RunError> {
        let newest = files.newest()?;
        let lacks_files = record.work().partitions.iter().any(|p| p.files.is_empty());
        let initial = InitialTables::new(resolved, newest.is_none() || lacks_files)?;
        let blueprint = resolved.blueprint();
        match &newest {
            Some(manifest) => {
                let most = model_bytes::parameter_file_bytes(&blueprint.spec);
                commit::read_model(files.read_model(manifest, most)?, params)?;
            }
            None => initial.read_params(&blueprint.layout, params)?,
        }
        let new_rows = match &newest {
            Some(manifest) => growth::new_rows(resolved, manifest)?,
            None => Default::default(),
        };
        let server_waits = cluster.servers.as_ref().map(|_| ServerWaits {
            patience: cluster.patience,
            lease: cluster.lease,
            heartbeat: cluster.heartbeat,
            stop: Arc::clone(stop),
        });
        Ok(ClusterTables::new(
            (files, server_waits),
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
        (mut machine, attendance): (BucketTrainer<'a, ClusterTables>, LedgerThreads),
        ledger: Arc<LedgerClient>,
        cluster: &'a ClusterOptions,
        stop: &'a AtomicBool,
        told: Option<u32>,
    ) -> Result<Self, RunError> {
        let watch = Heartbeats::start(cluster, &ledger)?;
        if let Some(own) = cluster
            .servers
            .as_ref()
            .and_then(|servers| servers.own.as_ref())
        {
            own.announce();
        }
        let epochs_told = ledger
            .last_record()
            .map_or(0, |record| record.work().pass.epoch);
        let mut parameters = None;
        let tables = machine.pipeline.buffer.fixed_tables();
        let arrays = SharedArrays::new(Arc::clone(&machine.params), tables);
        let loss = machine.strategies.loss.clone();
        if !arrays.is_empty() || loss.state().is_some() {
            let patience = cluster.patience.min(cluster.lease);
            let live = &cluster.live;
            let (loss, limits) = (Some(loss), cluster.sync_limits);
            let started = ParameterExchange::start(arrays, loss, &ledger, live, limits, patience)?;
            machine.gate = Some(started.gate());
            parameters = Some(started);
        }
        Ok(Self {
            ledger_threads: attendance,
            machine,
            watch,
            parameters,
            rankings: RankingProgress::before(&ledger, told),
            ledger,
            cluster,
            admitted: None,
            stop,
            pass: None,
            policy: BucketPolicy::new(cluster.lease_ahead),
            leases: Default::default(),
            sums: LedgerSums::default(),
            totals: (0, 0, PartitionIo::default()),
            settlement_io: PartitionIo::default(),
            last_checkpoint: pbg_clock::now(),
            started: pbg_clock::now(),
            unsettled_lines: Vec::new(),
            epochs_reported: epochs_told,
            last_epoch_event: None,
            reported_joined: 0,
        })
    }

    /// Returns the event that reports the start.
    pub(super) fn announcement(&self, record: &LedgerRecord) -> Event {
        let (machine, work) = (&self.machine, record.work());
        let done = work.buckets.count(pbg_ledger::BucketState::Done) as u64;
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
                disk: Default::default(),
                version,
            }),
        }
    }
}

/// State that does not depend on other trainers, checked before this trainer becomes visible to them.
struct Preparation {
    edge_sets: Arc<Vec<EdgeSet>>,
    extent: RunExtent,
    needs: CheckReport,
    params: Params,
    place: Option<Arc<dyn OpenDevice>>,
    validation: Option<ValidationTerms>,
    /// Factors of the learning rates. A schedule that is a plugin may fail, or take longer than a lease.
    scheduled: Option<ScheduledFactors>,
}

impl Preparation {
    fn new(resolved: &ResolvedConfig, strategies: &mut Strategies) -> Result<Self, RunError> {
        let place = executor::open_device(resolved)?;
        executor::check_supported(resolved, place.is_some())?;
        let edge_sets = Arc::new(resolved.edge_sets()?);
        let needs = check(resolved, Some(strategies))?;
        memory::require("training", needs.taken(), needs.threads())?;
        let params = Params::new(&resolved.blueprint().spec, resolved.config().seed);
        refuse_shared(resolved, &params, place.is_some())?;
        let extent = resolved.extent(&edge_sets)?;
        Ok(Self {
            scheduled: ScheduledFactors::of_run(resolved.config(), strategies, extent)?,
            extent,
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
        resolved: &'a ResolvedConfig,
        strategies: Strategies,
        tables: ClusterTables,
        record: &LedgerRecord,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<BucketTrainer<'a, ClusterTables>, RunError> {
        let parts = MachineParts {
            strategies,
            edge_sets: self.edge_sets,
            extent: self.extent,
            pipeline: &self.needs.execution,
            tables,
            params: self.params,
            place: self.place,
            lr_factor: record.work().progress.plateau.lr_factor,
            scheduled: self.scheduled,
        };
        BucketTrainer::new(resolved, parts, sink)
    }
}

/// Sets the loss's parameters to the newest state in the ledger or the checkpoint. Their owner may have a newer one.
fn restore_loss(
    strategies: &Strategies,
    record: &LedgerRecord,
    files: &SharedCheckpoint,
    resolved: &ResolvedConfig,
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
        CheckpointMismatch::Loss { checkpoint, reason }.into()
    })
}
