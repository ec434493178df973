//! A trainer's access to the ledger: transactions, which are retried until they are applied or refused.
//!
//! The threads that train, transfer partitions and monitor other trainers share it. Transactions are numbered, and each
//! names its predecessor, so each one ends before the next begins. The last known record can be read meanwhile.

use pbg_core::graph::SidePartition;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pbg_core::cluster::{Entry, Live, NoAnswer, Register, Written};
use pbg_core::ledger::{
    Action, Order, Partition, Record, Refusal, Settlement, Silent, Stamp, Token,
};

use super::error::{ClusterError, unreachable};
pub(crate) use attendance::Attendance;
use entry::{Patience, decode, encode};
use known::{Before, Known, Seen};
use needs::Needs;
pub(crate) use silence::User;
use silence::{Request, Silence};
use transact::{fenced, set_back};

mod attendance;
mod entry;
mod known;
mod needs;
mod silence;
mod transact;

/// Reason why a transaction was not applied.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The record refuses the transaction. The trainer is still part of the run.
    Refused(Refusal),
    /// The transaction was no longer wanted. It may have been applied.
    GivenUp,
    /// The trainer cannot continue in the run.
    Ended(ClusterError),
}

impl From<ClusterError> for Denied {
    fn from(error: ClusterError) -> Self {
        Self::Ended(error)
    }
}

impl Denied {
    /// Converts into an error, for transactions that are never refused while the trainer acts correctly.
    pub(crate) fn ended(self) -> ClusterError {
        match self {
            Self::Refused(refusal) => ClusterError::Refused(Box::new(refusal)),
            Self::GivenUp => unreachable(
                Duration::ZERO,
                NoAnswer("the request was abandoned".to_owned()),
            ),
            Self::Ended(error) => error,
        }
    }
}

/// Counts of a trainer's settlements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settlements {
    /// Number of settlements that have begun.
    pub(crate) begun: u64,
    /// Number of settlements that are applied.
    pub(crate) applied: u64,
}

/// Numbers of this trainer's transactions.
struct Numbers {
    /// Number of the next transaction.
    next: u64,
    /// Numbers of transactions that were abandoned without an answer. One of them may still be applied.
    given_up: Vec<u64>,
}

/// The ledger, as seen by one trainer.
pub(crate) struct Ledger {
    register: Arc<dyn Register>,
    live: Arc<dyn Live>,
    token: Token,
    /// Time after which a register that does not answer is an error.
    patience: Duration,
    /// Held during a transaction, so that each one ends before the next begins. The last known record can be read
    /// meanwhile, and every wait for the register ends when the trainer's participation does.
    numbers: Mutex<Numbers>,
    known: Known,
    silence: Silence,
    needs: Needs,
    /// Numbers of this trainer's settlements that have begun and that are applied.
    settlements: [AtomicU64; 2],
}

impl Ledger {
    pub(crate) fn new(
        register: Arc<dyn Register>,
        live: Arc<dyn Live>,
        token: Token,
        patience: Duration,
    ) -> Self {
        let numbers = Numbers {
            next: 1,
            given_up: Vec::new(),
        };
        Self {
            register,
            live,
            token,
            patience,
            numbers: Mutex::new(numbers),
            known: Known::default(),
            silence: Silence::new(User::default(), patience),
            needs: Needs::default(),
            settlements: Default::default(),
        }
    }

    /// Sets the user, who may ask this trainer to stop and is notified when the register does not answer.
    pub(crate) fn of(self, user: User) -> Self {
        Self {
            silence: Silence::new(user, self.patience),
            ..self
        }
    }

    /// Whether the register has not answered for a while.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.lasts()
    }

    /// Whether waits for the register end at once: the trainer has ended, or it must stop and the register is silent.
    pub(crate) fn is_given_up(&self) -> bool {
        self.silence.is_unbearable()
    }

    /// Shortens all waits for the register. Called when the trainer has failed and only submits that it leaves.
    pub(crate) fn hurry(&self) {
        self.silence.hurry();
    }

    /// Requests, without waiting, that a newer record is read.
    pub(crate) fn needs_newer(&self) {
        self.needs.wake();
    }

    /// Reads the record with a single attempt. Returns `None` if the register has no record or a damaged one.
    ///
    /// # Errors
    /// As [`Ledger::refresh`], and when this attempt is not answered.
    pub(crate) fn look(&self) -> Result<Option<Arc<Record>>, ClusterError> {
        let before = self.known.before();
        let entry = self.read().map_err(|no| self.gave_up(no))?;
        let seen = decode(entry.as_ref())?;
        self.known.read(before, seen.as_ref());
        self.takes_part(before, seen.as_ref())?;
        Ok(seen.map(|seen| seen.record))
    }

    fn read(&self) -> Result<Option<Entry>, NoAnswer> {
        self.silence.asking(Request::Read, || self.register.read())
    }

    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> Result<Written, NoAnswer> {
        let write = || self.register.write(after, value, id);
        self.silence.asking(Request::Write, write)
    }

    /// Whether to stop waiting for an answer.
    fn gives_up(&self, patience: &mut Patience) -> bool {
        patience.is_over() || self.silence.is_unbearable() || self.is_shut_down()
    }

    /// Whether the register has been silent for a while and was shut down on purpose.
    fn is_shut_down(&self) -> bool {
        self.silence.lasts() && self.register.is_shut_down()
    }

    /// Returns the error of a wait that was given up.
    fn gave_up(&self, no: NoAnswer) -> ClusterError {
        match self.silence.is_unbearable() {
            true => ClusterError::Interrupted { what: no.0 },
            false if self.is_shut_down() => ClusterError::Stopped,
            false => unreachable(self.patience, no),
        }
    }

    /// Returns how many settlements of this trainer have begun and how many are applied.
    pub(crate) fn settlements(&self) -> Settlements {
        let [begun, applied] = &self.settlements;
        // `applied` is read first, so that it never exceeds `begun`.
        let applied = applied.load(Ordering::SeqCst);
        let begun = begun.load(Ordering::SeqCst);
        Settlements { begun, applied }
    }

    /// Records that a settlement begins. Parameter updates from now on belong to the next settlement.
    pub(crate) fn begin_settlement(&self) {
        self.settlements[0].fetch_add(1, Ordering::SeqCst);
    }

    /// Records that the settlement is applied.
    pub(crate) fn end_settlement(&self) {
        self.settlements[1].fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the trainer's token.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Returns the record as last seen, or `None` before the first read.
    pub(crate) fn seen(&self) -> Option<Arc<Record>> {
        self.known.seen().map(|seen| seen.record)
    }

    /// Returns the partition of `group` in the record as last seen. While this trainer holds the partition, this is the
    /// newest state.
    pub(crate) fn partition(&self, group: SidePartition) -> Partition {
        let seen = self.seen();
        let partition = seen.as_ref().and_then(|record| record.partition(group));
        partition.cloned().unwrap_or_default()
    }

    /// Records that the copy of `group` in memory was loaded from the version that `stamp` identifies.
    pub(crate) fn loaded(&self, group: SidePartition, stamp: Stamp) {
        self.known.loaded(group, stamp);
    }

    /// Returns the stamp of the copy of `group` in memory, or `None` if nothing was loaded.
    pub(crate) fn stamp(&self, group: SidePartition) -> Option<Stamp> {
        self.known.stamp(group)
    }

    /// Whether the copy of `group` in memory has the version that the record names.
    pub(crate) fn is_current(&self, group: SidePartition) -> bool {
        self.known.is_current(group)
    }

    /// Reads the record, with retries. Returns `None` if the register has no record, or a damaged one, which is treated
    /// alike.
    ///
    /// # Errors
    /// When the register does not answer, the trainer was removed from the run, or the register was reset to an older
    /// record.
    pub(crate) fn refresh(&self) -> Result<Option<Arc<Record>>, ClusterError> {
        let before = self.known.before();
        let seen = self.newest(before)?;
        self.takes_part(before, seen.as_ref())?;
        Ok(seen.map(|seen| seen.record))
    }

    /// Creates the record. It replaces `judged`, which must still be the register's record; `None` means that there
    /// must be none. Returns `false` if another trainer has written a record first.
    ///
    /// # Errors
    /// When the register does not answer, or has a record of another version of the program.
    pub(crate) fn found(
        &self,
        judged: Option<&Record>,
        record: &Record,
    ) -> Result<bool, ClusterError> {
        let _alone = self.lock();
        let before = self.known.before();
        let entry = self.entry()?;
        let there = decode(entry.as_ref())?;
        if there.as_ref().map(|seen| &*seen.record) != judged {
            return Ok(false);
        }
        let id = format!("{}-{}", record.run(), record.incarnation());
        let after = entry.map(|entry| entry.revision);
        // The result is ignored, since the answer may be lost: the record that is read next shows which trainer was
        // first.
        let _written = self.write(after, &encode(record)?, &id);
        self.silence.forget_writes();
        let seen = self.newest(before)?;
        self.live.wake();
        Ok(seen.is_some_and(|seen| seen.record.incarnation() == record.incarnation()))
    }

    /// Removes a silent trainer without being part of the run, unless it has written something since. Returns whether
    /// that trainer is no longer part of the run.
    ///
    /// # Errors
    /// When the register does not answer.
    pub(crate) fn evict(&self, silent: Silent) -> Result<bool, ClusterError> {
        let _alone = self.lock();
        let evicted = self.evict_patiently(silent);
        self.silence.forget_writes();
        evicted
    }

    fn evict_patiently(&self, silent: Silent) -> Result<bool, ClusterError> {
        let mut patience = Patience::new(self.patience);
        for attempt in 0.. {
            let before = self.known.before();
            let seen = self.newest(before)?;
            self.takes_part(before, seen.as_ref())?;
            let Some(Seen { revision, record }) = seen else {
                return Ok(true);
            };
            let next = match record.order(Order::EvictSilent(silent)) {
                Ok(next) => next,
                Err(Refusal::Alive { .. }) => return Ok(false),
                Err(_) => break,
            };
            let id = format!("{}-evicts-{}-{attempt}", self.token, silent.token);
            let no = match self.write(Some(revision), &encode(&next)?, &id) {
                // Read the record again, so that the new one becomes known.
                Ok(Written::As(_)) => continue,
                Ok(Written::Refused) => NoAnswer("the register refuses every write".to_owned()),
                Err(no) => no,
            };
            if self.gives_up(&mut patience) {
                return Err(self.gave_up(no));
            }
            self.silence.pause(patience.next_wait());
        }
        self.live.wake();
        Ok(true)
    }

    /// Applies a transaction.
    ///
    /// # Errors
    /// When the newest record refuses it, the register does not answer, or the trainer was removed from the run.
    pub(crate) fn submit(&self, action: Action) -> Result<Arc<Record>, Denied> {
        self.transact(action, &[], &|| true)
    }

    /// Applies a transaction like [`Ledger::submit`], and abandons it when `wanted` returns `false`.
    ///
    /// # Errors
    /// As [`Ledger::submit`].
    pub(crate) fn submit_while(
        &self,
        action: Action,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Arc<Record>, Denied> {
        self.transact(action, &[], wanted)
    }

    /// Settles trained buckets. Afterwards, the copies of their partitions in memory have the stamps of this
    /// settlement, even if other trainers have settled the same partitions before the answer was read.
    ///
    /// # Errors
    /// As [`Ledger::submit`].
    pub(crate) fn settle(&self, settlement: Settlement) -> Result<Arc<Record>, Denied> {
        let partitions = settlement.partitions.iter();
        let stamps: Vec<_> = partitions
            .map(|settled| (settled.group, settled.stamp()))
            .collect();
        let action = Action::Settle(Box::new(settlement));
        self.known.settling(&stamps);
        let settled = self.transact(action, &stamps, &|| true);
        self.known.settling(&[]);
        settled
    }

    /// Checks that this trainer is still part of the run, if it was when the read began.
    fn takes_part(&self, before: Before, seen: Option<&Seen>) -> Result<(), ClusterError> {
        if before.after == 0 {
            return Ok(());
        }
        let seen = seen.ok_or(ClusterError::NoRecord)?;
        match seen.record.trainers().get(&self.token).map(|t| t.last) {
            None => Err(fenced(self.token)),
            Some(last) if last < before.after => Err(set_back(self.token, last, before.after)),
            Some(_) => Ok(()),
        }
    }

    /// Reads the newest record; `None` if there is none or it is damaged.
    fn newest(&self, before: Before) -> Result<Option<Seen>, ClusterError> {
        let seen = decode(self.entry()?.as_ref())?;
        self.known.read(before, seen.as_ref());
        Ok(seen)
    }

    /// Reads the register's entry, with retries.
    fn entry(&self) -> Result<Option<Entry>, ClusterError> {
        let mut patience = Patience::new(self.patience);
        loop {
            match self.read() {
                Ok(entry) => return Ok(entry),
                Err(no) if self.gives_up(&mut patience) => return Err(self.gave_up(no)),
                Err(_) => self.silence.pause(patience.next_wait()),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(super) mod tests;
