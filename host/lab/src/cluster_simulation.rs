//! Simulation of several trainers that share a pass: rounds, loads and writes, with the transactions of a real ledger.
//!
//! Every bucket takes one round, or a given time ([`simulate_with_durations`]), and nothing else takes time. A trainer
//! follows the policy of real trainers ([`BucketPolicy`]), where a round is a second. It leases no bucket before it can
//! train it, since loading takes no time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::schedule::PassId;
use pbg_core::strategy::{BucketOrder, Pass};
use pbg_ledger::{
    BucketPolicy, BucketState, BucketStep, CopyVersion, FileId, Genesis, Grid, Join, LedgerAction,
    LedgerRecord, PartitionFile, PartitionVersion, Phase, RunTerms, SettledPartition, Settlement,
    Token, TrainedState, Transaction, plan_digest,
};
use serde::Serialize;

/// Cost of a pass with several trainers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PassCost {
    /// Number of trainers.
    pub trainers: u32,
    /// Number of buckets with edges.
    pub buckets: u64,
    /// Number of rounds until all buckets are trained.
    pub rounds: u64,
    /// Number of rounds if no trainer ever waited for another one.
    pub ideal: u64,
    /// Number of partitions loaded, summed over all trainers.
    pub loads: u64,
    /// Bytes of these loads.
    pub bytes_read: u64,
    /// Number of partitions written, summed over all trainers.
    pub writes: u64,
    /// Bytes of these writes.
    pub bytes_written: u64,
}

impl PassCost {
    /// Returns the mean share of the time in which a trainer trains, if all buckets take one round.
    #[must_use]
    pub fn busy(&self) -> f64 {
        let slots = self.rounds * u64::from(self.trainers);
        self.buckets as f64 / (slots.max(1)) as f64
    }
}

/// Returns the number of rounds that a trainer (its index, from 0) takes for a bucket.
type Takes<'a> = dyn FnMut(u32, Bucket) -> f64 + 'a;

/// A simulated trainer.
struct Trainer {
    /// Number of the last transaction.
    last: u64,
    /// Number of files written.
    files: u64,
    /// The bucket being trained, and the time at which it ends.
    bucket: Option<(Bucket, f64)>,
    /// Duration of the bucket being trained.
    takes: f64,
    policy: BucketPolicy,
    /// Copies of partitions in the buffer, most recently used last.
    copies: VecDeque<(SidePartition, CopyVersion)>,
}

impl Trainer {
    fn new(buffer: u32) -> Self {
        // Buckets begin as soon as they are leased: none is leased before.
        let mut policy = BucketPolicy::new(Some(false));
        policy.begin_pass(PassId::default(), buffer);
        Self {
            last: 0,
            files: 0,
            bucket: None,
            takes: 0.0,
            policy,
            copies: VecDeque::new(),
        }
    }
}

struct Simulation<'a> {
    pass: &'a Pass,
    order: &'a mut dyn BucketOrder,
    takes: &'a mut Takes<'a>,
    record: LedgerRecord,
    trainers: BTreeMap<Token, Trainer>,
    now: f64,
    result: PassCost,
}

/// Simulates `trainers` trainers on `pass`, the first pass of a run, with the buckets that `order` picks.
///
/// # Errors
/// When the order fails, or returns an invalid plan or pick.
pub fn simulate(
    order: &mut dyn BucketOrder,
    pass: &Pass,
    trainers: u32,
    tree_init: bool,
) -> Result<PassCost, String> {
    simulate_with_durations(order, pass, trainers, tree_init, &mut |_, _| 1.0)
}

/// Simulates like [`simulate`], but a bucket takes `takes(trainer, bucket)` rounds, which must be positive. Trainers
/// are numbered from 0.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with_durations<'a>(
    order: &'a mut dyn BucketOrder,
    pass: &'a Pass,
    trainers: u32,
    tree_init: bool,
    takes: &'a mut Takes<'a>,
) -> Result<PassCost, String> {
    let plan = order.plan(pass).map_err(|error| error.to_string())?;
    pbg_core::plan::check(pass, &plan).map_err(|error| error.to_string())?;
    let mut simulation = Simulation::new(order, pass, takes, trainers, tree_init)?;
    simulation.open(&plan)?;
    while simulation.record.phase() == Phase::Training {
        simulation.go_on()?;
    }
    simulation.result.rounds = simulation.now.ceil() as u64;
    Ok(simulation.result)
}

impl<'a> Simulation<'a> {
    fn new(
        order: &'a mut dyn BucketOrder,
        pass: &'a Pass,
        takes: &'a mut Takes<'a>,
        trainers: u32,
        tree_init: bool,
    ) -> Result<Self, String> {
        let terms = RunTerms {
            tree_init,
            ..RunTerms::of_one_pass(Grid::of(pass))
        };
        let founding = Genesis {
            work: TrainedState::none(&terms.grid),
            terms: terms.clone(),
            run: Token(0),
            incarnation: Token(0),
            wanted: trainers,
            base: None,
            servers: Default::default(),
        };
        let record = LedgerRecord::create(founding).map_err(|damage| damage.to_string())?;
        let buckets = pass.edges.iter().filter(|edges| **edges > 0).count() as u64;
        let mut simulation = Self {
            pass,
            order,
            takes,
            record,
            trainers: BTreeMap::new(),
            now: 0.0,
            result: PassCost {
                trainers,
                buckets,
                ideal: buckets.div_ceil(u64::from(trainers.max(1))),
                ..PassCost::default()
            },
        };
        for number in 1..=u64::from(trainers) {
            let token = Token(number);
            let trainer = Trainer::new(pass.buffer_partitions);
            simulation.trainers.insert(token, trainer);
            let join = Join {
                terms: terms.clone(),
                name: String::new(),
                rank: None,
                instead_of: None,
                incarnation: simulation.record.incarnation(),
                newest: None,
            };
            simulation.must(token, LedgerAction::Join(Box::new(join)))?;
        }
        Ok(simulation)
    }

    fn open(&mut self, plan: &[Bucket]) -> Result<(), String> {
        let cells = self.pass.edges.iter().enumerate();
        let empty = cells.filter(|(_, edges)| **edges == 0);
        let action = LedgerAction::Open {
            pass: PassId::default(),
            plan: plan_digest(plan),
            empty: empty
                .map(|(cell, _)| self.record.grid().bucket(cell))
                .collect(),
        };
        self.must(Token(1), action)
    }

    /// Lets every idle trainer that finds a free bucket begin it, and advances the time until one of them ends.
    fn go_on(&mut self) -> Result<(), String> {
        let idle = self.trainers.iter().filter(|(_, t)| t.bucket.is_none());
        let mut waiting: Vec<Token> = idle.map(|(token, _)| *token).collect();
        // Buckets may have become free through the settlements of those that found none.
        for _ in 0..2 {
            for token in std::mem::take(&mut waiting) {
                if !self.follow(token)? {
                    waiting.push(token);
                }
            }
        }
        // Everyone trains or waits until one of these times.
        let ends = self.trainers.values().filter_map(|trainer| {
            let patient = trainer.policy.wait_ends().map(|end| end.as_secs_f64());
            trainer.bucket.map(|(_, until)| until).or(patient)
        });
        let next = ends.filter(|end| *end > self.now).min_by(f64::total_cmp);
        self.now = next.ok_or("the ledger leases no bucket, although some are not trained")?;
        self.end_buckets()
    }

    /// Lets a trainer follow its policy until it trains or waits. Returns whether it trains.
    fn follow(&mut self, token: Token) -> Result<bool, String> {
        let now = Duration::try_from_secs_f64(self.now).map_err(|error| error.to_string())?;
        loop {
            let Some(trainer) = self.trainers.get_mut(&token) else {
                return Ok(false);
            };
            match trainer.policy.step(now, token, &self.record, true) {
                BucketStep::Lease(choices) => self.lease(token, &choices)?,
                BucketStep::Settle => self.settle(token)?,
                BucketStep::Train(bucket) => {
                    self.load(token, bucket);
                    return Ok(true);
                }
                BucketStep::Refresh | BucketStep::Wait(_) | BucketStep::EndPass => {
                    self.settle(token)?;
                    return Ok(false);
                }
            }
        }
    }

    /// Ends the buckets whose time is over. At the end of the pass, settles all of them.
    fn end_buckets(&mut self) -> Result<(), String> {
        for trainer in self.trainers.values_mut() {
            if trainer.bucket.is_some_and(|(_, until)| until <= self.now) {
                let took = Duration::try_from_secs_f64(trainer.takes);
                trainer
                    .policy
                    .trained(took.map_err(|error| error.to_string())?);
                trainer.bucket = None;
            }
        }
        let to_do = self.record.work().buckets.count(BucketState::ToDo);
        if to_do == 0 && self.trainers.values().all(|t| t.bucket.is_none()) {
            let tokens: Vec<Token> = self.trainers.keys().copied().collect();
            return tokens.into_iter().try_for_each(|token| self.settle(token));
        }
        Ok(())
    }

    /// Leases that one of `choices` which the order picks.
    fn lease(&mut self, token: Token, choices: &[Bucket]) -> Result<(), String> {
        let held = self.record.leases_of_others(token);
        let copies = self.trainers.get(&token).map(|trainer| &trainer.copies);
        let current = copies.into_iter().flatten().filter(|(group, stamp)| {
            self.record.partition(*group).map(PartitionVersion::stamp) == Some(*stamp)
        });
        let pass = Pass {
            resident: current.map(|(group, _)| *group).collect(),
            ..self.pass.clone()
        };
        let picked = self.order.pick(&pass, &held, choices);
        let picked = picked.map_err(|error| error.to_string())?;
        let bucket = *choices
            .get(picked)
            .ok_or("the order picks a bucket that is not free")?;
        let pass = PassId::default();
        self.must(token, LedgerAction::Lease { pass, bucket })?;
        if let Some(trainer) = self.trainers.get_mut(&token) {
            trainer.policy.leased(bucket);
        }
        Ok(())
    }

    /// Brings the partitions of `bucket` into a trainer's buffer.
    fn load(&mut self, token: Token, bucket: Bucket) {
        let needs: Vec<SidePartition> = self.record.grid().partitions_of(bucket).collect();
        let number = self.trainers.range(..token).count() as u32;
        let takes = (self.takes)(number, bucket);
        let Some(trainer) = self.trainers.get_mut(&token) else {
            return;
        };
        (trainer.bucket, trainer.takes) = (Some((bucket, self.now + takes)), takes);
        for group in needs {
            let stamp = self.record.partition(group).map(PartitionVersion::stamp);
            let Some(stamp) = stamp else { continue };
            let copy = trainer
                .copies
                .iter()
                .position(|(copied, _)| *copied == group);
            let copy = copy.and_then(|at| trainer.copies.remove(at));
            if copy.is_none_or(|(_, of)| of != stamp) {
                self.result.loads += 1;
                self.result.bytes_read += bytes(self.pass, group);
            }
            trainer.copies.push_back((group, stamp));
        }
        while trainer.copies.len() > self.pass.buffer_partitions as usize {
            trainer.copies.pop_front();
        }
    }

    fn settle(&mut self, token: Token) -> Result<(), String> {
        let Some(trainer) = self.trainers.get_mut(&token) else {
            return Ok(());
        };
        let buckets = trainer.policy.take_trained();
        if buckets.is_empty() {
            return Ok(());
        }
        let mut partitions = Vec::new();
        for group in self.record.grid().partitions_of_all(&buckets) {
            trainer.files += 1;
            let writer = Some((token, trainer.files));
            let file = PartitionFile {
                id: FileId { version: 1, writer },
                size: 0,
                crc32: 0,
            };
            let partition = self.record.partition(group).cloned().unwrap_or_default();
            let settled = SettledPartition {
                group,
                from: partition.stamp(),
                files: vec![file],
            };
            for copy in trainer
                .copies
                .iter_mut()
                .filter(|(copied, _)| *copied == group)
            {
                copy.1 = settled.stamp();
            }
            self.result.writes += 1;
            self.result.bytes_written += bytes(self.pass, group);
            partitions.push(settled);
        }
        let settlement = Settlement {
            buckets,
            partitions,
            ..Settlement::default()
        };
        self.must(token, LedgerAction::Settle(Box::new(settlement)))
    }

    fn must(&mut self, token: Token, action: LedgerAction) -> Result<(), String> {
        let trainer = self.trainers.get_mut(&token).ok_or("no such trainer")?;
        let (after, number) = (trainer.last, trainer.last + 1);
        let applied = self.record.apply(&Transaction {
            token,
            number,
            after,
            action,
        });
        self.record = applied.map_err(|refusal| refusal.to_string())?;
        trainer.last = number;
        Ok(())
    }
}

fn bytes(pass: &Pass, (side, partition): SidePartition) -> u64 {
    let of_side = match side {
        Side::Lhs => &pass.lhs_bytes,
        Side::Rhs => &pass.rhs_bytes,
    };
    of_side.get(partition as usize).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests;
