//! Transfer of blocks between owners when trainers join, leave or are lost.
//!
//! A trainer that owns a block by the newest record but does not hold it asks all others. The trainer that holds it
//! passes it on, with its whole state, in one of its own rounds. If no trainer holds it, because the run begins or the
//! previous owner is lost, the new owner starts from the newest copy that any trainer has. It can be certain that no
//! trainer holds it: each trainer that was asked has promised not to accept the block from another trainer as long as
//! the asker owns it, and after all have answered, the record shows no trainer that was not asked.
//!
//! A trainer that leaves passes on everything before it submits to the ledger that it leaves.

use std::collections::BTreeMap;
use std::time::Instant;

use pbg_ledger::{LedgerRecord, Token};

use super::blocks::{self, Owners};
use super::locations::{LocationKind, OutgoingState};
use super::loss::LossShard;
use super::message::{MOST_BLOCKS, PeerReply, PeerRequest};
use super::owner::BlockSums;
use super::rounds::{ExchangeRounds, Round};
use super::shared::{ExchangeShared, NOTHING};
use super::state::{ShardCopy, ShardState};

/// The newest copy of a block: its version, and the trainer that has it.
type Newest = (u64, Token);

/// Result of offering a block to its next owner.
enum TransferResult {
    /// The next owner holds it.
    Taken,
    /// The receiver refuses it because it is leaving.
    Leaving,
    /// Unknown or refused for now; to be repeated in the next round.
    Later,
}

impl ExchangeRounds {
    /// Asks for blocks that this trainer owns and does not hold, and passes on those that it holds and does not own.
    pub(super) fn move_blocks(&self, record: &LedgerRecord, owners: &Owners, turn: &mut Round) {
        let ExchangeShared { places, ledger, .. } = &*self.shared;
        let mut wanted = Vec::new();
        for index in 0..self.shared.count_all() {
            let is_mine = owners.of(index) == Some(ledger.token());
            match (places.standing(index), is_mine) {
                (LocationKind::Elsewhere, true) if wanted.len() < MOST_BLOCKS => wanted.push(index),
                (LocationKind::Held, false) | (LocationKind::OnItsWay, _) => {
                    self.give(record, index, turn);
                }
                _ => {}
            }
        }
        if !wanted.is_empty() {
            self.seek(record, &wanted, turn);
        }
    }

    /// Whether nothing is left here that another trainer should hold. The last one of several leaving trainers waits
    /// until the others have left.
    pub(super) fn has_given_all(&self) -> bool {
        let ExchangeShared { places, ledger, .. } = &*self.shared;
        let is_here = |index| {
            matches!(
                places.standing(index),
                LocationKind::Held | LocationKind::OnItsWay
            )
        };
        let Some(record) = ledger.last_record() else {
            return true;
        };
        match record.trainers().len() < 2 {
            true => true,
            false if self.shared.possible_owners(&record) == [ledger.token()] => false,
            false => !(0..self.shared.count_all()).any(is_here),
        }
    }

    /// Runs a round that only transfers blocks.
    pub(super) fn give_all(&self, until: Instant) {
        let Some(mut turns) = self.turns.take(Some(until)) else {
            return;
        };
        if let Ok(Some(record)) = self.shared.ledger.try_refresh() {
            let count = self.shared.count_all();
            turns
                .owners
                .update(self.shared.possible_owners(&record), count);
            self.move_blocks(&record, &turns.owners, &mut Round::until(Some(until)));
        }
    }

    /// Passes a block to its owner, with everything counted so far, or not at all.
    fn give(&self, record: &LedgerRecord, index: usize, turn: &mut Round) {
        let ExchangeShared { places, ledger, .. } = &*self.shared;
        let me = ledger.token();
        let takes_part = |token: &Token| record.trainers().contains_key(token);
        // Each iteration learns of one more leaving trainer.
        while let Some(to) = blocks::owner(self.shared.possible_owners(record).iter(), index) {
            if to != me && places.standing(index) == LocationKind::Held && !self.is_there(to, turn)
            {
                // Messages are still counted here until the next owner can be reached.
                return;
            }
            let Some(parcel) = places.begin_transfer(index, to, takes_part) else {
                return;
            };
            if parcel.to == me {
                return places.cancel_transfer(index);
            }
            let was_known = self.shared.leavers().contains(&parcel.to);
            match self.offer(record, index, parcel, turn) {
                TransferResult::Leaving if !was_known => {}
                // The receiver knows of a trainer that stays and is not in this record.
                TransferResult::Leaving => return turn.is_stale = true,
                TransferResult::Taken | TransferResult::Later => return,
            }
        }
        places.cancel_transfer(index);
    }

    fn is_there(&self, whom: Token, turn: &mut Round) -> bool {
        let nothing = PeerRequest::WhichHeld {
            at: 0,
            blocks: Vec::new(),
        };
        matches!(
            self.ask(whom, nothing, NOTHING, turn),
            Some(PeerReply::Lacks(_))
        )
    }

    /// Sends the pieces of a block's state.
    fn offer(
        &self,
        record: &LedgerRecord,
        index: usize,
        parcel: OutgoingState,
        turn: &mut Round,
    ) -> TransferResult {
        let OutgoingState { to, pieces } = parcel;
        let places = &self.shared.places;
        for piece in pieces {
            if piece.piece + 1 == piece.pieces {
                places.last_piece_leaves(index);
            }
            let question = PeerRequest::Transfer {
                block: index as u32,
                at: record.revision(),
                without: self.shared.leavers(),
                piece,
            };
            match self.ask(to, question, NOTHING, turn) {
                Some(PeerReply::NextPiece) => {}
                Some(PeerReply::Accepted) => {
                    places.end_transfer(index);
                    return TransferResult::Taken;
                }
                Some(PeerReply::Leaving) => {
                    places.cancel_transfer(index);
                    return TransferResult::Leaving;
                }
                // The receiver refuses the block only after it has checked that it has not taken it before.
                Some(_) => {
                    turn.is_stale = true;
                    places.cancel_transfer(index);
                    return TransferResult::Later;
                }
                None => return TransferResult::Later,
            }
        }
        TransferResult::Later
    }

    /// Asks for blocks that this trainer owns but has not received, and starts those that no trainer holds from copies.
    fn seek(&self, record: &LedgerRecord, wanted: &[usize], turn: &mut Round) {
        let places = &self.shared.places;
        let mut sought = wanted.to_vec();
        sought.retain(|index| places.seek(*index));
        let lost = self.unheld(record, &sought, turn).unwrap_or_default();
        for index in sought {
            let newest = lost.get(&(index as u32));
            let state = newest.and_then(|newest| self.newest_copy(index, *newest, turn));
            places.end_seeking(index, state);
        }
    }

    /// Returns the blocks that no trainer holds, each with its newest copy, or `None` if this is not certain.
    fn unheld(
        &self,
        record: &LedgerRecord,
        sought: &[usize],
        turn: &mut Round,
    ) -> Option<BTreeMap<u32, Newest>> {
        let ledger = &self.shared.ledger;
        let me = ledger.token();
        let own = |index: &usize| (*index as u32, (self.shared.version_seen(*index), me));
        let mut newest: BTreeMap<u32, Newest> = sought.iter().map(own).collect();
        for &other in record.trainers().keys().filter(|token| **token != me) {
            let question = PeerRequest::WhichHeld {
                at: record.revision(),
                blocks: newest.keys().copied().collect(),
            };
            let Some(PeerReply::Lacks(lacking)) = self.ask(other, question, NOTHING, turn) else {
                turn.is_stale = true;
                return None;
            };
            let lacking: BTreeMap<u32, u64> = lacking.into_iter().collect();
            newest.retain(|block, _| lacking.contains_key(block));
            for (block, newest) in &mut newest {
                let theirs = lacking.get(block).copied().unwrap_or(0);
                if theirs > newest.0 {
                    *newest = (theirs, other);
                }
            }
        }
        // A trainer that has joined meanwhile was not asked.
        let now = ledger.try_refresh().ok().flatten()?;
        now.trainers()
            .keys()
            .eq(record.trainers().keys())
            .then_some(newest)
    }

    fn newest_copy(&self, index: usize, newest: Newest, turn: &mut Round) -> Option<ShardState> {
        let (_, whom) = newest;
        let kind = self.shared.kind(index);
        let question = PeerRequest::Copy(index as u32);
        match self.ask(whom, question, kind, turn)? {
            PeerReply::Sums {
                version,
                counted,
                rows,
            } => {
                let shape = kind.shape();
                let is_whole = rows.len() == shape.rows;
                let values = rows.into_values().flatten().collect();
                is_whole.then(|| {
                    ShardState::Rows(BlockSums::from_copy(values, shape, version, counted))
                })
            }
            PeerReply::Loss {
                version,
                counted,
                state,
                ..
            } => Some(ShardState::Loss(LossShard::anew(ShardCopy {
                version,
                counted,
                what: state,
            }))),
            _ => None,
        }
    }
}
