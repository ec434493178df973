//! Transactions, which are retried until they are applied, are refused, or are no longer wanted.
//!
//! An answer may be lost, a refusal may be spurious, and an abandoned write may still arrive. So after any result
//! except success, the record is read again to find out whether the transaction was applied.

use pbg_core::graph::SidePartition;
use std::sync::Arc;

use pbg_core::cluster::{NoAnswer, Written};
use pbg_core::ledger::{Action, Fate, Record, Refusal, Stamp, Token, Transaction};

use super::entry::{Patience, encode};
use super::known::Seen;
use super::{Denied, Ledger};
use crate::member::error::ClusterError;

/// A transaction in progress.
struct Pending<'a> {
    transaction: Transaction,
    /// Stamps of the copies of partitions once the transaction is applied.
    stamps: &'a [(SidePartition, Stamp)],
    /// Returns whether the transaction is still wanted.
    wanted: &'a dyn Fn() -> bool,
}

impl Ledger {
    /// Runs a transaction to its end. Once it is applied, copies of partitions have `stamps`.
    pub(super) fn transact(
        &self,
        action: Action,
        stamps: &[(SidePartition, Stamp)],
        wanted: &dyn Fn() -> bool,
    ) -> Result<Arc<Record>, Denied> {
        let mut numbers = self.lock();
        let number = numbers.next;
        // A number is never used twice, whatever the result of its transaction.
        numbers.next += 1;
        let transaction = Transaction {
            token: self.token,
            number,
            after: self.known.after(),
            action,
        };
        let mut pending = Pending {
            transaction,
            stamps,
            wanted,
        };
        let ended = self.apply(&mut pending, &numbers.given_up);
        self.silence.forget_writes();
        if matches!(ended, Err(Denied::GivenUp | Denied::Ended(_))) {
            numbers.given_up.push(number);
        }
        ended
    }

    fn apply(&self, pending: &mut Pending<'_>, given_up: &[u64]) -> Result<Arc<Record>, Denied> {
        let mut patience = Patience::new(self.patience);
        let mut fresh = self.known.seen().is_none();
        if fresh {
            self.read_for(pending, given_up)?;
        }
        loop {
            let Some(Seen { revision, record }) = self.known.seen() else {
                return Err(ClusterError::NoRecord.into());
            };
            let tx = &pending.transaction;
            let next = match record.apply(tx) {
                Ok(next) => next,
                Err(Refusal::Applied { .. }) => {
                    return Ok(self.applied(pending, Seen { revision, record }));
                }
                // It was applied, and its answer was lost.
                Err(Refusal::Fenced { .. }) if fresh && tx.action.leaves() => {
                    return Ok(record);
                }
                // The record as last seen may be outdated.
                Err(_) if !fresh => {
                    self.read_for(pending, given_up)?;
                    fresh = true;
                    continue;
                }
                Err(
                    refusal @ (Refusal::Fenced { .. }
                    | Refusal::SetBack { .. }
                    | Refusal::Overtaken { .. }),
                ) => {
                    return Err(ClusterError::Fenced(Box::new(refusal)).into());
                }
                Err(refusal) => return Err(Denied::Refused(refusal)),
            };
            if !(pending.wanted)() {
                return Err(Denied::GivenUp);
            }
            let id = format!("{}-{}", tx.token, tx.number);
            let no = match self.write(Some(revision), &encode(&next)?, &id) {
                Ok(Written::As(revision)) => {
                    let record = Arc::new(next);
                    return Ok(self.applied(pending, Seen { revision, record }));
                }
                Ok(Written::Refused) => NoAnswer("the register refuses every write".to_owned()),
                Err(no) => no,
            };
            if self.gives_up(&mut patience) {
                return Err(self.gave_up(no).into());
            }
            self.read_for(pending, given_up)?;
            fresh = true;
            // If another trainer has written first, retry without waiting.
            let seen = self.known.seen();
            if seen.is_some_and(|seen| seen.revision == revision) {
                self.silence.pause(patience.next_wait());
            }
        }
    }

    /// Records that the transaction is applied in `seen`.
    fn applied(&self, pending: &Pending<'_>, seen: Seen) -> Arc<Record> {
        let record = Arc::clone(&seen.record);
        let number = pending.transaction.number;
        self.known.applied(number, Some(seen), pending.stamps);
        self.live.wake();
        record
    }

    /// Reads the record during a transaction. The result may show that the transaction was applied although its answer
    /// was lost, or that this trainer was removed from the run.
    fn read_for(&self, pending: &mut Pending<'_>, given_up: &[u64]) -> Result<(), ClusterError> {
        let before = self.known.before();
        let seen = self.newest(before)?;
        let tx = &mut pending.transaction;
        let fate = match &seen {
            None => return Err(ClusterError::NoRecord),
            Some(_) if matches!(tx.action, Action::Join(_)) => return Ok(()),
            Some(Seen { record, .. }) => record.fate(tx.token, tx.number, tx.after),
        };
        match fate {
            Fate::Applied | Fate::NotApplied => Ok(()),
            Fate::Fenced if tx.action.leaves() => Ok(()),
            Fate::Fenced => Err(fenced(tx.token)),
            Fate::SetBack { last } => Err(set_back(tx.token, last, tx.after)),
            // An abandoned transaction was applied after all. The current transaction follows it.
            Fate::Overtaken { last } if given_up.contains(&last) => {
                tx.after = last;
                self.known.applied(last, seen, &[]);
                Ok(())
            }
            Fate::Overtaken { last } => Err(set_back(tx.token, last, tx.after)),
        }
    }
}

pub(super) fn fenced(token: Token) -> ClusterError {
    ClusterError::Fenced(Box::new(Refusal::Fenced { token }))
}

pub(super) fn set_back(token: Token, last: u64, after: u64) -> ClusterError {
    ClusterError::Fenced(Box::new(Refusal::SetBack { token, last, after }))
}
