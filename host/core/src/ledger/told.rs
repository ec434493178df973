//! What trainers have told of what is trained: how far their files of events count.
//!
//! A trainer writes what happened to a file of its own before it settles, and the settlement says how long the file is
//! then. So a checkpoint takes over what was told of its own revision, and nothing twice: a bucket that was trained and
//! never settled is not told of.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Begun, Record, Sums, Token};

/// Most trainers that have told something no checkpoint has taken over yet.
pub(super) const MAX_TOLD: usize = 1024;

/// How far the file of a trainer counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    /// Bytes of it.
    pub bytes: u64,
    /// The revision that last said so.
    pub revision: u64,
}

/// What an epoch gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finished {
    /// The epoch, from 0.
    pub epoch: u32,
    /// Sums over its buckets.
    pub sums: Sums,
}

impl Record {
    /// How far the files of trainers count that the newest checkpoint may not have taken over.
    #[must_use]
    pub const fn told(&self) -> &BTreeMap<Token, Told> {
        &self.work.told
    }

    /// The file of `token` counts up to `bytes`; 0 where it tells nothing.
    pub(super) fn tell(&mut self, token: Token, bytes: u64) {
        let told = &mut self.work.told;
        // What is beyond is lost to reports, and to nothing else.
        if bytes > 0 && (told.contains_key(&token) || told.len() < MAX_TOLD) {
            let revision = self.revision + 1;
            told.insert(token, Told { bytes, revision });
        }
    }

    /// A checkpoint that began so has taken over what was told before.
    pub(super) fn taken_over(&mut self, begun: Begun) {
        let trainers = &self.trainers;
        let is_later = |told: &Told| told.revision > begun.revision;
        self.work
            .told
            .retain(|token, told| trainers.contains_key(token) || is_later(told));
    }
}
