//! A trainer's access to the ledger: transactions, which are retried until they are applied or refused.
//!
//! The threads that train, transfer partitions and monitor other trainers share it. Transactions are numbered, and each
//! names its predecessor, so each one ends before the next begins. The last known record can be read meanwhile.

use pbg_clock::Exclusive;
use pbg_core::graph::SidePartition;
use pbg_core::lock::lock;
use pbg_ledger::transport::{LiveTraffic, NoAnswer, Register, RegisterEntry, WriteReply};
use pbg_ledger::{
    CopyVersion, LedgerAction, LedgerRecord, OperatorCommand, PartitionVersion, RunTerms,
    Settlement, SilentTrainer, Token, TransactionError,
};
use pbg_model::error::JoinError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) use background::LedgerThreads;
use encoding::Backoff;
pub(crate) use encoding::{decode, encode};
pub(crate) use not_applied::NotApplied;
use not_applied::{fenced, set_back};
use refresh_request::RefreshRequest;
pub(crate) use silence::UserHandle;
use silence::{Request, SilenceMonitor};
use view::{LedgerView, ReadStart, VersionedRecord};

mod background;
mod encoding;
mod not_applied;
mod refresh_request;
mod silence;
mod transactions;
mod view;

/// Counts of a trainer's settlements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SettlementCounts {
    /// Number of settlements that have begun.
    pub(crate) begun: u64,
    /// Number of settlements that are applied.
    pub(crate) applied: u64,
}

/// Numbers of this trainer's transactions.
#[derive(Default)]
struct TransactionNumbers {
    /// Number of the last transaction; 0 before the first.
    last: u64,
    /// Numbers of transactions that were abandoned without an answer. One of them may still be applied.
    given_up: Vec<u64>,
}

/// The ledger, as seen by one trainer.
pub(crate) struct LedgerClient {
    register: Arc<dyn Register>,
    live: Arc<dyn LiveTraffic>,
    token: Token,
    /// Time after which a register that does not answer is an error.
    timeout: Duration,
    /// Taken during a transaction, so that each one ends before the next begins. The last known record can be read
    /// meanwhile, and every wait for the register ends when the trainer's participation does.
    numbers: Exclusive<TransactionNumbers>,
    known: LedgerView,
    /// Terms that this trainer joins with; none before it tries to join.
    terms: Mutex<Option<RunTerms>>,
    silence: SilenceMonitor,
    needs: RefreshRequest,
    /// Numbers of this trainer's settlements that have begun and that are applied.
    settlements: [AtomicU64; 2],
    /// Number of commands that were sent.
    commands: AtomicU64,
    /// Number of refused transactions that were not reported.
    refusals: AtomicU64,
}

impl LedgerClient {
    pub(crate) fn new(
        register: Arc<dyn Register>,
        live: Arc<dyn LiveTraffic>,
        token: Token,
        patience: Duration,
    ) -> Self {
        Self {
            register,
            live,
            token,
            timeout: patience,
            numbers: Exclusive::default(),
            known: LedgerView::default(),
            terms: Mutex::default(),
            silence: SilenceMonitor::new(UserHandle::default(), patience),
            needs: RefreshRequest::default(),
            settlements: Default::default(),
            commands: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        }
    }

    /// Sets the user, who may ask this trainer to stop and is notified when the register does not answer.
    pub(crate) fn with_user(self, user: UserHandle) -> Self {
        Self {
            silence: SilenceMonitor::new(user, self.timeout),
            ..self
        }
    }

    /// Whether the register has not answered for a while.
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// Whether waits for the register end at once: the trainer has ended, or it must stop and the register is silent.
    pub(crate) fn ends_waits(&self) -> bool {
        self.silence.ends_waits()
    }

    /// Shortens all waits for the register. Called when the trainer has failed and only submits that it leaves.
    pub(crate) fn shorten_waits(&self) {
        self.silence.hurry();
    }

    /// Requests, without waiting, that a newer record is read.
    pub(crate) fn request_refresh(&self) {
        self.needs.wake();
    }

    /// Reads the record with a single attempt. Returns `None` if the register has no record or a damaged one.
    ///
    /// # Errors
    /// As [`LedgerClient::refresh`], and when this attempt is not answered.
    pub(crate) fn try_refresh(&self) -> Result<Option<Arc<LedgerRecord>>, JoinError> {
        let before = self.known.before();
        let entry = self.read().map_err(|no| self.timeout_error(no))?;
        let seen = self.decode_own(before, entry.as_ref())?;
        self.known.read(before, seen.as_ref());
        self.takes_part(before, seen.as_ref())?;
        Ok(seen.map(|seen| seen.record))
    }

    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        self.silence.request(Request::Read, || self.register.read())
    }

    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> Result<WriteReply, NoAnswer> {
        let write = || self.register.write(after, value, id);
        self.silence.request(Request::Write, write)
    }

    /// Whether to stop waiting for an answer.
    fn gives_up(&self, patience: &mut Backoff) -> bool {
        patience.is_over() || self.silence.ends_waits() || self.is_shut_down()
    }

    /// Whether the register has been silent for a while and was shut down on purpose.
    fn is_shut_down(&self) -> bool {
        self.silence.is_silent() && self.register.is_shut_down()
    }

    /// Returns the error of a wait that was given up.
    fn timeout_error(&self, no: NoAnswer) -> JoinError {
        match self.silence.ends_waits() {
            true => JoinError::Interrupted { what: no.0 },
            false if self.is_shut_down() => JoinError::Stopped,
            false => JoinError::unreachable(self.timeout, no),
        }
    }

    /// Returns how many settlements of this trainer have begun and how many are applied.
    pub(crate) fn settlements(&self) -> SettlementCounts {
        let [begun, applied] = &self.settlements;
        // `applied` is read first, so that it never exceeds `begun`.
        let applied = applied.load(Ordering::SeqCst);
        let begun = begun.load(Ordering::SeqCst);
        SettlementCounts { begun, applied }
    }

    /// Records that a settlement begins. Parameter updates from now on belong to the next settlement.
    pub(crate) fn begin_settlement(&self) {
        self.settlements[0].fetch_add(1, Ordering::SeqCst);
    }

    /// Records that the settlement is applied.
    pub(crate) fn end_settlement(&self) {
        self.settlements[1].fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of transactions that were refused since the last call.
    pub(crate) fn take_refusals(&self) -> u64 {
        self.refusals.swap(0, Ordering::Relaxed)
    }

    /// Returns the trainer's token.
    pub(crate) fn token(&self) -> Token {
        self.token
    }

    /// Returns the record as last seen, or `None` before the first read.
    pub(crate) fn last_record(&self) -> Option<Arc<LedgerRecord>> {
        self.known.seen().map(|seen| seen.record)
    }

    /// Returns the partition of `group` in the record as last seen. While this trainer holds the partition, this is the
    /// newest state.
    pub(crate) fn partition(&self, group: SidePartition) -> PartitionVersion {
        let seen = self.last_record();
        let partition = seen.as_ref().and_then(|record| record.partition(group));
        partition.cloned().unwrap_or_default()
    }

    /// Records that the copy of `group` in memory was loaded from the version that `stamp` identifies.
    pub(crate) fn set_stamp(&self, group: SidePartition, stamp: CopyVersion) {
        self.known.loaded(group, stamp);
    }

    /// Returns the stamp of the copy of `group` in memory, which is in its initial state if nothing was loaded.
    pub(crate) fn stamp(&self, group: SidePartition) -> CopyVersion {
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
    /// record or one with other terms.
    pub(crate) fn refresh(&self) -> Result<Option<Arc<LedgerRecord>>, JoinError> {
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
    pub(crate) fn create(
        &self,
        judged: Option<&LedgerRecord>,
        record: &LedgerRecord,
    ) -> Result<bool, JoinError> {
        let _alone = self.numbers.take();
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
    pub(crate) fn evict(&self, silent: SilentTrainer) -> Result<bool, JoinError> {
        self.carry_out(&OperatorCommand::EvictSilent(silent))
    }

    /// Removes a partition server from the run. Returns whether it was this trainer that did.
    ///
    /// # Errors
    /// When the register does not answer.
    pub(crate) fn remove_server(&self, server: Token) -> Result<bool, JoinError> {
        self.carry_out(&OperatorCommand::RemoveServer(server))
    }

    /// Carries out a command, unless the record shows that it has no effect. Returns `false` if it must not be carried
    /// out.
    fn carry_out(&self, command: &OperatorCommand) -> Result<bool, JoinError> {
        let _alone = self.numbers.take();
        let done = self.command_patiently(command);
        self.silence.forget_writes();
        done
    }

    fn command_patiently(&self, command: &OperatorCommand) -> Result<bool, JoinError> {
        let (mut patience, mut is_sent) = (Backoff::new(self.timeout), false);
        let mut was_accepted = false;
        loop {
            let before = self.known.before();
            let read = self.newest(before).and_then(|seen| {
                self.takes_part(before, seen.as_ref())?;
                Ok(seen)
            });
            let seen = match read {
                // The command was carried out. Others will see what else has happened.
                Err(_) if was_accepted => return Ok(true),
                read => read?,
            };
            let Some(VersionedRecord { revision, record }) = seen else {
                return Ok(true);
            };
            let next = match record.apply_command(command.clone()) {
                Ok(next) => next,
                Err(TransactionError::Alive { .. }) => return Ok(false),
                Err(TransactionError::NoServer { .. }) => return Ok(is_sent),
                Err(_) => break,
            };
            // Commands of a trainer are carried out one after another.
            let id = format!(
                "{}-commands-{}",
                self.token,
                self.commands.fetch_add(1, Ordering::Relaxed)
            );
            is_sent = true;
            let no = match self.write(Some(revision), &encode(&next)?, &id) {
                // Read the record again, so that the new one becomes known.
                Ok(WriteReply::Accepted(_)) if !was_accepted => {
                    was_accepted = true;
                    continue;
                }
                Ok(WriteReply::Accepted(_)) => {
                    NoAnswer("the register accepts writes, but does not keep them".to_owned())
                }
                Ok(WriteReply::Refused) => NoAnswer("the register refuses every write".to_owned()),
                Err(no) => no,
            };
            if self.gives_up(&mut patience) {
                return Err(self.timeout_error(no));
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
    pub(crate) fn submit(&self, action: LedgerAction) -> Result<Arc<LedgerRecord>, NotApplied> {
        self.transact(action, &[], &|| true)
    }

    /// Applies a transaction like [`LedgerClient::submit`], and abandons it when `wanted` returns `false`.
    ///
    /// # Errors
    /// As [`LedgerClient::submit`].
    pub(crate) fn submit_while(
        &self,
        action: LedgerAction,
        wanted: &dyn Fn() -> bool,
    ) -> Result<Arc<LedgerRecord>, NotApplied> {
        self.transact(action, &[], wanted)
    }

    /// Settles trained buckets. Afterwards, the copies of their partitions in memory have the stamps of this
    /// settlement, even if other trainers have settled the same partitions before the answer was read.
    ///
    /// # Errors
    /// As [`LedgerClient::submit`].
    pub(crate) fn settle(&self, settlement: Settlement) -> Result<Arc<LedgerRecord>, NotApplied> {
        let partitions = settlement.partitions.iter();
        let stamps: Vec<_> = partitions
            .map(|settled| (settled.group, settled.stamp()))
            .collect();
        let action = LedgerAction::Settle(Box::new(settlement));
        self.known.settling(&stamps);
        let settled = self.transact(action, &stamps, &|| true);
        self.known.settling(&[]);
        settled
    }

    /// Checks that this trainer is still part of the run, if it was when the read began.
    fn takes_part(
        &self,
        before: ReadStart,
        seen: Option<&VersionedRecord>,
    ) -> Result<(), JoinError> {
        if before.after == 0 {
            return Ok(());
        }
        let seen = seen.ok_or(JoinError::NoRecord)?;
        match seen.record.trainers().get(&self.token).map(|t| t.last) {
            None => Err(fenced(self.token)),
            Some(last) if last < before.after => Err(set_back(self.token, last, before.after)),
            Some(_) => Ok(()),
        }
    }

    /// Reads the newest record; `None` if there is none or it is damaged.
    fn newest(&self, before: ReadStart) -> Result<Option<VersionedRecord>, JoinError> {
        let seen = self.decode_own(before, self.entry()?.as_ref())?;
        self.known.read(before, seen.as_ref());
        Ok(seen)
    }

    /// Decodes an entry, like [`decode`]. Refuses a record with other terms than those that this trainer has joined with,
    /// before any thread uses it: the trainer has no edges or partitions for the buckets of such a record.
    fn decode_own(
        &self,
        before: ReadStart,
        entry: Option<&RegisterEntry>,
    ) -> Result<Option<VersionedRecord>, JoinError> {
        let seen = decode(entry)?;
        let (Some(VersionedRecord { record, .. }), Some(terms)) = (&seen, &*lock(&self.terms))
        else {
            return Ok(seen);
        };
        let is_part = record.trainers().contains_key(&self.token);
        match record.terms().compare(terms) {
            Err(difference) if is_part => Err(JoinError::OtherTerms(Box::new(difference))),
            // The run was replaced by another one.
            Err(_) if before.after > 0 => Err(fenced(self.token)),
            // A trainer that has not joined yet is refused by the record.
            Err(_) | Ok(()) => Ok(seen),
        }
    }

    /// Reads the register's entry, with retries.
    fn entry(&self) -> Result<Option<RegisterEntry>, JoinError> {
        let mut patience = Backoff::new(self.timeout);
        loop {
            match self.read() {
                Ok(entry) => return Ok(entry),
                Err(no) if self.gives_up(&mut patience) => return Err(self.timeout_error(no)),
                Err(_) => self.silence.pause(patience.next_wait()),
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
