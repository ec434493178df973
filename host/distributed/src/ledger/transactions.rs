//! Transactions, which are retried until they are applied, are refused, or are no longer wanted.
//!
//! An answer may be lost, a refusal may be spurious, and an abandoned write may still arrive. So after any result
//! except success, the record is read again to find out whether the transaction was applied.

use pbg_core::graph::SidePartition;
use pbg_core::lock::lock;
use pbg_ledger::transport::{NoAnswer, WriteReply};
use pbg_ledger::{
    CopyVersion, LedgerAction, LedgerRecord, Transaction, TransactionError, TransactionFate,
};
use pbg_model::error::JoinError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::LedgerClient;
use super::encoding::{Backoff, encode};
use super::not_applied::{NotApplied, fenced, is_fenced, set_back};
use super::view::VersionedRecord;

/// A transaction in progress.
struct Pending<'a> {
    transaction: Transaction,
    /// Stamps of the copies of partitions once the transaction is applied.
    stamps: &'a [(SidePartition, CopyVersion)],
    /// Returns whether the transaction is still wanted.
    wanted: &'a dyn Fn() -> bool,
}

impl LedgerClient {
    /// Runs a transaction to its end. Once it is applied, copies of partitions have `stamps`.
    pub(super) fn transact(
        &self,
        action: LedgerAction,
        stamps: &[(SidePartition, CopyVersion)],
        wanted: &dyn Fn() -> bool,
    ) -> Result<Arc<LedgerRecord>, NotApplied> {
        let mut numbers = self.numbers.take();
        // A number is never used twice, whatever the result of its transaction.
        numbers.last += 1;
        let number = numbers.last;
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
        if let LedgerAction::Join(join) = &pending.transaction.action {
            *lock(&self.terms) = Some(join.terms.clone());
        }
        let leaves = pending.transaction.action.leaves();
        let ended = match (
            self.apply(&mut pending, &numbers.given_up),
            self.known.seen(),
        ) {
            // It has left, and a run with other terms has replaced the one that it was part of.
            (Err(NotApplied::Fatal(error)), Some(seen)) if leaves && is_fenced(&error) => {
                Ok(seen.record)
            }
            (ended, _) => ended,
        };
        self.silence.forget_writes();
        match &ended {
            Err(NotApplied::Abandoned | NotApplied::Fatal(_)) => numbers.given_up.push(number),
            Err(NotApplied::Refused(_)) => {
                self.refusals.fetch_add(1, Ordering::Relaxed);
            }
            Ok(_) => {}
        }
        ended
    }

    fn apply(
        &self,
        pending: &mut Pending<'_>,
        given_up: &[u64],
    ) -> Result<Arc<LedgerRecord>, NotApplied> {
        let mut patience = Backoff::new(self.timeout);
        let mut fresh = self.known.seen().is_none();
        if fresh {
            self.read_for(pending, given_up)?;
        }
        loop {
            let Some(VersionedRecord { revision, record }) = self.known.seen() else {
                return Err(JoinError::NoRecord.into());
            };
            let tx = &pending.transaction;
            let next = match record.apply(tx) {
                Ok(next) => next,
                Err(TransactionError::Applied { .. }) => {
                    return Ok(self.applied(pending, VersionedRecord { revision, record }));
                }
                // It was applied, and its answer was lost.
                Err(TransactionError::Fenced { .. }) if fresh && tx.action.leaves() => {
                    return Ok(record);
                }
                // The record as last seen may be outdated.
                Err(_) if !fresh => {
                    self.read_for(pending, given_up)?;
                    fresh = true;
                    continue;
                }
                Err(
                    refusal @ (TransactionError::Fenced { .. }
                    | TransactionError::SetBack { .. }
                    | TransactionError::Overtaken { .. }),
                ) => {
                    return Err(JoinError::Fenced(Box::new(refusal)).into());
                }
                Err(refusal) => return Err(NotApplied::Refused(refusal)),
            };
            if !(pending.wanted)() {
                return Err(NotApplied::Abandoned);
            }
            let id = format!("{}-{}", tx.token, tx.number);
            let no = match self.write(Some(revision), &encode(&next)?, &id) {
                Ok(WriteReply::Accepted(revision)) => {
                    let record = Arc::new(next);
                    return Ok(self.applied(pending, VersionedRecord { revision, record }));
                }
                Ok(WriteReply::Refused) => NoAnswer("the register refuses every write".to_owned()),
                Err(no) => no,
            };
            if self.gives_up(&mut patience) {
                return Err(self.timeout_error(no).into());
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
    fn applied(&self, pending: &Pending<'_>, seen: VersionedRecord) -> Arc<LedgerRecord> {
        let record = Arc::clone(&seen.record);
        let number = pending.transaction.number;
        self.known.applied(number, Some(seen), pending.stamps);
        self.live.wake();
        record
    }

    /// Reads the record during a transaction. The result may show that the transaction was applied although its answer
    /// was lost, or that this trainer was removed from the run.
    fn read_for(&self, pending: &mut Pending<'_>, given_up: &[u64]) -> Result<(), JoinError> {
        let before = self.known.before();
        let seen = self.newest(before)?;
        let tx = &mut pending.transaction;
        let fate = match &seen {
            None => return Err(JoinError::NoRecord),
            Some(_) if matches!(tx.action, LedgerAction::Join(_)) => return Ok(()),
            Some(VersionedRecord { record, .. }) => record.fate(tx.token, tx.number, tx.after),
        };
        match fate {
            TransactionFate::Applied | TransactionFate::NotApplied => Ok(()),
            TransactionFate::Fenced if tx.action.leaves() => Ok(()),
            TransactionFate::Fenced => Err(fenced(tx.token)),
            TransactionFate::SetBack { last } => Err(set_back(tx.token, last, tx.after)),
            // An abandoned transaction was applied after all. The current transaction follows it.
            TransactionFate::Overtaken { last } if given_up.contains(&last) => {
                tx.after = last;
                self.known.applied(last, seen, &[]);
                Ok(())
            }
            TransactionFate::Overtaken { last } => Err(set_back(tx.token, last, tx.after)),
        }
    }
}
