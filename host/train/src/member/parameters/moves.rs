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

use pbg_core::ledger::{Record, Token};

use super::blocks::{self, Owners};
use super::loss::LossSums;
use super::message::{MOST_BLOCKS, Question, Reply};
use super::owner::Sums;
use super::places::{Parcel, Standing};
use super::rounds::{Exchange, Turn};
use super::shared::{NOTHING, Shared};
use super::state::{Copied, State};

/// The newest copy of a block: its version, and the trainer that has it.
type Newest = (u64, Token);

/// Result of offering a block to its next owner.
enum Offered {
    /// The next owner holds it.
    Taken,
    /// The receiver refuses it because it is leaving.
    Leaving,
    /// Unknown or refused for now; to be repeated in the next round.
    Later,
}

impl Exchange {
    /// Asks for blocks that this trainer owns and does not hold, and passes on those that it holds and does not own.
    pub(super) fn move_blocks(&self, record: &Record, owners: &Owners, turn: &mut Turn) {
        let Shared { places, ledger, .. } = &*self.shared;
        let mut wanted = Vec::new();
        for index in 0..self.shared.count_all() {
            let is_mine = owners.of(index) == Some(ledger.token());
            match (places.standing(index), is_mine) {
                (Standing::Elsewhere, true) if wanted.len() < MOST_BLOCKS => wanted.push(index),
                (Standing::Held, false) | (Standing::OnItsWay, _) => {
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
        let Shared { places, ledger, .. } = &*self.shared;
        let is_here = |index| matches!(places.standing(index), Standing::Held | Standing::OnItsWay);
        let Some(record) = ledger.seen() else {
            return true;
        };
        match record.trainers().len() < 2 {
            true => true,
            false if self.shared.who_stays(&record) == [ledger.token()] => false,
            false => !(0..self.shared.count_all()).any(is_here),
        }
    }

    /// Runs a round that only transfers blocks.
    pub(super) fn give_all(&self, until: Instant) {
        let Some(mut turns) = self.turns.take(Some(until)) else {
            return;
        };
        if let Ok(Some(record)) = self.shared.ledger.look() {
            let count = self.shared.count_all();
            turns.owners.update(self.shared.who_stays(&record), count);
            self.move_blocks(&record, &turns.owners, &mut Turn::until(Some(until)));
        }
    }

    /// Passes a block to its owner, with everything counted so far, or not at all.
    fn give(&self, record: &Record, index: usize, turn: &mut Turn) {
        let Shared { places, ledger, .. } = &*self.shared;
        let me = ledger.token();
        let takes_part = |token: &Token| record.trainers().contains_key(token);
        // Each iteration learns of one more leaving trainer.
        while let Some(to) = blocks::owner(self.shared.who_stays(record).iter(), index) {
            if to != me && places.standing(index) == Standing::Held && !self.is_there(to, turn) {
                // Messages are still counted here until the next owner can be reached.
                return;
            }
            let Some(parcel) = places.pack(index, to, takes_part) else {
                return;
            };
            if parcel.to == me {
                return places.came_back(index);
            }
            let was_known = self.shared.leavers().contains(&parcel.to);
            match self.offer(record, index, parcel, turn) {
                Offered::Leaving if !was_known => {}
                // The receiver knows of a trainer that stays and is not in this record.
                Offered::Leaving => return turn.is_stale = true,
                Offered::Taken | Offered::Later => return,
            }
        }
        places.came_back(index);
    }

    fn is_there(&self, whom: Token, turn: &mut Turn) -> bool {
        let nothing = Question::Have {
            at: 0,
            blocks: Vec::new(),
        };
        matches!(
            self.ask(whom, nothing, NOTHING, turn),
            Some(Reply::Lacks(_))
        )
    }

    /// Sends the pieces of a block's state.
    fn offer(&self, record: &Record, index: usize, parcel: Parcel, turn: &mut Turn) -> Offered {
        let Parcel { to, pieces } = parcel;
        let places = &self.shared.places;
        for piece in pieces {
            if piece.piece + 1 == piece.pieces {
                places.last_piece_leaves(index);
            }
            let question = Question::Give {
                block: index as u32,
                at: record.revision(),
                without: self.shared.leavers(),
                piece,
            };
            match self.ask(to, question, NOTHING, turn) {
                Some(Reply::More) => {}
                Some(Reply::Taken) => {
                    places.arrived(index);
                    return Offered::Taken;
                }
                Some(Reply::Leaving) => {
                    places.came_back(index);
                    return Offered::Leaving;
                }
                // The receiver refuses the block only after it has checked that it has not taken it before.
                Some(_) => {
                    turn.is_stale = true;
                    places.came_back(index);
                    return Offered::Later;
                }
                None => return Offered::Later,
            }
        }
        Offered::Later
    }

    /// Asks for blocks that this trainer owns but has not received, and starts those that no trainer holds from copies.
    fn seek(&self, record: &Record, wanted: &[usize], turn: &mut Turn) {
        let places = &self.shared.places;
        let mut sought = wanted.to_vec();
        sought.retain(|index| places.seek(*index));
        let lost = self.nobodys(record, &sought, turn).unwrap_or_default();
        for index in sought {
            let newest = lost.get(&(index as u32));
            let state = newest.and_then(|newest| self.newest_copy(index, *newest, turn));
            places.end_seeking(index, state);
        }
    }

    /// Returns the blocks that no trainer holds, each with its newest copy, or `None` if this is not certain.
    fn nobodys(
        &self,
        record: &Record,
        sought: &[usize],
        turn: &mut Turn,
    ) -> Option<BTreeMap<u32, Newest>> {
        let ledger = &self.shared.ledger;
        let me = ledger.token();
        let own = |index: &usize| (*index as u32, (self.shared.version_seen(*index), me));
        let mut newest: BTreeMap<u32, Newest> = sought.iter().map(own).collect();
        for &other in record.trainers().keys().filter(|token| **token != me) {
            let question = Question::Have {
                at: record.revision(),
                blocks: newest.keys().copied().collect(),
            };
            let Some(Reply::Lacks(lacking)) = self.ask(other, question, NOTHING, turn) else {
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
        let now = ledger.look().ok().flatten()?;
        now.trainers()
            .keys()
            .eq(record.trainers().keys())
            .then_some(newest)
    }

    fn newest_copy(&self, index: usize, newest: Newest, turn: &mut Turn) -> Option<State> {
        let (_, whom) = newest;
        let kind = self.shared.kind(index);
        let question = Question::Copy(index as u32);
        match self.ask(whom, question, kind, turn)? {
            Reply::Sums {
                version,
                counted,
                rows,
            } => {
                let shape = kind.shape();
                let is_whole = rows.len() == shape.rows;
                let values = rows.into_values().flatten().collect();
                is_whole.then(|| State::Rows(Sums::anew(values, shape, version, counted)))
            }
            Reply::Loss {
                version,
                counted,
                state,
                ..
            } => Some(State::Loss(LossSums::anew(Copied {
                version,
                counted,
                what: state,
            }))),
            _ => None,
        }
    }
}
