//! Readers of what arrives from other trainers, for tests that feed them hostile input (`tests/fuzz`). It is not an
//! interface for programs.

use std::sync::Arc;
use std::time::Duration;

use pbg_checkpoint::SharedCheckpoint;
use pbg_ledger::transport::{LiveTraffic, Register, RegisterEntry};
use pbg_ledger::{LedgerRecord, Token};
use pbg_model::error::{JoinError, RunError};
use pbg_rows::params::Params;
use pbg_rows::table::Table;
use pbg_train::GuardedLoss;

use crate::cluster_trainer::merged_event_logs;
use crate::exchange::{ExchangePeer, SharedArrays, SyncLimits};
use crate::ledger::{self, LedgerClient};

/// Reads a register's value. Returns `None` if it is damaged.
///
/// # Errors
/// When it was written by another version of the program.
pub fn record(value: Vec<u8>) -> Result<Option<Arc<LedgerRecord>>, JoinError> {
    let entry = RegisterEntry { revision: 1, value };
    Ok(ledger::decode(Some(&entry))?.map(|seen| seen.record))
}

/// Encodes a record as a trainer writes it.
///
/// # Errors
/// When the record is invalid.
pub fn encoded(record: &LedgerRecord) -> Result<Vec<u8>, JoinError> {
    ledger::encode(record)
}

/// Merges ranges of the event files of trainers in the order of the ledger's revisions. Returns the lines, and the number of
/// bytes that are missing or unreadable.
///
/// # Errors
/// When a file cannot be read.
pub fn events(
    files: &SharedCheckpoint,
    ranges: &[(Token, u64, u64)],
) -> Result<(Vec<u8>, u64), RunError> {
    merged_event_logs(files, ranges)
}

/// The side of one trainer in the exchange of parameters, without its threads.
pub struct ExchangingTrainer(ExchangePeer);

impl ExchangingTrainer {
    /// Creates the side of the trainer `token`, which is part of the run of `register`.
    ///
    /// # Errors
    /// When the register has no record of this program.
    pub fn new(
        register: Arc<dyn Register>,
        live: Arc<dyn LiveTraffic>,
        token: Token,
        (params, tables): (Arc<Params>, Vec<Arc<Table>>),
        loss: GuardedLoss,
    ) -> Result<Self, JoinError> {
        let patience = Duration::from_secs(1);
        let ledger = LedgerClient::new(register, Arc::clone(&live), token, patience);
        ledger.refresh()?;
        let arrays = SharedArrays::new(params, tables);
        let limits = SyncLimits {
            rounds: 1e6,
            bytes: 1e12,
        };
        Ok(Self(ExchangePeer::new(
            arrays,
            Some(loss),
            &Arc::new(ledger),
            &live,
            limits,
        )))
    }

    /// Answers a question.
    #[must_use]
    pub fn answer(&self, question: &[u8]) -> Vec<u8> {
        self.0.answer(question)
    }

    /// Runs one round, in which it asks the owners.
    pub fn round(&self) {
        self.0.round();
    }
}
