//! One trainer of several: the ledger says which buckets are free, and learns of what was trained.
//!
//! A bucket goes through: lease, load what is lacking from the files that the ledger names, train, lease the next; if that
//! needs other partitions, write the changed ones beside training and settle when they are durable. Mirrored buckets need
//! the same partitions, so a pair of them costs one settlement. Nobody waits while holding: who finds nothing free settles
//! what it has first.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pbg_core::cluster::{Live, Register, State};
use pbg_core::event::{CallSeconds, Event, IoStats, Line};
use pbg_core::graph::Bucket;
use pbg_core::ledger::{Action, BucketState, Phase, Record, Stamp, Sums, Token};
use pbg_core::schedule::{Acquired, PassId};
use pbg_core::strategy::Pass;

use crate::coordinator::Coordinator;
use crate::error::RunError;
use crate::identity::Admitted;
use crate::machine::{self, Machine};
use crate::run::Outcome;

mod advice;
mod checkpoints;
mod ends;
mod error;
mod growth;
mod joining;
mod leases;
mod ledger;
mod not_yet;
mod open;
mod parameters;
mod passes;
mod ranking;
mod rehearsal;
mod settling;
mod tables;
mod told;
mod turns;
mod watch;
mod work;

pub use error::ClusterError;
use ledger::{Attendance, Denied, Ledger};
use parameters::Parameters;
pub use parameters::SyncLimits;
use ranking::Rankings;
pub(crate) use ranking::blocks;
pub use rehearsal::{Actor, Rehearsed, Scene, rehearse};
use tables::SharedTables;
use turns::Turns;
use watch::Watch;

/// Longest wait for a wake-up, which may be lost.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// What a copy of a partition is of that was never written: its initial state.
const NEVER: Stamp = Stamp {
    generation: 0,
    first: None,
};

/// How a trainer takes part in a run of several.
#[derive(Clone)]
pub struct Cluster {
    /// What all trainers agree on.
    pub register: Arc<dyn Register>,
    /// What they tell each other.
    pub live: Arc<dyn Live>,
    /// What people call this trainer.
    pub name: String,
    /// Its rank, where it was started with one.
    pub rank: Option<u32>,
    /// How many trainers the first bucket waits for.
    pub machines: u32,
    /// Whether in the first pass every bucket but the first has a partition that was given out before.
    pub tree_init: bool,
    /// Silence after which the others take a trainer for dead.
    pub lease: Duration,
    /// How often and how much of parameters is exchanged.
    pub exchange: SyncLimits,
    /// Time between two signs of life.
    pub heartbeat: Duration,
    /// How long a register that does not answer is waited for.
    pub patience: Duration,
    /// Whether the next bucket is leased when the current one starts, so that its partitions load meanwhile; none:
    /// where there are at least four times as many partitions as trainers.
    pub ahead: Option<bool>,
    /// Takes events from the threads that notice that the register does not answer, whatever the thread that trains is
    /// waiting for.
    pub tell: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Cluster {
    /// Waits before a trainer joins anew whose part was ended `in_vain` times before it had trained anything, or until
    /// `stop` is set: what ends it may well do so again.
    pub(crate) fn rest(&self, in_vain: u32, stop: &AtomicBool) {
        let (pause, started) = (self.pause(in_vain), Instant::now());
        while started.elapsed() < pause && !stop.load(Ordering::Relaxed) {
            thread::sleep(pause.min(Duration::from_millis(50)));
        }
    }

    fn pause(&self, in_vain: u32) -> Duration {
        match in_vain {
            0 => Duration::ZERO,
            n => self
                .heartbeat
                .saturating_mul(2_u32.saturating_pow(n - 1))
                .min(self.lease),
        }
    }
}

/// A trainer's part in a run.
pub(crate) struct Member<'a> {
    /// The first to go: every other thread of this trainer may be waiting for the register.
    _attendance: Attendance,
    machine: Machine<'a, SharedTables>,
    ledger: Arc<Ledger>,
    cluster: &'a Cluster,
    watch: Watch,
    /// The exchange of parameters; none of a model without.
    parameters: Option<Parameters>,
    stop: &'a AtomicBool,
    /// The pass that is trained.
    pass: Option<(PassId, Arc<Pass>)>,
    /// Leased buckets that come next, with their positions in the buffer's plan.
    leased: VecDeque<Acquired>,
    turns: Turns,
    /// Trained buckets that are not in the ledger, and what training them gave.
    unsettled: Vec<Bucket>,
    sums: Sums,
    /// What this process has trained: buckets, edges, traffic.
    totals: (u64, u64, IoStats),
    /// What settlements have written since the last bucket was told.
    handed_on: IoStats,
    rankings: Rankings,
    /// What was not as it had been when the checkpoint was committed from which this trainer has made the record.
    changes: Option<Admitted>,
    last_checkpoint: Instant,
    started: Instant,
    /// What happened and is to be told with the next settlement.
    lines: Vec<Line>,
    /// Revisions of the ledger at which the buckets of this trainer were leased that it has not trained.
    leased_at: BTreeMap<Bucket, u64>,
    /// Epochs whose end was told.
    epochs_told: u32,
    /// What was told of the last one.
    last_epoch: Option<Event>,
    /// Trainers that were there when it was told last for how many the first bucket waits.
    gathered: u32,
}

impl Member<'_> {
    fn token(&self) -> Token {
        self.ledger.token()
    }

    /// The newest record.
    fn record(&self) -> Result<Arc<Record>, RunError> {
        let record = self.ledger.refresh()?;
        Ok(record.ok_or(ClusterError::NoRecord)?)
    }

    /// The record as it was seen last: good enough to choose by, since the ledger refuses what is not free.
    fn seen(&self) -> Result<Arc<Record>, RunError> {
        match self.ledger.seen() {
            Some(record) => Ok(record),
            None => self.record(),
        }
    }

    /// Submits what others may have submitted already. Says whether it is done by this trainer.
    fn submit(&self, action: Action) -> Result<bool, RunError> {
        match self.ledger.submit(action) {
            Ok(_) => Ok(true),
            Err(Denied::Refused(_) | Denied::GivenUp) => Ok(false),
            Err(Denied::Ended(error)) => Err(error.into()),
        }
    }

    /// Whether this trainer does what one does for all.
    fn leads(&self, record: &Record) -> bool {
        record.trainers().keys().next() == Some(&self.token())
    }

    /// The pass that this trainer trains; the first before it has begun one.
    fn current_pass(&self) -> PassId {
        self.pass
            .as_ref()
            .map_or_else(PassId::default, |(id, _)| *id)
    }

    fn asked_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Waits for what others do. Nothing is held meanwhile.
    fn wait(&mut self) -> Result<(), RunError> {
        self.settle_all()?;
        self.watch.says(State::Waiting, None);
        self.cluster.live.wait(self.turns.wait());
        self.tell_notices()
    }

    /// Says for how many trainers the first bucket waits, once for each that comes.
    fn tell_gathering(&mut self, here: u32, wanted: u32) {
        if self.gathered != here {
            self.gathered = here;
            self.machine.emit(Event::Gathering { here, wanted });
        }
    }

    /// Tells of trainers whose part this one has ended, and removes what they have left.
    fn tell_notices(&mut self) -> Result<(), RunError> {
        for token in self.watch.ended() {
            self.machine.line.buffer.store().files.forget(token)?;
        }
        for notice in self.watch.notices() {
            self.machine.emit(notice);
        }
        Ok(())
    }
}

impl<'a> Coordinator<'a> for Member<'a> {
    type Store = SharedTables;

    fn machine(&mut self) -> &mut Machine<'a, SharedTables> {
        &mut self.machine
    }

    fn begin(&mut self) -> Result<(), RunError> {
        let record = self.seen()?;
        let event = self.announcement(&record);
        self.machine.emit(event);
        self.announce_changes()
    }

    fn begin_pass(&mut self) -> Result<ControlFlow<Outcome, (PassId, Arc<Pass>)>, RunError> {
        loop {
            if self.asked_to_stop() {
                return self.leave().map(ControlFlow::Break);
            }
            let record = self.record()?;
            self.tell_epoch(&record);
            let pass = record.work().pass;
            self.tell_ranks(&record)?;
            if self.leads(&record) && self.epoch_is_uncommitted(&record)? {
                if !self.checkpoint(pass)? {
                    self.wait()?;
                }
                continue;
            }
            match record.phase() {
                Phase::Training => {
                    // One that finds nothing free at once has nothing to train, and would come back at once.
                    let planned = self.enter(pass);
                    return Ok(ControlFlow::Continue((pass, planned)));
                }
                // The checkpoint of an epoch is of its end.
                Phase::Opening if self.epoch_is_uncommitted(&record)? => self.wait()?,
                Phase::Opening => self.open_pass(pass)?,
                Phase::PassDone if self.leads(&record) => self.advance(&record)?,
                Phase::Ranking => self.rank(&record)?,
                Phase::Finished if !self.epoch_is_uncommitted(&record)? => {
                    return self.finished().map(ControlFlow::Break);
                }
                Phase::Stopping => return self.leave().map(ControlFlow::Break),
                Phase::Gathering(wanted) => {
                    self.tell_gathering(record.trainers().len() as u32, wanted);
                    self.wait()?;
                }
                Phase::PassDone | Phase::Finished => self.wait()?,
            }
        }
    }

    fn next(&mut self, pass: &Pass) -> Result<Option<Acquired>, RunError> {
        self.tell_notices()?;
        loop {
            if self.asked_to_stop() {
                return Ok(None);
            }
            let next = match self.leased.pop_front() {
                Some(next) => Some(next),
                None => self.lease(pass)?,
            };
            if let Some(next) = next {
                if !self.unsettled.is_empty() && !self.needs_nothing_new(next.bucket)? {
                    self.begin_settling()?;
                }
                if self.leased.is_empty() && self.leases_ahead(&*self.seen()?) {
                    let ahead = self.lease(pass)?;
                    self.leased.extend(ahead);
                }
                let ledger = Arc::clone(&self.ledger);
                let buffer = &mut self.machine.line.buffer;
                buffer.forget(|group| !ledger.is_current(group));
                self.watch.says(State::Loading, Some(next.bucket));
                return Ok(Some(next));
            }
            self.wait()?;
            let record = self.record()?;
            let here = self.pass.as_ref().map(|(id, _)| *id);
            if record.phase() != Phase::Training || Some(record.work().pass) != here {
                return Ok(None);
            }
        }
    }

    fn behind(&self, _: Acquired) -> Vec<Bucket> {
        self.leased.iter().map(|acquired| acquired.bucket).collect()
    }

    fn begin_bucket(&mut self, acquired: Acquired) {
        self.watch.says(State::Training, Some(acquired.bucket));
    }

    fn settle(
        &mut self,
        acquired: Acquired,
        trained: machine::Trained,
        stop: bool,
    ) -> Result<Option<Outcome>, RunError> {
        if let Some(fault) = self.parameters.as_ref().and_then(Parameters::fault) {
            return Err(fault.into());
        }
        let mut faults = self.machine.replace_sampler(&trained.faults)?;
        faults.extend(self.machine.loss_faults());
        faults
            .into_iter()
            .for_each(|event| self.report(event, None));
        let bucket = acquired.bucket;
        self.unsettled.push(bucket);
        self.sums.add(&Sums {
            train: trained.stats,
            eval_before: trained.eval_before.unwrap_or_default(),
            io: trained.io,
            seconds: trained.seconds + trained.io.stood_still(),
            calls: CallSeconds {
                sampler: trained.sampler.as_secs_f64(),
                ..CallSeconds::default()
            },
        });
        let parameters = self.parameters.as_ref().map(Parameters::took);
        self.watch.trained(&trained, parameters);
        self.turns
            .trained(Duration::try_from_secs_f64(trained.seconds).unwrap_or_default());
        let pass = self.current_pass();
        let index = self.totals.0;
        self.totals.0 += 1;
        self.totals.1 += trained.stats.count;
        self.totals.2.add(&trained.io);
        let mut io = std::mem::take(&mut self.handed_on);
        io.add(&trained.io);
        let leased_at = self.leased_at.remove(&bucket);
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
        };
        self.report(finished, leased_at);
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

/// Whether a bucket of the pass is still to be trained by somebody.
fn is_open(record: &Record) -> bool {
    let buckets = &record.work().buckets;
    buckets.count(BucketState::ToDo) + buckets.count(BucketState::Leased) > 0
}
