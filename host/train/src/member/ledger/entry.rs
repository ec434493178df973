//! The record as the register has it: bytes from a network, checked before use.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pbg_core::cluster::Entry;
use pbg_core::ledger::{Damage, PROTOCOL, Record};
use serde::Deserialize;

use super::known::Seen;
use crate::member::error::ClusterError;

/// First wait before a register that did not answer is asked again; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The most of the patience that one attempt uses. A process that stood still (a signal, a machine that sleeps) has
/// not waited for anybody.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(10);

/// How much longer a register that does not answer is waited for, in waits that become longer.
pub(super) struct Patience {
    left: Duration,
    /// When it began, or was asked last.
    since: Instant,
    wait: Duration,
}

impl Patience {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            left: patience,
            since: Instant::now(),
            wait: FIRST_WAIT,
        }
    }

    /// Whether it is used up, after an attempt that brought no answer.
    pub(super) fn is_over(&mut self) -> bool {
        let waited = self.since.elapsed().min(LONGEST_ATTEMPT);
        self.since = Instant::now();
        self.left = self.left.saturating_sub(waited);
        self.left.is_zero()
    }

    /// How long to wait before the next attempt.
    pub(super) fn next_wait(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * 2).min(LONGEST_WAIT);
        wait
    }
}

/// What every version of the record has.
#[derive(Deserialize)]
struct Versioned {
    terms: VersionedTerms,
}

#[derive(Deserialize)]
struct VersionedTerms {
    protocol: u32,
}

/// The bytes of a record. One that nobody could read is not written: who read it would take the ledger for empty.
///
/// # Errors
/// Never for a record of this program.
pub(super) fn encode(record: &Record) -> Result<Vec<u8>, ClusterError> {
    record.check()?;
    serde_json::to_vec(record).map_err(|e| ClusterError::Damaged(Damage(e.to_string())))
}

/// The record of an entry; none if there is none, or a damaged one, which is as good as none.
///
/// # Errors
/// When it is of a program of another version.
pub(super) fn decode(entry: Option<&Entry>) -> Result<Option<Seen>, ClusterError> {
    let Some(Entry { revision, value }) = entry else {
        return Ok(None);
    };
    if let Ok(Versioned { terms }) = serde_json::from_slice(value)
        && terms.protocol != PROTOCOL
    {
        return Err(ClusterError::Protocol {
            found: terms.protocol,
        });
    }
    let record: Option<Record> = serde_json::from_slice(value).ok();
    let record = record.filter(|record| record.check().is_ok());
    Ok(record.map(|record| Seen {
        revision: *revision,
        record: Arc::new(record),
    }))
}
