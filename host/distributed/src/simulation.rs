//! Simulated trainer without a model. It follows the policy of real trainers ([`BucketPolicy`]) on a real ledger, and the
//! caller defines how long a bucket takes. Used by `bench cluster`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::schedule::PassId;
use pbg_core::strategy::{BucketOrder, Pass};
use pbg_ledger::transport::{LiveTraffic, Register};
use pbg_ledger::{
    BucketPolicy, BucketStep, FileId, Genesis, Grid, Join, LONGEST_WAIT, LedgerAction,
    LedgerRecord, PartitionFile, Phase, RunTerms, SettledPartition, Settlement, TrainedState,
    plan_digest,
};
use pbg_model::error::{JoinError, RunError};

use crate::ledger::{LedgerClient, NotApplied};
use crate::random_token::random_token;

/// A pass to be shared by simulated trainers.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Pass to train.
    pub pass: Pass,
    /// Number of trainers. The first bucket waits for all of them.
    pub trainers: u32,
    /// As [`ClusterOptions::tree_init`](crate::ClusterOptions::tree_init).
    pub tree_init: bool,
    /// As [`ClusterOptions::lease_ahead`](crate::ClusterOptions::lease_ahead).
    pub ahead: Option<bool>,
    /// As [`ClusterOptions::patience`](crate::ClusterOptions::patience).
    pub patience: Duration,
    /// Set to end the simulation: trainers then lease no further buckets.
    pub stop: Arc<AtomicBool>,
}

/// Connections and bucket order of a simulated trainer.
pub struct SimTrainer {
    /// Register that holds the ledger.
    pub register: Arc<dyn Register>,
    /// Live messages between the trainers.
    pub live: Arc<dyn LiveTraffic>,
    /// Order that picks the trainer's buckets.
    pub order: Box<dyn BucketOrder>,
}

/// Measurements of one simulated trainer.
#[derive(Clone, Debug)]
pub struct SimReport {
    /// When it could first lease a bucket.
    pub started: Instant,
    /// When the pass was over.
    pub ended: Instant,
    /// Number of buckets trained.
    pub buckets: u64,
    /// Number of partitions that it would have loaded.
    pub loads: u64,
    /// Number of partitions that it would have written.
    pub writes: u64,
    /// Time spent training.
    pub trained: Duration,
    /// Time spent leasing, including calls of the order.
    pub leased: Duration,
    /// Time spent waiting for its own settlements.
    pub settled: Duration,
    /// Duration of each transaction until it was applied, including those in parallel with training.
    pub transactions: Vec<Duration>,
}

/// Thread of a settlement in progress.
type Settling<'scope> = ScopedJoinHandle<'scope, Result<Duration, NotApplied>>;

struct SimRun<'scope, 'env> {
    scene: &'env Scenario,
    actor: SimTrainer,
    ledger: Arc<LedgerClient>,
    scope: &'scope thread::Scope<'scope, 'env>,
    settling: Option<Settling<'scope>>,
    policy: BucketPolicy,
    begun: Instant,
    /// Partitions in the buffer, most recently used last.
    copies: VecDeque<SidePartition>,
    files: u64,
    done: SimReport,
}

/// Runs a simulated trainer in `scene` until the pass is over. `train` is called for each bucket.
///
/// # Errors
/// When the ledger does not answer, or the order fails.
pub fn simulate_trainer(
    actor: SimTrainer,
    scene: &Scenario,
    train: &mut dyn FnMut(Bucket),
) -> Result<SimReport, RunError> {
    let (register, live) = (Arc::clone(&actor.register), Arc::clone(&actor.live));
    let token = random_token()?;
    let ledger = Arc::new(LedgerClient::new(register, live, token, scene.patience));
    thread::scope(|scope| {
        let now = pbg_clock::now();
        let mut rehearsal = SimRun {
            scene,
            actor,
            ledger,
            scope,
            settling: None,
            policy: BucketPolicy::new(scene.ahead),
            begun: now,
            copies: VecDeque::new(),
            files: 0,
            done: SimReport {
                started: now,
                ended: now,
                buckets: 0,
                loads: 0,
                writes: 0,
                trained: Duration::ZERO,
                leased: Duration::ZERO,
                settled: Duration::ZERO,
                transactions: Vec::new(),
            },
        };
        rehearsal.join()?;
        rehearsal.open()?;
        let buffer = scene.pass.buffer_partitions;
        rehearsal.policy.begin_pass(PassId::default(), buffer);
        rehearsal.done.started = pbg_clock::now();
        while let Some(bucket) = rehearsal.next()? {
            let begun = pbg_clock::now();
            train(bucket);
            let took = pbg_clock::elapsed(begun);
            rehearsal.policy.trained(took);
            rehearsal.done.trained += took;
            rehearsal.done.buckets += 1;
        }
        rehearsal.done.ended = pbg_clock::now();
        rehearsal.submit(LedgerAction::Leave)?;
        Ok(rehearsal.done)
    })
}

impl SimRun<'_, '_> {
    /// Joins the run. The first trainer creates its record.
    fn join(&mut self) -> Result<(), RunError> {
        let terms = RunTerms {
            tree_init: self.scene.tree_init,
            ..RunTerms::of_one_pass(Grid::of(&self.scene.pass))
        };
        let incarnation = loop {
            if let Some(record) = self.ledger.refresh()? {
                break record.incarnation();
            }
            let founding = Genesis {
                work: TrainedState::none(&terms.grid),
                terms: terms.clone(),
                run: random_token()?,
                incarnation: random_token()?,
                wanted: self.scene.trainers,
                base: None,
                servers: Default::default(),
            };
            let record = LedgerRecord::create(founding).map_err(JoinError::from)?;
            self.ledger.create(None, &record)?;
        };
        let join = Join {
            terms,
            name: String::new(),
            rank: None,
            instead_of: None,
            incarnation,
            newest: None,
        };
        self.submit(LedgerAction::Join(Box::new(join))).map(drop)
    }

    /// Opens the pass when all trainers have joined, unless another trainer has opened it.
    fn open(&mut self) -> Result<(), RunError> {
        let pass = &self.scene.pass;
        let plan = self.actor.order.plan(pass)?;
        let grid = Grid::of(pass);
        let cells = pass.edges.iter().enumerate();
        let empty = cells.filter(|(_, edges)| **edges == 0);
        let open = LedgerAction::Open {
            pass: PassId::default(),
            plan: plan_digest(&plan),
            empty: empty.map(|(cell, _)| grid.bucket(cell)).collect(),
        };
        while !self.scene.stop.load(Ordering::Relaxed) {
            match self.record()?.phase() {
                Phase::Gathering(_) => drop(self.actor.live.wait(LONGEST_WAIT)),
                Phase::Opening => drop(self.submit(open.clone())?),
                _ => break,
            }
        }
        Ok(())
    }

    /// Returns the bucket to train next, or `None` if the pass is over or the simulation is stopped.
    fn next(&mut self) -> Result<Option<Bucket>, RunError> {
        let mut is_newest = false;
        loop {
            if self.scene.stop.load(Ordering::Relaxed) {
                self.end_settling()?;
                return Ok(None);
            }
            let record = match self.ledger.last_record() {
                Some(record) => record,
                None => self.record()?,
            };
            let (now, token) = (pbg_clock::elapsed(self.begun), self.ledger.token());
            match self.policy.step(now, token, &record, is_newest) {
                BucketStep::Lease(choices) => is_newest = !self.lease(&record, &choices)?,
                BucketStep::Refresh => {
                    self.record()?;
                    is_newest = true;
                }
                BucketStep::Settle => self.begin_settling()?,
                BucketStep::Train(bucket) => {
                    self.load(bucket);
                    return Ok(Some(bucket));
                }
                BucketStep::Wait(_) if self.is_settling() => {
                    self.begin_settling()?;
                    self.end_settling()?;
                    is_newest = true;
                }
                BucketStep::Wait(at_most) => {
                    self.actor.live.wait(at_most);
                    self.record()?;
                    is_newest = true;
                }
                BucketStep::EndPass => {
                    self.end_settling()?;
                    return Ok(None);
                }
            }
        }
    }

    fn record(&self) -> Result<Arc<LedgerRecord>, RunError> {
        Ok(self.ledger.refresh()?.ok_or(JoinError::NoRecord)?)
    }

    /// Submits an action. Returns whether it was applied.
    fn submit(&mut self, action: LedgerAction) -> Result<bool, RunError> {
        let begun = pbg_clock::now();
        match self.ledger.submit(action) {
            Ok(_) => {
                self.done.transactions.push(pbg_clock::elapsed(begun));
                Ok(true)
            }
            Err(NotApplied::Refused(_) | NotApplied::Abandoned) => Ok(false),
            Err(NotApplied::Fatal(error)) => Err(error.into()),
        }
    }

    /// Leases that one of `choices` which the order picks. Returns `false` if the ledger refuses.
    fn lease(&mut self, record: &LedgerRecord, choices: &[Bucket]) -> Result<bool, RunError> {
        let begun = pbg_clock::now();
        let leased = self.pick_and_lease(record, choices);
        self.done.leased += pbg_clock::elapsed(begun);
        leased
    }

    fn pick_and_lease(
        &mut self,
        record: &LedgerRecord,
        choices: &[Bucket],
    ) -> Result<bool, RunError> {
        let copies = self.copies.iter().copied();
        let mut resident: Vec<SidePartition> =
            copies.filter(|g| self.ledger.is_current(*g)).collect();
        resident.extend(self.policy.soon_resident(record, &resident));
        let pass = Pass {
            resident,
            ..self.scene.pass.clone()
        };
        let held = record.leases_of_others(self.ledger.token());
        let picked = self.actor.order.pick(&pass, &held, choices)?;
        let bucket = choices.get(picked).copied().unwrap_or(choices[0]);
        let pass = PassId::default();
        let is_leased = self.submit(LedgerAction::Lease { pass, bucket })?;
        if is_leased {
            self.policy.leased(bucket);
        }
        Ok(is_leased)
    }

    fn groups_of(&self, buckets: &[Bucket]) -> BTreeSet<SidePartition> {
        Grid::of(&self.scene.pass).partitions_of_all(buckets)
    }

    /// Brings the partitions of `bucket` into the buffer, which evicts the least recently used ones.
    fn load(&mut self, bucket: Bucket) {
        for group in self.groups_of(&[bucket]) {
            let at = self.copies.iter().position(|copy| *copy == group);
            let copy = at.and_then(|at| self.copies.remove(at));
            if copy.is_none() || !self.ledger.is_current(group) {
                self.done.loads += 1;
                let stamp = self.ledger.partition(group).stamp();
                self.ledger.set_stamp(group, stamp);
            }
            self.copies.push_back(group);
        }
        while self.copies.len() > self.scene.pass.buffer_partitions as usize {
            self.copies.pop_front();
        }
    }

    /// Whether trained buckets are not in the ledger yet.
    fn is_settling(&self) -> bool {
        self.settling.is_some() || !self.policy.unsettled().is_empty()
    }

    /// Begins to settle the trained buckets. A previous settlement is waited for.
    fn begin_settling(&mut self) -> Result<(), RunError> {
        self.end_settling()?;
        let buckets = self.policy.take_trained();
        if buckets.is_empty() {
            return Ok(());
        }
        let mut partitions = Vec::new();
        for group in self.groups_of(&buckets) {
            self.files += 1;
            let writer = Some((self.ledger.token(), self.files));
            let file = PartitionFile {
                id: FileId { version: 1, writer },
                size: 0,
                crc32: 0,
            };
            partitions.push(SettledPartition {
                group,
                from: self.ledger.stamp(group),
                files: vec![file],
            });
        }
        self.done.writes += partitions.len() as u64;
        let settlement = Settlement {
            buckets,
            partitions,
            ..Settlement::default()
        };
        let ledger = Arc::clone(&self.ledger);
        self.settling = Some(self.scope.spawn(move || {
            let begun = pbg_clock::now();
            ledger.settle(settlement).map(|_| pbg_clock::elapsed(begun))
        }));
        Ok(())
    }

    fn end_settling(&mut self) -> Result<(), RunError> {
        let Some(settling) = self.settling.take() else {
            return Ok(());
        };
        let begun = pbg_clock::now();
        let settled = settling.join();
        self.done.settled += pbg_clock::elapsed(begun);
        // A panic of the settling thread continues in this one.
        let took = settled.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        self.done
            .transactions
            .push(took.map_err(NotApplied::into_error)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
