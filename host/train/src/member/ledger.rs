//! The trainer's hand on the ledger: transactions that are written until they stand or are refused.
//!
//! The thread that trains, the one that carries partitions and the one that watches others share it. Each transaction is
//! brought to its end before the next begins: they are numbered, and each names the one before it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pbg_core::cluster::{Entry, Live, NoAnswer, Register, Written};
use pbg_core::ledger::{
    Action, Damage, Fate, Group, Order, Partition, Record, Refusal, Stamp, Token, Transaction,
};

use super::error::{ClusterError, unreachable};

/// First wait before a register that did not answer is asked again; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A refused transaction, or none that could be decided.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The record says no, and the trainer still takes part.
    Refused(Refusal),
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

/// A record with the revision that the register knows it by.
#[derive(Clone, Debug)]
struct Seen {
    revision: u64,
    record: Arc<Record>,
}

struct Inner {
    /// Number of the next transaction.
    next: u64,
    /// The last one that is known to be applied; 0 before the trainer joined.
    after: u64,
    seen: Option<Seen>,
    /// What the copies of partitions in memory are of.
    stamps: BTreeMap<Group, Stamp>,
}

/// The ledger, as one trainer sees it.
pub(crate) struct Ledger {
    register: Arc<dyn Register>,
    live: Arc<dyn Live>,
    token: Token,
    /// How long a register that does not answer is waited for.
    patience: Duration,
    inner: Mutex<Inner>,
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
        let inner = Inner {
            next: 1,
            after: 0,
            seen: None,
            stamps: BTreeMap::new(),
        };
        Self {
            register,
            live,
            token,
            patience,
            inner: Mutex::new(inner),
            settlements: Default::default(),
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
        let inner = self.lock();
        inner.seen.as_ref().map(|seen| Arc::clone(&seen.record))
    }

    /// The partition of `group` as the record that was seen last has it. It is the newest while this trainer holds it.
    pub(crate) fn partition(&self, group: Group) -> Partition {
        let seen = self.seen();
        let partition = seen.as_ref().and_then(|record| record.partition(group));
        partition.cloned().unwrap_or_default()
    }

    /// A copy of `group` was made from what `stamp` says.
    pub(crate) fn loaded(&self, group: Group, stamp: Stamp) {
        self.lock().stamps.insert(group, stamp);
    }

    /// What the copy of `group` in memory is of; none if nothing was loaded.
    pub(crate) fn stamp(&self, group: Group) -> Option<Stamp> {
        self.lock().stamps.get(&group).copied()
    }

    /// Whether the copy of `group` in memory is of what the record has.
    pub(crate) fn is_current(&self, group: Group) -> bool {
        let inner = self.lock();
        let newest = inner.seen.as_ref().and_then(|s| s.record.partition(group));
        let newest = newest.map(Partition::stamp);
        newest.is_some() && newest == inner.stamps.get(&group).copied()
    }

    /// Reads the record. None if the register has none, or a damaged one, which is as good as none.
    ///
    /// # Errors
    /// When no answer comes, the trainer takes part no more, or the register was set back.
    pub(crate) fn refresh(&self) -> Result<Option<Arc<Record>>, ClusterError> {
        let mut inner = self.lock();
        self.read(&mut inner)?;
        Ok(inner.seen.as_ref().map(|seen| Arc::clone(&seen.record)))
    }

    /// Creates the record, in place of the one that was seen last, which does not stand. Says whether it did: if not,
    /// another trainer was faster.
    ///
    /// # Errors
    /// When no answer comes.
    pub(crate) fn found(&self, record: &Record) -> Result<bool, ClusterError> {
        let mut inner = self.lock();
        let entry = self.entry()?;
        let after = entry.as_ref().map(|entry| entry.revision);
        if after != inner.seen.as_ref().map(|seen| seen.revision) && decode(&entry).is_ok() {
            return Ok(false);
        }
        let id = format!("{}-{}", record.run(), record.incarnation());
        let written = self.register.write(after, &encode(record)?, &id);
        self.read(&mut inner)?;
        self.live.wake();
        Ok(matches!(written, Ok(Written::As(_))))
    }

    /// Ends the part of `token`, from outside the run. One that takes part no more is fine.
    ///
    /// # Errors
    /// When no answer comes.
    pub(crate) fn evict(&self, token: Token) -> Result<(), ClusterError> {
        let (mut inner, started) = (self.lock(), Instant::now());
        for attempt in 0.. {
            if started.elapsed() >= self.patience {
                let no = NoAnswer("every write is refused".to_owned());
                return Err(unreachable(self.patience, no));
            }
            self.read(&mut inner)?;
            let Some(Seen { revision, record }) = inner.seen.clone() else {
                return Ok(());
            };
            let Ok(next) = record.order(Order::Evict(token)) else {
                return Ok(());
            };
            let id = format!("{}-evicts-{token}-{attempt}", self.token);
            if let Ok(Written::As(_)) = self.register.write(Some(revision), &encode(&next)?, &id) {
                break;
            }
        }
        self.read(&mut inner)?;
        self.live.wake();
        Ok(())
    }

    /// Applies a transaction.
    ///
    /// # Errors
    /// When the newest record refuses it, no answer comes, or the trainer takes part no more.
    pub(crate) fn submit(&self, action: Action) -> Result<Arc<Record>, Denied> {
        self.submit_and(action, |_, _| ())
    }

    /// As [`Ledger::submit`], then sets what copies in memory are of, before anybody else asks.
    ///
    /// # Errors
    /// As [`Ledger::submit`].
    pub(crate) fn submit_and(
        &self,
        action: Action,
        then: impl FnOnce(&Record, &mut BTreeMap<Group, Stamp>),
    ) -> Result<Arc<Record>, Denied> {
        let mut inner = self.lock();
        let transaction = Transaction {
            token: self.token,
            number: inner.next,
            after: inner.after,
            action,
        };
        // A number is of one transaction only, whatever becomes of it.
        inner.next += 1;
        let record = self.apply(&mut inner, &transaction)?;
        then(&record, &mut inner.stamps);
        Ok(record)
    }

    fn apply(&self, inner: &mut Inner, tx: &Transaction) -> Result<Arc<Record>, Denied> {
        let (started, mut fresh) = (Instant::now(), false);
        if inner.seen.is_none() {
            self.read_for(inner, tx)?;
            fresh = true;
        }
        loop {
            let Some(Seen { revision, record }) = inner.seen.clone() else {
                return Err(ClusterError::NoRecord.into());
            };
            let next = match record.apply(tx) {
                Ok(next) => next,
                Err(Refusal::Applied { .. }) => {
                    return Ok(self.applied(inner, tx, revision, record));
                }
                // What was seen may be old.
                Err(_) if !fresh => {
                    self.read_for(inner, tx)?;
                    fresh = true;
                    continue;
                }
                Err(refusal @ (Refusal::Fenced { .. } | Refusal::SetBack { .. })) => {
                    return Err(ClusterError::Fenced(Box::new(refusal)).into());
                }
                Err(refusal) => return Err(Denied::Refused(refusal)),
            };
            let id = format!("{}-{}", tx.token, tx.number);
            let no = match self.register.write(Some(revision), &encode(&next)?, &id) {
                Ok(Written::As(revision)) => {
                    self.live.wake();
                    return Ok(self.applied(inner, tx, revision, Arc::new(next)));
                }
                Ok(Written::Refused) => NoAnswer("every write is refused".to_owned()),
                Err(no) => no,
            };
            if started.elapsed() >= self.patience {
                return Err(unreachable(self.patience, no).into());
            }
            self.read_for(inner, tx)?;
            fresh = true;
            if let Some(Seen { revision, record }) = inner.seen.clone()
                && record.fate(tx.token, tx.number, tx.after) == Fate::Applied
            {
                self.live.wake();
                return Ok(self.applied(inner, tx, revision, record));
            }
        }
    }

    fn applied(
        &self,
        inner: &mut Inner,
        tx: &Transaction,
        revision: u64,
        record: Arc<Record>,
    ) -> Arc<Record> {
        inner.after = tx.number;
        let seen = Arc::clone(&record);
        inner.seen = Some(Seen { revision, record });
        seen
    }

    /// Reads the record while `tx` is under way, which may be applied without an answer, or end this trainer's part.
    fn read_for(&self, inner: &mut Inner, tx: &Transaction) -> Result<(), ClusterError> {
        inner.seen = self.newest()?;
        match &inner.seen {
            None => Err(ClusterError::NoRecord),
            Some(_) if matches!(tx.action, Action::Join(_)) => Ok(()),
            Some(Seen { record, .. }) => match record.fate(tx.token, tx.number, tx.after) {
                Fate::Applied | Fate::NotApplied => Ok(()),
                Fate::Fenced if matches!(tx.action, Action::Leave) => Ok(()),
                Fate::Fenced => Err(fenced(tx.token)),
                Fate::SetBack { last } => Err(set_back(tx.token, last, tx.after)),
                // One that was given up for lost: none is, each is brought to its end.
                Fate::Overtaken { last } => Err(set_back(tx.token, last, tx.after)),
            },
        }
    }

    fn read(&self, inner: &mut Inner) -> Result<(), ClusterError> {
        inner.seen = self.newest()?;
        let Some(seen) = inner.seen.as_ref().filter(|_| inner.after > 0) else {
            return match inner.after {
                0 => Ok(()),
                _ => Err(ClusterError::NoRecord),
            };
        };
        let last = seen.record.trainers().get(&self.token).map(|t| t.last);
        match last {
            None => Err(fenced(self.token)),
            Some(last) if last < inner.after => Err(set_back(self.token, last, inner.after)),
            Some(_) => Ok(()),
        }
    }

    /// The newest record; none if there is none or it is damaged.
    fn newest(&self) -> Result<Option<Seen>, ClusterError> {
        let entry = self.entry()?;
        Ok(decode(&entry).unwrap_or_default())
    }

    /// What the register has, waited for.
    fn entry(&self) -> Result<Option<Entry>, ClusterError> {
        let (started, mut wait) = (Instant::now(), FIRST_WAIT);
        loop {
            match self.register.read() {
                Ok(entry) => return Ok(entry),
                Err(no) if started.elapsed() >= self.patience => {
                    return Err(unreachable(self.patience, no));
                }
                Err(_) => thread::sleep(wait),
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn encode(record: &Record) -> Result<Vec<u8>, ClusterError> {
    serde_json::to_vec(record).map_err(|e| ClusterError::Damaged(Damage(e.to_string())))
}

/// The record of an entry, checked: it comes from a network.
fn decode(entry: &Option<Entry>) -> Result<Option<Seen>, Damage> {
    let Some(Entry { revision, value }) = entry else {
        return Ok(None);
    };
    let record: Record = serde_json::from_slice(value).map_err(|e| Damage(e.to_string()))?;
    record.check()?;
    let (revision, record) = (*revision, Arc::new(record));
    Ok(Some(Seen { revision, record }))
}

fn fenced(token: Token) -> ClusterError {
    ClusterError::Fenced(Box::new(Refusal::Fenced { token }))
}

fn set_back(token: Token, last: u64, after: u64) -> ClusterError {
    ClusterError::Fenced(Box::new(Refusal::SetBack { token, last, after }))
}
