//! A trainer process of a distributed run. The ledger assigns buckets to trainers and records which buckets are
//! trained.
//!
//! For each bucket, a trainer obtains a lease, loads the missing partitions from the files that the ledger names,
//! trains, and leases the next bucket. If the next bucket needs other partitions, the trainer writes the changed
//! partitions in the background and settles the finished buckets when these files are durable. Mirrored buckets need
//! the same partitions, so a pair of them costs one settlement. No trainer waits for others while it holds partitions:
//! one that finds no free bucket settles its buckets first.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pbg_checkpoint::SharedCheckpoint;
use pbg_core::event::{CallSeconds, Event, EventLine, PartitionIo};
use pbg_core::graph::Bucket;
use pbg_core::schedule::{LeasedBucket, PassId};
use pbg_core::strategy::Pass;
use pbg_ledger::transport::TrainerActivity;
use pbg_ledger::{
    BucketPolicy, BucketStep, LONGEST_WAIT, LedgerAction, LedgerRecord, LedgerSums, PassStep, Token,
};
use pbg_model::compatibility::AcceptedDifferences;
use pbg_model::error::{JoinError, RunError};
use pbg_train::RunOutcome;
use pbg_train::bucket_trainer::{self, BucketTrainer};
use pbg_train::coordinator::Coordinator;

mod checkpoints;
mod event_log;
mod growth;
mod joining;
mod leases;
mod leaving;
mod passes;
mod ranking;
mod ranking_progress;
mod settling;
mod silent_trainers;
mod start;

use crate::cluster_options::ClusterOptions;
use crate::exchange::ParameterExchange;
use crate::heartbeats::Heartbeats;
use crate::ledger::{LedgerClient, LedgerThreads, NotApplied};
use crate::tables::ClusterTables;
use leases::HeldLease;
use ranking_progress::RankingProgress;

pub(crate) use event_log::merged_event_logs;

/// A trainer that has joined a distributed run.
pub(crate) struct ClusterTrainer<'a> {
    /// Declared first so that it is dropped first: any other thread of this trainer may be waiting for the register.
    ledger_threads: LedgerThreads,
    machine: BucketTrainer<'a, ClusterTables>,
    ledger: Arc<LedgerClient>,
    cluster: &'a ClusterOptions,
    watch: Heartbeats,
    /// Exchange of shared parameters; `None` if the model has none.
    parameters: Option<ParameterExchange>,
    stop: &'a AtomicBool,
    /// The pass being trained.
    pass: Option<(PassId, Arc<Pass>)>,
    policy: BucketPolicy,
    /// Leased buckets that are not trained yet.
    leases: BTreeMap<Bucket, HeldLease>,
    /// Sums over the buckets that are not settled yet.
    sums: LedgerSums,
    /// Totals of this process: buckets trained, edges trained, traffic.
    totals: (u64, u64, PartitionIo),
    /// Bytes and time of writes by settlements since the last `BucketFinished` event.
    settlement_io: PartitionIo,
    rankings: RankingProgress,
    /// Differences from the checkpoint, if this trainer created the record from one; reported once.
    admitted: Option<AcceptedDifferences>,
    last_checkpoint: Instant,
    started: Instant,
    /// Events to be written to the trainer's log with the next settlement.
    unsettled_lines: Vec<EventLine>,
    /// Number of epochs whose end was reported.
    epochs_reported: u32,
    /// The last `EpochFinished` event that was reported.
    last_epoch_event: Option<Event>,
    /// Number of trainers in the last `Gathering` event.
    reported_joined: u32,
}

impl ClusterTrainer<'_> {
    fn token(&self) -> Token {
        self.ledger.token()
    }

    /// Returns the checkpoint folder, which all trainers share.
    fn files(&self) -> &SharedCheckpoint {
        &self.machine.pipeline.buffer.store().files
    }

    /// Reads the newest record.
    fn record(&self) -> Result<Arc<LedgerRecord>, RunError> {
        let record = self.ledger.refresh()?;
        Ok(record.ok_or(JoinError::NoRecord)?)
    }

    /// Returns the record as last seen. It may be outdated, but is good enough to choose a bucket: the ledger refuses a
    /// lease of a bucket that is not free.
    fn last_record(&self) -> Result<Arc<LedgerRecord>, RunError> {
        match self.ledger.last_record() {
            Some(record) => Ok(record),
            None => self.record(),
        }
    }

    /// Submits an action that another trainer may already have submitted. Returns whether this trainer's action was
    /// applied.
    fn submit(&self, action: LedgerAction) -> Result<bool, RunError> {
        match self.ledger.submit(action) {
            Ok(_) => Ok(true),
            Err(NotApplied::Refused(_) | NotApplied::Abandoned) => Ok(false),
            Err(NotApplied::Fatal(error)) => Err(error.into()),
        }
    }

    /// Returns the pass that this trainer trains, or the first pass before it has begun one.
    fn current_pass(&self) -> PassId {
        self.pass
            .as_ref()
            .map_or_else(PassId::default, |(id, _)| *id)
    }

    fn asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Settles everything, then waits for other trainers. This trainer holds no partitions meanwhile.
    fn wait(&mut self, at_most: Duration) -> Result<(), RunError> {
        self.settle_all()?;
        self.watch.set_state(TrainerActivity::Waiting, None);
        self.cluster.live.wait(at_most);
        self.report_evictions();
        Ok(())
    }

    /// Reports how many trainers the first bucket still waits for, once for each trainer that joins.
    fn report_gathering(&mut self, here: u32, wanted: u32) {
        if self.reported_joined != here {
            self.reported_joined = here;
            self.machine.emit(Event::Gathering { here, wanted });
        }
    }

    /// Reports the trainers that this one has removed from the run. Their sign files stay until the next checkpoint: if
    /// the register lost the removal, a trainer that is alive would have no sign.
    fn report_evictions(&mut self) {
        for notice in self.watch.notices() {
            self.machine.emit(notice);
        }
    }
}

impl<'a> Coordinator<'a> for ClusterTrainer<'a> {
    type Store = ClusterTables;

    fn machine(&mut self) -> &mut BucketTrainer<'a, ClusterTables> {
        &mut self.machine
    }

    fn begin(&mut self) -> Result<(), RunError> {
        let record = self.last_record()?;
        let event = self.announcement(&record);
        self.machine.emit(event);
        self.announce_changes()
    }

    fn begin_pass(&mut self) -> Result<ControlFlow<RunOutcome, (PassId, Arc<Pass>)>, RunError> {
        loop {
            if self.asked_to_stop() {
                return self.leave().map(ControlFlow::Break);
            }
            let record = self.record()?;
            self.report_epoch(&record);
            let pass = record.work().pass;
            self.report_ranks(&record)?;
            let is_unsaved = self.epoch_is_uncommitted(&record)?;
            match PassStep::of(&record, self.token(), is_unsaved) {
                PassStep::WriteCheckpoint => {
                    if !self.checkpoint(pass)? {
                        self.wait(LONGEST_WAIT)?;
                    }
                }
                PassStep::TrainPass => {
                    // If nothing is free in this pass, the training loop has nothing to train and calls `begin_pass`
                    // again.
                    let planned = self.enter(pass);
                    return Ok(ControlFlow::Continue((pass, planned)));
                }
                PassStep::OpenPass => self.open_pass(pass)?,
                PassStep::EndPass => self.advance(&record)?,
                PassStep::RankEdges => self.rank(&record)?,
                PassStep::Finish => return self.finished().map(ControlFlow::Break),
                PassStep::Leave => return self.leave().map(ControlFlow::Break),
                PassStep::Gather(wanted) => {
                    self.report_gathering(record.trainers().len() as u32, wanted);
                    self.wait(LONGEST_WAIT)?;
                }
                PassStep::Wait => self.wait(LONGEST_WAIT)?,
            }
        }
    }

    fn next(&mut self, pass: &Pass) -> Result<Option<LeasedBucket>, RunError> {
        self.report_evictions();
        let mut is_newest = false;
        loop {
            if self.asked_to_stop() {
                return Ok(None);
            }
            let record = self.last_record()?;
            let (now, token) = (pbg_clock::elapsed(self.started), self.token());
            match self.policy.step(now, token, &record, is_newest) {
                // A refusal is based on the newest record.
                BucketStep::Lease(choices) => is_newest = !self.lease(pass, &record, &choices)?,
                BucketStep::Refresh => {
                    self.record()?;
                    is_newest = true;
                }
                BucketStep::Settle => self.begin_settling()?,
                BucketStep::Train(bucket) => {
                    let ledger = Arc::clone(&self.ledger);
                    let buffer = &mut self.machine.pipeline.buffer;
                    buffer.drop_stale(|group| !ledger.is_current(group));
                    self.watch.set_state(TrainerActivity::Loading, Some(bucket));
                    let position = self.leases.get(&bucket).map_or(0, |lease| lease.position);
                    return Ok(Some(LeasedBucket { bucket, position }));
                }
                // Settling takes a while, after which the wait may be over.
                BucketStep::Wait(_) if self.is_settling() => {
                    self.settle_all()?;
                    is_newest = true;
                }
                BucketStep::Wait(at_most) => {
                    self.wait(at_most)?;
                    self.record()?;
                    is_newest = true;
                }
                BucketStep::EndPass => return Ok(None),
            }
        }
    }

    fn upcoming(&self, _: LeasedBucket) -> Vec<Bucket> {
        self.policy.upcoming().collect()
    }

    fn begin_bucket(&mut self, acquired: LeasedBucket) {
        if let Some(lease) = self.leases.get_mut(&acquired.bucket) {
            lease.begun = Some(pbg_clock::now());
        }
        self.watch
            .set_state(TrainerActivity::Training, Some(acquired.bucket));
    }

    fn settle(
        &mut self,
        acquired: LeasedBucket,
        trained: bucket_trainer::BucketResult,
        stop: bool,
    ) -> Result<Option<RunOutcome>, RunError> {
        if let Some(fault) = self.parameters.as_ref().and_then(ParameterExchange::fault) {
            return Err(fault.into());
        }
        let mut faults = self.machine.replace_sampler(&trained.faults)?;
        faults.extend(self.machine.replace_selector()?);
        faults.extend(self.machine.loss_faults());
        faults
            .into_iter()
            .for_each(|event| self.report(event, None));
        let bucket = acquired.bucket;
        self.sums.add(&LedgerSums {
            train: trained.stats,
            eval_before: trained.eval_before.unwrap_or_default(),
            io: trained.io,
            seconds: trained.seconds + trained.io.waited(),
            calls: CallSeconds {
                sampler: trained.sampler.as_secs_f64(),
                ..CallSeconds::default()
            },
        });
        let parameters = self
            .parameters
            .as_ref()
            .map(ParameterExchange::last_duration);
        self.watch.trained(&trained, parameters);
        self.policy
            .trained(Duration::try_from_secs_f64(trained.seconds).unwrap_or_default());
        let pass = self.current_pass();
        let index = self.totals.0;
        self.totals.0 += 1;
        self.totals.1 += trained.stats.count;
        self.totals.2.add(&trained.io);
        let mut io = std::mem::take(&mut self.settlement_io);
        io.add(&trained.io);
        let lease = self.leases.remove(&bucket);
        let finished = Event::BucketFinished {
            pass,
            bucket,
            position: acquired.position as u64,
            index,
            stats: trained.stats,
            eval_before: trained.eval_before,
            eval_after: trained.eval_after,
            seconds: trained.seconds,
            io,
            lr: self.machine.scheduled_lr(pass),
            leased_seconds: lease.and_then(|lease| lease.seconds_held()),
        };
        self.report(finished, lease.map(|lease| lease.revision));
        self.report_settled();
        if stop {
            return self.leave().map(Some);
        }
        self.checkpoint_if_due()?;
        Ok(None)
    }

    fn finish_pass(&mut self) -> Result<(), RunError> {
        self.settle_all()?;
        self.give_up()
    }
}
