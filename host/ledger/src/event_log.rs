//! Valid lengths of the trainers' event files.
//!
//! A trainer writes events to its own file before it settles, and the settlement states the length of the file at that
//! moment. So a checkpoint takes over exactly the events up to its own revision, and none twice: events of a bucket
//! that was trained but never settled are not taken over.

use std::collections::BTreeMap;

use super::{CutOrigin, EventLogLength, LedgerRecord, Token};

/// Most trainers with events that no checkpoint has taken over yet.
pub(super) const MAX_EVENT_LOGS: usize = 1024;

impl LedgerRecord {
    /// Returns the valid lengths of event files that the newest checkpoint may not have taken over.
    #[must_use]
    pub const fn event_logs(&self) -> &BTreeMap<Token, EventLogLength> {
        &self.work.told
    }

    /// Sets the valid length of the event file of `token` to `bytes`; 0 if the trainer writes no events.
    pub(super) fn set_event_log(&mut self, token: Token, bytes: u64) {
        let told = &mut self.work.told;
        // Events of further trainers are missing from reports, without any other effect.
        if bytes > 0 && (told.contains_key(&token) || told.len() < MAX_EVENT_LOGS) {
            let revision = self.revision + 1;
            told.insert(token, EventLogLength { bytes, revision });
        }
    }

    /// Removes the lengths that a checkpoint, begun with `begun`, has taken over, except those of trainers that are
    /// still in the run.
    pub(super) fn drop_event_logs(&mut self, begun: CutOrigin) {
        let trainers = &self.trainers;
        let is_later = |told: &EventLogLength| told.revision > begun.revision;
        self.work
            .told
            .retain(|token, told| trainers.contains_key(token) || is_later(told));
    }
}
