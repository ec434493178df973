//! Change of owners when trainers join, leave or are lost.
//!
//! A trainer that holds a block and no longer owns it stops counting. A trainer that owns a block by the newest record
//! but does not hold it asks all others, and continues from the newest state that any of them has: that of the previous
//! owner, with everything counted so far, or if that one is lost, the newest copy. It can be certain that no other
//! trainer holds the block: each of them has answered so while this one sought the block and thereby kept it from
//! seeking it as well, and after all have answered, the record shows no trainer that was not asked.
//!
//! A trainer that leaves stops counting, and waits until the next owners have answered before it submits to the ledger
//! that it leaves.

use std::collections::BTreeMap;

use pbg_ledger::{LedgerRecord, Token};

use super::blocks::Owners;
use super::locations::Location;
use super::message::{MOST_BLOCKS, PeerReply, PeerRequest};
use super::owner::MOST_UNSETTLED;
use super::rounds::{ExchangeRounds, Round};
use super::shard::ShardKind;
use super::shared::ExchangeShared;
use super::state::ShardState;

/// Number of trainers that have left the run while their additions may still be part of a state.
const LEFT: usize = 8;

impl ExchangeRounds {
    /// Stops counting blocks that this trainer does not own, and takes over those that it owns and does not hold.
    pub(super) fn move_blocks(&self, record: &LedgerRecord, owners: &Owners, turn: &mut Round) {
        let ExchangeShared { places, ledger, .. } = &*self.shared;
        let mut wanted = Vec::new();
        for index in 0..self.shared.count_all() {
            let is_mine = owners.of(index) == Some(ledger.token());
            match (places.location(index), is_mine) {
                (Location::Elsewhere, true) if wanted.len() < MOST_BLOCKS => wanted.push(index),
                (Location::Elsewhere, false) => {
                    places.drop_older(index, self.shared.version_seen(index));
                }
                (Location::Held, false) => places.stop(index),
                _ => {}
            }
        }
        if !wanted.is_empty() {
            self.take_over(record, wanted, turn);
        }
    }

    /// Takes over those of `wanted` that certainly no other trainer holds.
    fn take_over(&self, record: &LedgerRecord, mut wanted: Vec<usize>, turn: &mut Round) {
        let ExchangeShared { places, ledger, .. } = &*self.shared;
        wanted.retain(|index| places.seek(*index));
        let newest = self.newest_versions(record, &wanted, turn);
        let most = most_pieces(record.trainers().len());
        let mut states: BTreeMap<usize, ShardState> = newest
            .into_iter()
            .filter_map(|(block, (_, whom))| {
                let index = block as usize;
                Some((index, self.fetch(index, whom, most, turn)?))
            })
            .collect();
        // A trainer that has joined meanwhile was not asked.
        let now = match self.is_cut_short(turn) {
            true => None,
            false => ledger.try_refresh().ok().flatten(),
        };
        if !now.is_some_and(|now| now.trainers().keys().eq(record.trainers().keys())) {
            states.clear();
        }
        for index in wanted {
            places.end_seeking(index, states.remove(&index));
        }
    }

    /// Returns the blocks that no other trainer holds, each with its newest version and the trainer that has it. Empty
    /// if a trainer does not answer.
    fn newest_versions(
        &self,
        record: &LedgerRecord,
        sought: &[usize],
        turn: &mut Round,
    ) -> BTreeMap<u32, (u64, Token)> {
        let me = self.shared.ledger.token();
        let own = |index: &usize| (*index as u32, (self.shared.newest_version(*index), me));
        let mut newest: BTreeMap<_, _> = sought.iter().map(own).collect();
        for &other in record.trainers().keys().filter(|token| **token != me) {
            let question = PeerRequest::WhichHeld(newest.keys().copied().collect());
            let Some(PeerReply::NotHeld(theirs)) =
                self.ask(other, question, ShardKind::NO_ROWS, turn)
            else {
                turn.is_stale = true;
                return BTreeMap::new();
            };
            let theirs: BTreeMap<u32, u64> = theirs.into_iter().collect();
            newest.retain(|block, _| theirs.contains_key(block));
            for (block, newest) in &mut newest {
                if theirs[block] > newest.0 {
                    *newest = (theirs[block], other);
                }
            }
        }
        newest
    }

    /// Fetches the newest state or copy of a block that trainer `whom` has, which may be this one. It has at most `most`
    /// pieces.
    fn fetch(&self, index: usize, whom: Token, most: u32, turn: &mut Round) -> Option<ShardState> {
        let (mut bytes, mut version, mut pieces) = (Vec::new(), None, 1);
        let mut next = 0;
        while next < pieces {
            let question = PeerRequest::State {
                block: index as u32,
                piece: next,
            };
            let Some(PeerReply::State(piece)) = self.ask(whom, question, ShardKind::NO_ROWS, turn)
            else {
                return None;
            };
            if *version.get_or_insert(piece.version) != piece.version || piece.pieces > most {
                return None;
            }
            bytes.extend(piece.bytes);
            (pieces, next) = (piece.pieces, next + 1);
        }
        ShardState::decode(&bytes, self.shared.kind(index))
    }
}

/// Returns the largest number of pieces of a state in a run of `trainers`: the sum, and the unsettled additions of every
/// trainer, none of which is larger than a piece and the numbers in front of it.
fn most_pieces(trainers: usize) -> u32 {
    let parts = 1 + MOST_UNSETTLED * (trainers + LEFT);
    u32::try_from(2 * parts).unwrap_or(u32::MAX)
}
