//! Encoding of the record in the register: bytes from the network, checked before use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pbg_ledger::transport::RegisterEntry;
use pbg_ledger::{DamagedRecord, LedgerRecord, PROTOCOL};
use pbg_model::error::JoinError;
use serde::Deserialize;

use super::view::VersionedRecord;

/// First wait before a register that did not answer is asked again. The wait doubles with each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Longest time that one attempt may consume of the patience. Without it, a process that was paused (by a signal, or by
/// a machine that sleeps) would count the pause as waiting.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(10);

/// Remaining time to wait for a register that does not answer, with exponential backoff.
pub(super) struct Backoff {
    left: Duration,
    /// Start, or time of the last call of `is_over`.
    since: Instant,
    wait: Duration,
}

impl Backoff {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            left: patience,
            since: pbg_clock::now(),
            wait: FIRST_WAIT,
        }
    }

    /// Whether the time is used up. Called after each attempt that was not answered.
    pub(super) fn is_over(&mut self) -> bool {
        let waited = pbg_clock::elapsed(self.since).min(LONGEST_ATTEMPT);
        self.since = pbg_clock::now();
        self.left = self.left.saturating_sub(waited);
        self.left.is_zero()
    }

    /// Returns how long to wait before the next attempt.
    pub(super) fn next_wait(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(LONGEST_WAIT);
        wait
    }
}

/// The part of a record that every protocol version has.
#[derive(Deserialize)]
struct Versioned {
    terms: VersionedTerms,
}

#[derive(Deserialize)]
struct VersionedTerms {
    protocol: u32,
}

/// Encodes a record. Refuses an invalid one: its readers would treat the ledger as empty.
///
/// # Errors
/// When the record is invalid, which never happens for a record of this program.
pub(crate) fn encode(record: &LedgerRecord) -> Result<Vec<u8>, JoinError> {
    record.check()?;
    serde_json::to_vec(record).map_err(|e| JoinError::Damaged(DamagedRecord(e.to_string())))
}

/// Decodes the record of an entry. Returns `None` if there is none or it is damaged, which is treated alike.
///
/// # Errors
/// When it was written by another version of the program.
pub(crate) fn decode(entry: Option<&RegisterEntry>) -> Result<Option<VersionedRecord>, JoinError> {
    let Some(RegisterEntry { revision, value }) = entry else {
        return Ok(None);
    };
    if let Ok(Versioned { terms }) = serde_json::from_slice(value)
        && terms.protocol != PROTOCOL
    {
        return Err(JoinError::Protocol {
            found: terms.protocol,
        });
    }
    let record: Option<LedgerRecord> = serde_json::from_slice(value).ok();
    let record = record.filter(|record| record.check().is_ok());
    Ok(record.map(|record| VersionedRecord {
        revision: *revision,
        record: Arc::new(record),
    }))
}
