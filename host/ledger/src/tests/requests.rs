//! Requests of a trainer to the register, and the effects of the replies.

use std::sync::Arc;

use pbg_core::graph::Bucket;

use super::super::*;
use super::invariants::standing;
use super::rankings;
use super::world::{
    Budget, Decision, Flight, Member, Mistake, Model, Stage, Table, Thread, World, Writing,
};

/// Delivery of a transaction and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Answered,
    /// Applied, but the reply is lost.
    Unanswered,
    /// Delayed, while the trainer stops waiting for the reply.
    Late,
    /// Applied and answered, but a copy of it arrives later.
    Doubled,
}

impl Budget {
    /// Takes the cost of a transaction delivered by `mode` from the budget.
    pub(super) const fn pay(&mut self, mode: Mode) {
        match mode {
            Mode::Answered => {}
            Mode::Unanswered => self.lost -= 1,
            Mode::Late => self.late -= 1,
            Mode::Doubled => self.doubled -= 1,
        }
    }
}

impl Model {
    /// A trainer reads the record and joins it at once; the reply arrives.
    pub(super) fn join_now(&self, world: &World, member: usize) -> Option<World> {
        let LedgerAction::Join(join) = self.decide_to_join(world, member)? else {
            return None;
        };
        self.send_join(world, member, join)
    }

    /// Returns the request with which `member` joins the current record.
    pub(super) fn decide_to_join(&self, world: &World, member: usize) -> Option<LedgerAction> {
        let record = standing(self, world)?;
        let LedgerAction::Join(mut join) = self.join(record, world.members[member].token) else {
            return None;
        };
        if self.mistake != Some(Mistake::AnyRecordStands) {
            join.newest = world.newest().map(|manifest| manifest.cut);
        }
        Some(LedgerAction::Join(join))
    }

    /// A trainer joins with a new token. Returns `None` if the record is not the one that it has read.
    pub(super) fn send_join(&self, world: &World, member: usize, join: Box<Join>) -> Option<World> {
        let mut next = world.clone();
        next.members[member] = Member {
            token: Some(world.next_token()),
            ..Member::default()
        };
        let decision = Decision {
            thread: Thread::Training,
            action: LedgerAction::Join(join),
            listed: Vec::new(),
        };
        self.send(&next, member, decision, Mode::Answered)
    }

    /// Sends a transaction of `member`. Returns `None` if the record refuses it and the trainer learns nothing new.
    pub(super) fn send(
        &self,
        world: &World,
        member: usize,
        decision: Decision,
        mode: Mode,
    ) -> Option<World> {
        let Decision { action, listed, .. } = decision;
        let mut next = world.clone();
        let record = world.register.as_ref()?;
        let from = &mut next.members[member];
        from.number += 1;
        let number = from.number;
        let transaction = Transaction {
            token: from.token?,
            number,
            after: from.after,
            action,
        };
        let to = match self.apply(record, &transaction) {
            Ok(to) => Arc::new(to),
            Err(TransactionError::Fenced { .. } | TransactionError::SetBack { .. }) => {
                from.forget();
                return Some(next);
            }
            Err(TransactionError::Overtaken { last, .. }) => {
                self.overtaken(&mut next, member, last);
                return Some(next);
            }
            Err(_) => return None,
        };
        if let LedgerAction::Checkpoint { newest, .. } = transaction.action {
            from.cutting = to.checkpoints.cuts.last().map(|cut| Writing {
                cut: *cut,
                record: Arc::clone(&to),
                listed,
                before: newest,
                stage: Stage::Begun,
            });
        }
        let action = transaction.action;
        if mode != Mode::Late {
            next.watch(self, record, &transaction.token, &action);
            next.register = Some(Arc::clone(&to));
        }
        if mode == Mode::Late || mode == Mode::Doubled {
            next.flight = Some(Flight {
                from: Arc::clone(record),
                to,
                fell_back: false,
            });
        }
        match mode {
            Mode::Answered | Mode::Doubled => self.acknowledged(&mut next, member, number, &action),
            Mode::Unanswered | Mode::Late => next.members[member].waiting = Some((number, action)),
        }
        Some(next)
    }

    /// Whether `member`, which is not waiting for a reply, would learn something from its entry in the record. Every
    /// reader looks at its entry, even if it then requests nothing.
    pub(super) fn may_learn(&self, world: &World, member: usize) -> bool {
        let of = &world.members[member];
        let entry = world.register.as_ref().zip(of.token);
        let entry = entry.map(|(record, token)| record.trainers.get(&token));
        of.is_member() && entry.is_some_and(|trainer| trainer.is_none_or(|t| t.last != of.after))
    }

    /// A trainer that is not waiting for a reply reads the register.
    pub(super) fn look(&self, world: &World, member: usize) -> Option<World> {
        let mut next = world.clone();
        let record = world.register.as_ref()?;
        let from = &mut next.members[member];
        let missed = from.missed.as_ref();
        let number = missed.map_or(u64::MAX, |(number, _)| *number);
        match record.fate(from.token?, number, from.after) {
            TransactionFate::Applied => self.overtaken(&mut next, member, number),
            TransactionFate::Overtaken { last } => self.overtaken(&mut next, member, last),
            TransactionFate::Fenced | TransactionFate::SetBack { .. } => from.forget(),
            TransactionFate::NotApplied => return None,
        }
        Some(next)
    }

    /// The trainer learns that a transaction has been applied which it believed lost.
    fn overtaken(&self, world: &mut World, member: usize, last: u64) {
        let from = &mut world.members[member];
        match from.missed.take() {
            Some((number, action)) if number == last => {
                self.acknowledged(world, member, number, &action);
            }
            // An earlier transaction has arrived after the register was restored. A model does not remember which one
            // it was.
            Some((number, _)) if last < number => from.forget(),
            _ => world.broken = Some("an applied transaction is unknown to its trainer"),
        }
    }

    /// A trainer that has received no reply reads the register.
    pub(super) fn read_again(&self, world: &World, member: usize) -> Option<World> {
        let mut next = world.clone();
        let record = world.register.as_ref()?;
        let from = &mut next.members[member];
        let (number, action) = from.waiting.take()?;
        match (record.fate(from.token?, number, from.after), &action) {
            (TransactionFate::Applied, _) => self.acknowledged(&mut next, member, number, &action),
            (TransactionFate::NotApplied, _) => from.missed = Some((number, action)),
            (TransactionFate::Fenced, LedgerAction::Join(_)) => {
                from.missed = Some((number, action))
            }
            // An earlier transaction has arrived after the register was restored. The record does not show which of the
            // two it has lost.
            (
                TransactionFate::Fenced
                | TransactionFate::SetBack { .. }
                | TransactionFate::Overtaken { .. },
                _,
            ) => from.forget(),
        }
        Some(next)
    }

    /// The trainer learns that its transaction has been applied.
    fn acknowledged(&self, world: &mut World, member: usize, number: u64, action: &LedgerAction) {
        let Some(record) = world.register.clone() else {
            return;
        };
        let of = &mut world.members[member];
        of.after = number;
        (of.waiting, of.missed) = (None, None);
        match action {
            LedgerAction::Lease { pass, bucket } => {
                of.leases.push(*bucket);
                of.pass = pass.edge_chunk;
                self.load(world, member, &record);
            }
            LedgerAction::Settle(settlement) => {
                of.leases
                    .retain(|lease| !settlement.buckets.contains(lease));
                of.leases.extend(&settlement.next);
                of.trained = None;
                for settled in &settlement.partitions {
                    let index = self.grid.group_index(settled.group).unwrap();
                    let generation = settled.from.generation + 1;
                    let first = Some(settled.files[0].id);
                    if let Some(table) = of.tables.get_mut(&index) {
                        table.stamp = CopyVersion { generation, first };
                    }
                }
                self.load(world, member, &record);
            }
            LedgerAction::GiveUp { buckets, .. } => {
                of.leases.retain(|lease| !buckets.contains(lease));
                // The trainer may have trained one of the buckets since it believed this transaction lost. Then the
                // file belongs to no one, and the partitions are read again.
                let is_of =
                    |trained: &mut Settlement| trained.buckets.iter().any(|b| buckets.contains(b));
                if let Some(dropped) = of.trained.take_if(is_of) {
                    let groups = dropped.partitions.iter().map(|settled| settled.group);
                    let indices: Vec<_> =
                        groups.map(|group| self.grid.group_index(group)).collect();
                    of.tables
                        .retain(|index, _| !indices.contains(&Some(*index)));
                }
                self.load(world, member, &record);
            }
            LedgerAction::Leave | LedgerAction::LeaveSaved => of.forget(),
            LedgerAction::LeaseBlock { block, .. } => of.block = Some(*block),
            LedgerAction::GiveUpBlock { .. } | LedgerAction::Ranked { .. } => of.block = None,
            LedgerAction::Checkpoint { .. } => {
                // Another trainer may have written since, so the cut is the one that this trainer has sent.
                of.writing = of.cutting.take();
            }
            LedgerAction::Committed(_) => {
                if let Some(writing) = &mut of.writing {
                    writing.stage = Stage::Committed;
                }
            }
            _ => {}
        }
    }

    /// Reads the partitions that the trainer holds but does not have in memory, and drops the others.
    fn load(&self, world: &mut World, member: usize, record: &LedgerRecord) {
        let stands = standing(self, world).is_some();
        let of = &mut world.members[member];
        if of.leases.is_empty() {
            of.pass = 0;
        }
        let groups = of
            .leases
            .iter()
            .flat_map(|bucket| self.grid.partitions_of(*bucket));
        let held: Vec<usize> = groups
            .filter_map(|group| self.grid.group_index(group))
            .collect();
        of.tables.retain(|index, _| held.contains(index));
        for index in held {
            if of.tables.contains_key(&index) {
                continue;
            }
            let stamp = record.work.partitions[index].stamp();
            let content = match stamp.first {
                None => Some(&0),
                Some(id) => world.disk.get(&(index, id)),
            };
            match content {
                Some(&content) => drop(of.tables.insert(index, Table { stamp, content })),
                // In this case the record is older than the newest manifest; a trainer that detects this creates a new
                // record.
                None if !stands => return of.forget(),
                None => {
                    world.broken = Some("a file that the lease names is not there");
                    return;
                }
            }
        }
    }

    /// Applies the transaction by the rules of the ledger, with the model's mistake.
    fn apply(
        &self,
        record: &LedgerRecord,
        transaction: &Transaction,
    ) -> Result<LedgerRecord, TransactionError> {
        let &Transaction {
            token,
            number,
            ref action,
            ..
        } = transaction;
        let mut changed = record.clone();
        match (self.mistake, action) {
            (Some(Mistake::NoFencing), LedgerAction::Settle(s))
                if !record.trainers.contains_key(&token) =>
            {
                let trainer = Trainer {
                    name: String::new(),
                    rank: None,
                    last: transaction.after,
                    files: 0,
                    leases: s.buckets.clone(),
                    block: None,
                };
                changed.trainers.insert(token, trainer);
                changed.apply(transaction)
            }
            (Some(Mistake::HalfSettled), LedgerAction::Settle(s)) if s.partitions.len() > 1 => {
                let mut next = record.apply(transaction)?;
                let index = self.grid.group_index(s.partitions[0].group).unwrap();
                next.work.partitions[index] = record.work.partitions[index].clone();
                Ok(next)
            }
            (Some(Mistake::LeaseOfAnyPass), LedgerAction::Lease { bucket, .. }) => {
                let pass = record.work.pass;
                let bucket = *bucket;
                record.apply(&Transaction {
                    action: LedgerAction::Lease { pass, bucket },
                    ..transaction.clone()
                })
            }
            (Some(Mistake::NobodyHolds), LedgerAction::Lease { bucket, .. }) => {
                let to_do = record.state(*bucket) == Some(BucketState::ToDo);
                let trainer = changed
                    .trainers
                    .get_mut(&token)
                    .ok_or(TransactionError::Fenced { token })?;
                if !to_do || record.phase() != Phase::Training {
                    return Err(TransactionError::NotToDo { bucket: *bucket });
                }
                trainer.leases.push(*bucket);
                trainer.last = number;
                changed.set(*bucket, BucketState::Leased);
                Ok(changed)
            }
            (Some(Mistake::LeasesStay), LedgerAction::Revoke(other)) => {
                changed.trainers.remove(&other.token);
                Ok(changed)
            }
            (Some(Mistake::EarlyAdvance), LedgerAction::Advance { .. }) => {
                changed.work.pass.edge_chunk += 1;
                changed.work.plan = None;
                changed.work.buckets = BucketStates::to_do(self.grid.buckets());
                changed.trainers.values_mut().for_each(|t| t.leases.clear());
                Ok(changed)
            }
            (Some(mistake), action) if rankings::is_about(mistake, action) => {
                rankings::apply_wrongly(record, transaction)
            }
            (Some(Mistake::NothingCompared), _) => self.apply_uncompared(record, transaction),
            _ => record.apply(transaction),
        }
    }

    /// Applies the transaction whatever the trainer knows and whichever files its own were trained from.
    fn apply_uncompared(
        &self,
        record: &LedgerRecord,
        transaction: &Transaction,
    ) -> Result<LedgerRecord, TransactionError> {
        let &Transaction { token, number, .. } = transaction;

        let mut loose = transaction.clone();
        if let Some(trainer) = record.trainers.get(&token) {
            loose.after = trainer.last;
            loose.number = number.max(trainer.last + 1);
        }
        if let LedgerAction::Settle(s) = &mut loose.action {
            for settled in &mut s.partitions {
                let index = self.grid.group_index(settled.group).unwrap();
                settled.from = record.work.partitions[index].stamp();
            }
        }
        let mut next = record.apply(&loose)?;
        next.trainers.entry(token).and_modify(|t| t.last = number);
        Ok(next)
    }

    /// Returns the buckets that `member` may lease. With [`Mistake::NobodyHolds`], partitions held by others are no
    /// obstacle.
    pub(super) fn free(&self, record: &LedgerRecord, token: Token) -> Vec<Bucket> {
        match self.mistake {
            Some(Mistake::NobodyHolds) => (0..self.grid.buckets())
                .map(|i| self.grid.bucket(i))
                .collect(),
            _ => record.free(token),
        }
    }
}

impl Member {
    /// Drops everything but the token, which the trainer names when it joins again.
    pub(super) fn forget(&mut self) {
        let token = self.token;
        *self = Self {
            token,
            number: u64::MAX,
            ..Self::default()
        };
    }

    /// Whether the trainer believes that it is part of the run.
    pub(super) fn is_member(&self) -> bool {
        self.token.is_some() && self.number != u64::MAX
    }
}
