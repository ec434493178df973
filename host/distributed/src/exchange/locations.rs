//! Location of each block. At most one trainer counts messages about a block.
//!
//! From the view of one trainer, a block is counted here (*held*), is being transferred from here to its next owner, is
//! sought, or is elsewhere. During a transfer, no messages are counted for the block, and its state is kept here until
//! the next owner has it. So each message is either in the transferred state, or was refused and is sent again. If the
//! next owner is lost while it is unknown whether it has the state, the state is dropped here: the next owner may have
//! counted messages since, and other trainers have newer copies.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pbg_ledger::Token;

use super::loss::LossShard;
use super::message::{PeerReply, Piece};
use super::owner::ExchangeRequest;
use super::state::{ShardKind, ShardState};

/// Size in bytes of a piece of a state.
const PIECE_BYTES: usize = 512 << 10;
/// Largest number of pieces of a state: the sum, and the unsettled additions of every trainer.
const MOST_PIECES: u32 = 1 << 10;

/// Location of a block, with its state if it is here.
enum Location {
    /// Another trainer holds it, or nobody does yet.
    Elsewhere,
    /// This trainer is asking the others whether one of them holds it.
    Sought,
    /// It is counted here.
    Held(ShardState),
    /// It is being transferred to `to`.
    InTransfer {
        state: ShardState,
        to: Token,
        /// Whether `to` may have it: the last piece was sent, and was not answered.
        in_doubt: bool,
    },
}

/// Location of a block, without its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LocationKind {
    Elsewhere,
    Sought,
    Held,
    OnItsWay,
}

struct Slot {
    place: Location,
    /// Version of the last state that was accepted, so that none is accepted twice.
    taken: u64,
    /// Newest record revision for which this trainer has said that the block is not here. Transfers that follow from an
    /// older revision are refused.
    lacked_at: u64,
    arriving: Option<IncomingState>,
}

/// A state whose pieces are being received.
struct IncomingState {
    from: Token,
    version: u64,
    next: u32,
    bytes: Vec<u8>,
}

/// A state to be transferred.
pub(super) struct OutgoingState {
    /// Receiver. If an earlier transfer is in doubt, this is the trainer that may have the state already.
    pub(super) to: Token,
    pub(super) pieces: Vec<Piece>,
}

/// Locations of all blocks.
pub(super) struct BlockLocations {
    slots: Vec<Mutex<Slot>>,
}

impl BlockLocations {
    pub(super) fn new(blocks: usize) -> Self {
        let slot = || Slot {
            place: Location::Elsewhere,
            taken: 0,
            lacked_at: 0,
            arriving: None,
        };
        Self {
            slots: (0..blocks).map(|_| Mutex::new(slot())).collect(),
        }
    }

    pub(super) fn standing(&self, index: usize) -> LocationKind {
        match self.lock(index).place {
            Location::Elsewhere => LocationKind::Elsewhere,
            Location::Sought => LocationKind::Sought,
            Location::Held(_) => LocationKind::Held,
            Location::InTransfer { .. } => LocationKind::OnItsWay,
        }
    }

    /// Counts a message. Returns `None` if the block is not held.
    pub(super) fn exchange(
        &self,
        index: usize,
        message: &ExchangeRequest,
        takes_part: impl Fn(&Token) -> bool,
    ) -> Option<PeerReply> {
        match &mut self.lock(index).place {
            Location::Held(ShardState::Rows(sums)) => Some(sums.exchange(message, takes_part)),
            _ => None,
        }
    }

    /// Calls `act` with the state of the loss. Returns `None` if it is not held.
    pub(super) fn with_loss<T>(
        &self,
        index: usize,
        act: impl FnOnce(&mut LossShard) -> T,
    ) -> Option<T> {
        match &mut self.lock(index).place {
            Location::Held(ShardState::Loss(sums)) => Some(act(sums)),
            _ => None,
        }
    }

    /// Whether a block is neither held, sought nor being transferred. The sender of the question owns it by revision
    /// `at` of the record. If the block is lacking, it is not accepted any more by an older revision. Pieces that were
    /// received do not matter, because the revision is checked again with the last one.
    pub(super) fn lacks(&self, index: usize, at: u64) -> bool {
        let mut slot = self.lock(index);
        let lacks = matches!(slot.place, Location::Elsewhere);
        if lacks {
            slot.lacked_at = slot.lacked_at.max(at);
        }
        lacks
    }

    /// Begins to seek a block. Returns `false` if it is not elsewhere.
    pub(super) fn seek(&self, index: usize) -> bool {
        let mut slot = self.lock(index);
        let is_elsewhere = matches!(slot.place, Location::Elsewhere);
        if is_elsewhere {
            slot.place = Location::Sought;
        }
        is_elsewhere
    }

    /// Ends seeking a block. With a `state`, no trainer holds the block, and it is held here from now on; otherwise it
    /// is elsewhere.
    pub(super) fn end_seeking(&self, index: usize, state: Option<ShardState>) {
        let mut slot = self.lock(index);
        // Another trainer may have passed the block on meanwhile.
        if matches!(slot.place, Location::Sought) {
            slot.place = state.map_or(Location::Elsewhere, Location::Held);
        }
    }

    /// Begins or repeats the transfer of a block to `to`, and returns the pieces to send, or `None` if there is nothing
    /// to transfer. `takes_part` returns whether a trainer is part of the run.
    pub(super) fn begin_transfer(
        &self,
        index: usize,
        to: Token,
        takes_part: impl Fn(&Token) -> bool,
    ) -> Option<OutgoingState> {
        let mut slot = self.lock(index);
        let place = std::mem::replace(&mut slot.place, Location::Elsewhere);
        let (state, to, in_doubt) = match place {
            Location::InTransfer {
                in_doubt: true, to, ..
            } if !takes_part(&to) => return None,
            Location::InTransfer {
                in_doubt: true,
                to: earlier,
                state,
            } => (state, earlier, true),
            Location::InTransfer { state, .. } | Location::Held(state) => (state, to, false),
            other => {
                slot.place = other;
                return None;
            }
        };
        let pieces = pieces(&state);
        slot.place = Location::InTransfer {
            state,
            to,
            in_doubt,
        };
        Some(OutgoingState { to, pieces })
    }

    /// Records that the last piece of a block is about to be sent.
    pub(super) fn last_piece_leaves(&self, index: usize) {
        if let Location::InTransfer { in_doubt, .. } = &mut self.lock(index).place {
            *in_doubt = true;
        }
    }

    /// Records that the next owner has the block.
    pub(super) fn end_transfer(&self, index: usize) {
        let mut slot = self.lock(index);
        if matches!(slot.place, Location::InTransfer { .. }) {
            slot.place = Location::Elsewhere;
        }
    }

    /// Ends a transfer that was refused: the block is held here again.
    pub(super) fn cancel_transfer(&self, index: usize) {
        let mut slot = self.lock(index);
        slot.place = match std::mem::replace(&mut slot.place, Location::Elsewhere) {
            Location::InTransfer { state, .. } => Location::Held(state),
            other => other,
        };
    }

    /// Whether an offered state was accepted before, or the block is held.
    pub(super) fn has_taken(&self, index: usize, version: u64) -> bool {
        let slot = self.lock(index);
        slot.taken >= version || matches!(slot.place, Location::Held(_))
    }

    /// Receives a piece of a block's state. With the last piece, the block is held, if `is_mine` according to the
    /// record of `revision`, and if this trainer has not promised the block to an owner of a newer revision.
    pub(super) fn take(
        &self,
        index: usize,
        from: Token,
        piece: Piece,
        kind: ShardKind,
        (revision, is_mine): (u64, &dyn Fn() -> bool),
    ) -> PeerReply {
        let slot = &mut *self.lock(index);
        let Piece {
            version,
            piece,
            pieces,
            bytes,
        } = piece;
        if slot.taken >= version {
            return PeerReply::Accepted;
        }
        if piece == 0 && pieces <= MOST_PIECES {
            slot.arriving = Some(IncomingState {
                from,
                version,
                next: 0,
                bytes: Vec::new(),
            });
        }
        let Some(arriving) = &mut slot.arriving else {
            return PeerReply::NotReady;
        };
        let is_next = (arriving.from, arriving.version, arriving.next) == (from, version, piece);
        if !is_next || bytes.len() > PIECE_BYTES {
            slot.arriving = None;
            return PeerReply::NotReady;
        }
        arriving.bytes.extend(bytes);
        arriving.next += 1;
        if arriving.next < pieces {
            return PeerReply::NextPiece;
        }
        let state = ShardState::decode(&arriving.bytes, kind);
        slot.arriving = None;
        if revision < slot.lacked_at {
            return PeerReply::NotReady;
        }
        match (state, &slot.place) {
            (Some(state), Location::Elsewhere | Location::Sought) if is_mine() => {
                slot.taken = version;
                slot.place = Location::Held(state);
                PeerReply::Accepted
            }
            _ => PeerReply::NotMine,
        }
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Slot> {
        self.slots[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn pieces(state: &ShardState) -> Vec<Piece> {
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
