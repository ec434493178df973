//! Where each block is counted: at one trainer at most.
//!
//! A block is counted here (*held*), on its way from here to its next owner, looked for, or elsewhere. One that is on its
//! way is not counted any more, and stays here until its next owner has it: so a message is in the state that the next
//! owner gets, or it was refused and is sent again. A next owner that is lost while nobody knows whether it has the state
//! takes the state along: it may have counted since, and others have newer copies of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pbg_core::ledger::Token;

use super::loss::LossSums;
use super::message::{Piece, Reply};
use super::owner::Message;
use super::state::{ShardKind, State};

/// Bytes of a piece of a state.
const PIECE_BYTES: usize = 512 << 10;
/// Most pieces of a state: the sum, and what every trainer has not settled.
const MOST_PIECES: u32 = 1 << 10;

/// Where a block is.
enum Place {
    /// Another trainer has it, or nobody yet.
    Elsewhere,
    /// This trainer looks whether anybody has it.
    Sought,
    /// It is counted here.
    Held(State),
    /// It is on its way to `to`.
    OnItsWay {
        state: State,
        to: Token,
        /// Whether `to` may have it: the last piece was sent, and no answer came.
        in_doubt: bool,
    },
}

/// The same without what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Elsewhere,
    Sought,
    Held,
    OnItsWay,
}

struct Slot {
    place: Place,
    /// The version of the last state that was taken: it is not taken twice.
    taken: u64,
    /// The newest revision of the record by which somebody was told that the block is not here: what an older one says of
    /// its owner counts no more.
    lacked_at: u64,
    arriving: Option<Arriving>,
}

/// A state of which pieces have arrived.
struct Arriving {
    from: Token,
    version: u64,
    next: u32,
    bytes: Vec<u8>,
}

/// A state that is given away.
pub(super) struct Parcel {
    /// To whom: the one that may have it already, if there is one.
    pub(super) to: Token,
    pub(super) pieces: Vec<Piece>,
}

/// The places of all blocks.
pub(super) struct Places {
    slots: Vec<Mutex<Slot>>,
}

impl Places {
    pub(super) fn new(blocks: usize) -> Self {
        let slot = || Slot {
            place: Place::Elsewhere,
            taken: 0,
            lacked_at: 0,
            arriving: None,
        };
        Self {
            slots: (0..blocks).map(|_| Mutex::new(slot())).collect(),
        }
    }

    pub(super) fn standing(&self, index: usize) -> Standing {
        match self.lock(index).place {
            Place::Elsewhere => Standing::Elsewhere,
            Place::Sought => Standing::Sought,
            Place::Held(_) => Standing::Held,
            Place::OnItsWay { .. } => Standing::OnItsWay,
        }
    }

    /// Counts a message; none where the block is not held.
    pub(super) fn exchange(
        &self,
        index: usize,
        message: &Message,
        takes_part: impl Fn(&Token) -> bool,
    ) -> Option<Reply> {
        match &mut self.lock(index).place {
            Place::Held(State::Rows(sums)) => Some(sums.exchange(message, takes_part)),
            _ => None,
        }
    }

    /// Does something with what is known of the loss; none where it is not held.
    pub(super) fn with_loss<T>(
        &self,
        index: usize,
        act: impl FnOnce(&mut LossSums) -> T,
    ) -> Option<T> {
        match &mut self.lock(index).place {
            Place::Held(State::Loss(sums)) => Some(act(sums)),
            _ => None,
        }
    }

    /// Whether a block is neither here nor looked for, for one that owns it by the record's revision `at`. If it is not, it is
    /// taken from nobody by an older record. Pieces that have arrived do not count: with the last one that is compared.
    pub(super) fn lacks(&self, index: usize, at: u64) -> bool {
        let mut slot = self.lock(index);
        let lacks = matches!(slot.place, Place::Elsewhere);
        if lacks {
            slot.lacked_at = slot.lacked_at.max(at);
        }
        lacks
    }

    /// Begins to look for a block. Says whether it is one to look for.
    pub(super) fn seek(&self, index: usize) -> bool {
        let mut slot = self.lock(index);
        let is_elsewhere = matches!(slot.place, Place::Elsewhere);
        if is_elsewhere {
            slot.place = Place::Sought;
        }
        is_elsewhere
    }

    /// Ends to look for a block: nobody has it, and it is counted here, from `state` on; with none, it is elsewhere.
    pub(super) fn end_seeking(&self, index: usize, state: Option<State>) {
        let mut slot = self.lock(index);
        // It may have been given meanwhile.
        if matches!(slot.place, Place::Sought) {
            slot.place = state.map_or(Place::Elsewhere, Place::Held);
        }
    }

    /// Takes a block that is held off its place, on its way to `to`. None if there is nothing to give. `takes_part` says
    /// who still does.
    pub(super) fn pack(
        &self,
        index: usize,
        to: Token,
        takes_part: impl Fn(&Token) -> bool,
    ) -> Option<Parcel> {
        let mut slot = self.lock(index);
        let place = std::mem::replace(&mut slot.place, Place::Elsewhere);
        let (state, to, in_doubt) = match place {
            Place::OnItsWay {
                in_doubt: true, to, ..
            } if !takes_part(&to) => return None,
            Place::OnItsWay {
                in_doubt: true,
                to: earlier,
                state,
            } => (state, earlier, true),
            Place::OnItsWay { state, .. } | Place::Held(state) => (state, to, false),
            other => {
                slot.place = other;
                return None;
            }
        };
        let pieces = pieces(&state);
        slot.place = Place::OnItsWay {
            state,
            to,
            in_doubt,
        };
        Some(Parcel { to, pieces })
    }

    /// The last piece of a block on its way is about to be sent.
    pub(super) fn last_piece_leaves(&self, index: usize) {
        if let Place::OnItsWay { in_doubt, .. } = &mut self.lock(index).place {
            *in_doubt = true;
        }
    }

    /// The next owner has a block.
    pub(super) fn arrived(&self, index: usize) {
        let mut slot = self.lock(index);
        if matches!(slot.place, Place::OnItsWay { .. }) {
            slot.place = Place::Elsewhere;
        }
    }

    /// A block on its way was not taken: it is counted here again.
    pub(super) fn came_back(&self, index: usize) {
        let mut slot = self.lock(index);
        slot.place = match std::mem::replace(&mut slot.place, Place::Elsewhere) {
            Place::OnItsWay { state, .. } => Place::Held(state),
            other => other,
        };
    }

    /// Whether a state that is offered is one that arrived before.
    pub(super) fn has_taken(&self, index: usize, version: u64) -> bool {
        let slot = self.lock(index);
        slot.taken >= version || matches!(slot.place, Place::Held(_))
    }

    /// Takes a piece of a block's state; with the last one, the block is held, if it is this trainer's by the record of this
    /// revision, and nobody who owns it by a newer one was told that it is not here.
    pub(super) fn take(
        &self,
        index: usize,
        from: Token,
        piece: Piece,
        kind: ShardKind,
        (revision, is_mine): (u64, &dyn Fn() -> bool),
    ) -> Reply {
        let slot = &mut *self.lock(index);
        let Piece {
            version,
            piece,
            pieces,
            bytes,
        } = piece;
        if slot.taken >= version {
            return Reply::Taken;
        }
        if piece == 0 && pieces <= MOST_PIECES {
            slot.arriving = Some(Arriving {
                from,
                version,
                next: 0,
                bytes: Vec::new(),
            });
        }
        let Some(arriving) = &mut slot.arriving else {
            return Reply::NotReady;
        };
        let is_next = (arriving.from, arriving.version, arriving.next) == (from, version, piece);
        if !is_next || bytes.len() > PIECE_BYTES {
            slot.arriving = None;
            return Reply::NotReady;
        }
        arriving.bytes.extend(bytes);
        arriving.next += 1;
        if arriving.next < pieces {
            return Reply::More;
        }
        let state = State::decode(&arriving.bytes, kind);
        slot.arriving = None;
        if revision < slot.lacked_at {
            return Reply::NotReady;
        }
        match (state, &slot.place) {
            (Some(state), Place::Elsewhere | Place::Sought) if is_mine() => {
                slot.taken = version;
                slot.place = Place::Held(state);
                Reply::Taken
            }
            _ => Reply::NotMine,
        }
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.slots[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn pieces(state: &State) -> Vec<Piece> {
    let bytes = state.encode();
    let pieces = bytes.chunks(PIECE_BYTES).len() as u32;
    let piece = |(piece, bytes): (u32, &[u8])| Piece {
        version: state.version(),
        piece,
        pieces,
        bytes: bytes.to_vec(),
    };
    (0..).zip(bytes.chunks(PIECE_BYTES)).map(piece).collect()
}
