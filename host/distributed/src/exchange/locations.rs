//! Location of each block. At most one trainer counts messages about a block.
//!
//! From the view of one trainer, a block is counted here (*held*), is sought, or is elsewhere. A trainer that is no
//! longer the owner stops counting and keeps the state, unchanged, until it has seen a newer version. So each message
//! is either in the state that the next owner fetches, or was refused and is sent again.

use std::sync::{Mutex, MutexGuard};

use pbg_core::lock::lock;
use pbg_ledger::Token;

use super::loss_shard::LossShard;
use super::message::PeerReply;
use super::owner::ExchangeRequest;
use super::state::ShardState;

/// Location of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Location {
    /// Another trainer holds it, or nobody does yet.
    #[default]
    Elsewhere,
    /// This trainer is asking the others whether one of them holds it.
    Sought,
    /// It is counted here.
    Held,
}

#[derive(Default)]
struct Slot {
    place: Location,
    /// The state of a held block. Otherwise the state in which this trainer last held it, unless a newer one is known.
    state: Option<ShardState>,
}

/// Locations of all blocks.
pub(super) struct BlockLocations {
    slots: Vec<Mutex<Slot>>,
}

impl BlockLocations {
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            slots: (0..blocks).map(|_| Mutex::default()).collect(),
        }
    }

    pub(super) fn location(&self, index: usize) -> Location {
        self.lock(index).place
    }

    /// Counts a message. Returns `None` if the block is not held.
    pub(super) fn exchange(
        &self,
        index: usize,
        message: &ExchangeRequest,
        takes_part: impl Fn(&Token) -> bool,
    ) -> Option<PeerReply> {
        match &mut *self.lock(index) {
            Slot {
                place: Location::Held,
                state: Some(ShardState::Rows(sums)),
            } => Some(sums.exchange(message, takes_part)),
            _ => None,
        }
    }

    /// Calls `act` with the state of the loss. Returns `None` if it is not held.
    pub(super) fn with_loss<T>(
        &self,
        index: usize,
        act: impl FnOnce(&mut LossShard) -> T,
    ) -> Option<T> {
        match &mut *self.lock(index) {
            Slot {
                place: Location::Held,
                state: Some(ShardState::Loss(sums)),
            } => Some(act(sums)),
            _ => None,
        }
    }

    /// Begins to seek a block. Returns `false` if it is not elsewhere.
    pub(super) fn seek(&self, index: usize) -> bool {
        let mut slot = self.lock(index);
        let is_elsewhere = slot.place == Location::Elsewhere;
        if is_elsewhere {
            slot.place = Location::Sought;
        }
        is_elsewhere
    }

    /// Ends seeking a block. With a `state`, no other trainer holds the block, and it is held here from now on;
    /// otherwise it is elsewhere.
    pub(super) fn end_seeking(&self, index: usize, state: Option<ShardState>) {
        let mut slot = self.lock(index);
        slot.place = match state {
            Some(state) => {
                slot.state = Some(state);
                Location::Held
            }
            None => Location::Elsewhere,
        };
    }

    /// Stops counting a block. Its state is kept for the next owner.
    pub(super) fn stop(&self, index: usize) {
        let mut slot = self.lock(index);
        slot.place = Location::Elsewhere;
        if let Some(state) = &mut slot.state {
            state.supersede_copies();
        }
    }

    /// Drops the kept state of a block that is not held if it is older than `version`, which another owner has sent.
    pub(super) fn drop_older(&self, index: usize, version: u64) {
        let mut slot = self.lock(index);
        let is_older = |state: &ShardState| state.version() < version;
        if slot.place != Location::Held && slot.state.as_ref().is_some_and(is_older) {
            slot.state = None;
        }
    }

    /// Calls `use_state` with the kept state of a block that is not held, if there is one.
    pub(super) fn with_kept<T>(
        &self,
        index: usize,
        use_state: impl FnOnce(&ShardState) -> T,
    ) -> Option<T> {
        let slot = self.lock(index);
        let kept = slot.state.as_ref();
        kept.filter(|_| slot.place != Location::Held).map(use_state)
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Slot> {
        lock(&self.slots[index])
    }
}
