//! The trainer's hand on the ledger: transactions that are written until they stand or are refused.
//!
//! The thread that trains, the one that carries partitions and the one that watches others share it. Each transaction is
//! brought to its end before the next begins: they are numbered, and each names the one before it. What is known of the
//! record can be asked meanwhile.

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

/// A refused transaction, or none that could be decided.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The record says no, and the trainer still takes part.
    Refused(Refusal),
    /// Its reason has gone. Whether it was applied is not known.
    GivenUp,
    /// The trainer cannot go on.
    Ended(ClusterError),
}

impl From<ClusterError> for Denied {
    fn from(error: ClusterError) -> Self {
        Self::Ended(error)
    }
}

impl Denied {
    /// For transactions that a trainer in its right place is never refused.
    pub(crate) fn ended(self) -> ClusterError {
        match self {
            Self::Refused(refusal) => ClusterError::Refused(Box::new(refusal)),
            Self::GivenUp => unreachable(Duration::ZERO, NoAnswer("it was given up".to_owned())),
            Self::Ended(error) => error,
        }
    }
}

/// How far a trainer has settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settlements {
    /// Settlements that have begun.
    pub(crate) begun: u64,
    /// Those of them that are applied.
    pub(crate) applied: u64,
}

/// Numbers of transactions.
struct Numbers {
    /// That of the next.
    next: u64,
    /// Those whose end was not waited for. One of them may be applied later.
    given_up: Vec<u64>,
}

/// The ledger, as one trainer sees it.
pub(crate) struct Ledger {
    register: Arc<dyn Register>,
    live: Arc<dyn Live>,
    token: Token,
    /// How long a register that does not answer is waited for.
    patience: Duration,
    /// Held while a transaction is under way: one is brought to its end before the next begins. What is known can be asked
    /// meanwhile, and every wait for the register ends when the trainer's part does.
    numbers: Mutex<Numbers>,
    known: Known,
    silence: Silence,
    needs: Needs,
    /// Settlements of this trainer that have begun, and that are applied.
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

    /// With a user, who may ask for the end and is told when the register does not answer.
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

    /// Whether nothing that needs the register is waited for any more.
    pub(crate) fn is_given_up(&self) -> bool {
        self.silence.is_unbearable()
    }

    /// The trainer has failed, and only says that it leaves.
    pub(crate) fn hurry(&self) {
        self.silence.hurry();
    }

    /// Asks for a newer record than the one that was seen last; it will be seen soon.
    pub(crate) fn needs_newer(&self) {
        self.needs.wake();
    }

    /// Reads the record once, without patience. None if the register has none, or a damaged one.
    ///
    /// # Errors
    /// As [`Ledger::refresh`], and when one attempt brings no answer.
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

    /// Whether an answer is not waited for any more.
    fn gives_up(&self, patience: &mut Patience) -> bool {
        patience.is_over() || self.silence.is_unbearable()
    }

    /// What waiting in vain comes to.
    fn gave_up(&self, no: NoAnswer) -> ClusterError {
        match self.silence.is_unbearable() {
            true => ClusterError::Interrupted { what: no.0 },
            false => unreachable(self.patience, no),
        }
    }

    /// Settlements of this trainer that have begun, and that are applied.
    pub(crate) fn settlements(&self) -> Settlements {
        let [begun, applied] = &self.settlements;
        // In this order: what is applied has begun.
        let applied = applied.load(Ordering::SeqCst);
        let begun = begun.load(Ordering::SeqCst);
        Settlements { begun, applied }
    }

    /// A settlement begins: what is added to parameters from now on belongs to the next.
    pub(crate) fn begin_settlement(&self) {
        self.settlements[0].fetch_add(1, Ordering::SeqCst);
    }

    /// The settlement that began is applied.
    pub(crate) fn end_settlement(&self) {
        self.settlements[1].fetch_add(1, Ordering::SeqCst);
    }

    /// The trainer's token.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// The record as it was seen last; none before the first was.
    pub(crate) fn seen(&self) -> Option<Arc<Record>> {
        self.known.seen().map(|seen| seen.record)
    }

    /// The partition of `group` as the record that was seen last has it. It is the newest while this trainer holds it.
    pub(crate) fn partition(&self, group: SidePartition) -> Partition {
        let seen = self.seen();
        let partition = seen.as_ref().and_then(|record| record.partition(group));
        partition.cloned().unwrap_or_default()
    }

    /// A copy of `group` was made from what `stamp` says.
    pub(crate) fn loaded(&self, group: SidePartition, stamp: Stamp) {
        self.known.loaded(group, stamp);
    }

    /// What the copy of `group` in memory is of; none if nothing was loaded.
    pub(crate) fn stamp(&self, group: SidePartition) -> Option<Stamp> {
        self.known.stamp(group)
    }

    /// Whether the copy of `group` in memory is of what the record has.
    pub(crate) fn is_current(&self, group: SidePartition) -> bool {
        self.known.is_current(group)
    }

    /// Reads the record. None if the register has none, or a damaged one, which is as good as none.
    ///
    /// # Errors
    /// When no answer comes, the trainer takes part no more, or the register was set back.
    pub(crate) fn refresh(&self) -> Result<Option<Arc<Record>>, ClusterError> {
        let before = self.known.before();
        let seen = self.newest(before)?;
        self.takes_part(before, seen.as_ref())?;
        Ok(seen.map(|seen| seen.record))
    }

    /// Creates the record, in place of `judged`, which does not stand, or of none. Says whether it did: if not, another
    /// trainer was faster.
    ///
    /// # Errors
    /// When no answer comes, or there is a record of a program of another version.
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
        // Whether an answer came or not: the record says who was faster.
        let _written = self.write(after, &encode(record)?, &id);
        self.silence.forget_writes();
        let seen = self.newest(before)?;
        self.live.wake();
        Ok(seen.is_some_and(|seen| seen.record.incarnation() == record.incarnation()))
    }

    /// Ends the part of a trainer that was silent, from outside the run, unless it has written something since. Returns
    /// whether it takes part no more.
    ///
    /// # Errors
    /// When no answer comes.
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
                // Read again, so that it is known.
                Ok(Written::As(_)) => continue,
                Ok(Written::Refused) => NoAnswer("every write is refused".to_owned()),
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
    /// When the newest record refuses it, no answer comes, or the trainer takes part no more.
    pub(crate) fn submit(&self, action: Action) -> Result<Arc<Record>, Denied> {
        self.transact(action, &[], &|| true)
    }

    /// As [`Ledger::submit`], as long as `wanted` says that there is a reason for it.
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

    /// Settles what is trained: the copies in memory are of what was settled then, whatever others have settled before
    /// the answer was read.
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

    /// Whether this trainer still takes part, as far as it did when the read began.
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

    /// The newest record; none if there is none or it is damaged.
    fn newest(&self, before: Before) -> Result<Option<Seen>, ClusterError> {
        let seen = decode(self.entry()?.as_ref())?;
        self.known.read(before, seen.as_ref());
        Ok(seen)
    }

    /// What the register has, waited for.
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
