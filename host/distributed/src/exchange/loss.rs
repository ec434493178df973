//! Exchange of the loss's own parameters, if its `update` changes them. They have one owner, like a block of rows.
//!
//! Each trainer sums over the batches that it trains, and sends the number of batches, the number of edges and the loss
//! to the owner. The owner calls the loss's `update` with the sums of all trainers in its own rounds: at most once a
//! round, no matter how many batches were received. It answers with the state of the loss, which every trainer adopts.
//! Changed parameters apply to batches that start afterwards.
//!
//! Guarantees: every batch counts exactly once as long as no owner is lost, even if trainers join and leave. Batches
//! that a lost trainer had sent stay counted, since an update may have used them; its unsettled buckets count again
//! when they are trained again. If the owner is lost, the newest state that any trainer has seen becomes the state.
//! Batches of different trainers count in the order in which their messages arrive, so runs of several trainers are not
//! exactly reproducible.

use std::collections::BTreeMap;

use pbg_core::lock::lock;
use pbg_core::loss::{LossState, ObservedBatches};
use pbg_core::strategy::{FaultCause, Loss as _};
use pbg_ledger::Token;

use super::encoding::{Decoder, Encoder};
use super::message::{CountedMessages, PeerReply, PeerRequest};
use super::rounds::{ExchangeRounds, Round};
use super::state::{ShardCopy, version_after_loss};

/// The owner's state of the loss.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LossShard {
    pub(super) version: u64,
    /// State after the last update.
    state: LossState,
    /// Sums over batches that were received since.
    pending: ObservedBatches,
    /// Number of the last message of each trainer.
    counted: CountedMessages,
}

/// A trainer's state as a sender of observed batches to the loss's owner.
#[derive(Default)]
pub(super) struct LossSender {
    /// Number of the last message.
    sent: u64,
    /// Contents of a message that was not answered.
    unanswered: Option<ObservedBatches>,
    /// Sums of messages that were refused, to be sent with the next message.
    refused: ObservedBatches,
}

impl LossShard {
    /// Starts from the newest known copy after the owner was lost, or at the start of the run.
    pub(super) fn anew(copied: ShardCopy<LossState>) -> Self {
        Self {
            version: version_after_loss(copied.version),
            state: copied.what,
            pending: ObservedBatches::default(),
            counted: copied.counted,
        }
    }

    /// Counts a message unless it was counted before, and returns the current state.
    pub(super) fn exchange(
        &mut self,
        from: Token,
        number: u64,
        observed: &ObservedBatches,
        takes_part: impl Fn(&Token) -> bool,
    ) -> PeerReply {
        self.counted.retain(|token, _| takes_part(token));
        let last = self.counted.entry(from).or_default();
        if number > *last {
            *last = number;
            self.pending.add(observed);
        }
        PeerReply::Loss {
            version: self.version,
            counted: self.counted.clone(),
            state: self.state.clone(),
            is_whole: self.pending.is_empty(),
        }
    }

    /// Returns the state, and the sums to be counted with it. If counting fails, [`LossShard::give_back`] restores them.
    pub(super) fn begin_count(&mut self) -> Option<(LossState, ObservedBatches)> {
        match self.pending.is_empty() {
            true => None,
            false => Some((self.state.clone(), std::mem::take(&mut self.pending))),
        }
    }

    /// Records the state after counting.
    pub(super) fn end_count(&mut self, state: LossState) {
        self.version += 1;
        self.state = state;
    }

    /// Restores the sums of a count that was interrupted, to be counted later.
    pub(super) fn give_back(&mut self, observed: &ObservedBatches) {
        self.pending.add(observed);
    }

    pub(super) fn state(&self) -> &LossState {
        &self.state
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut to = Encoder::default();
        to.long(self.version);
        to.counted(&self.counted);
        to.observed(&self.pending);
        to.loss(&self.state);
        to.0
    }

    pub(super) fn decode(bytes: &[u8], parameters: usize) -> Option<Self> {
        let mut reader = Decoder(bytes);
        let sums = Self {
            version: reader.long()?.checked_add(1)?,
            counted: reader.counted()?,
            pending: reader.observed()?,
            state: reader.loss(parameters)?,
        };
        reader.0.is_empty().then_some(sums)
    }
}

impl ExchangeRounds {
    /// Sends the sums since the last message, and adopts the owner's state of the loss. Returns whether the owner has
    /// counted everything that was observed before.
    pub(super) fn exchange_loss(
        &self,
        owner: Token,
        known: &mut LossSender,
        turn: &mut Round,
    ) -> bool {
        let (Some(loss), Some(index)) = (&self.loss, self.shared.loss_index()) else {
            return true;
        };
        let earlier = known.unanswered.take();
        let is_repeated = earlier.is_some();
        let observed = earlier.unwrap_or_else(|| {
            known.sent += 1;
            let mut observed = std::mem::take(&mut known.refused);
            observed.add(&loss.take_observed());
            observed
        });
        let number = known.sent;
        let question = PeerRequest::Loss {
            block: index as u32,
            number,
            observed,
        };
        match self.ask(owner, question, self.shared.kind(index), turn) {
            Some(PeerReply::Loss {
                version,
                counted,
                state,
                is_whole,
            }) => {
                self.shared.see_loss(version, counted, &state);
                // A state that does not fit is of another model, which the ledger would have refused.
                let _fits = loss.restore(&state);
                is_whole && !is_repeated
            }
            Some(_) => {
                turn.is_stale = true;
                match is_repeated {
                    true => known.unanswered = Some(observed),
                    false => known.refused = observed,
                }
                false
            }
            None => {
                known.unanswered = Some(observed);
                false
            }
        }
    }

    /// At the owner, counts the received batches, and updates the loss's parameters if `update_every` batches have
    /// passed.
    pub(super) fn count_loss(&self) {
        let (Some(loss), Some(index)) = (&self.loss, self.shared.loss_index()) else {
            return;
        };
        let places = &self.shared.places;
        let begun = places.with_loss(index, LossShard::begin_count).flatten();
        let Some((state, observed)) = begun else {
            return;
        };
        let counted = match loss.restore(&state) {
            Ok(()) => loss.update_shared(&observed),
            // A state that does not fit is of another model, which the ledger would have refused.
            Err(_) => return,
        };
        if let Err(fault) = counted {
            places.with_loss(index, |sums| sums.give_back(&observed));
            if fault.cause != FaultCause::Interruption {
                lock(&self.fault).get_or_insert(fault);
            }
            return;
        }
        if let Some(state) = loss.state() {
            places.with_loss(index, |sums| sums.end_count(state));
        }
    }
}

/// Returns the copy that a run starts with, before any message was counted.
pub(super) fn initial_copy(state: LossState) -> ShardCopy<LossState> {
    ShardCopy {
        version: 0,
        counted: BTreeMap::new(),
        what: state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(batches: u64) -> ObservedBatches {
        ObservedBatches {
            batches,
            edges: 10 * batches,
            loss: batches as f64,
        }
    }

    #[test]
    fn every_message_counts_once_whoever_owns_the_loss_then() {
        let state = LossState {
            parameters: vec![0.5, 1.0],
            ..LossState::default()
        };
        let mut sums = LossShard::anew(initial_copy(state.clone()));
        let all = |_: &Token| true;
        sums.exchange(Token(1), 1, &observed(3), all);
        sums.exchange(Token(1), 1, &observed(3), all);
        sums.exchange(Token(2), 5, &observed(4), all);
        let mut next = LossShard::decode(&sums.encode(), 2).unwrap();
        assert!(next.version > sums.version);
        next.exchange(Token(2), 5, &observed(4), all);
        assert_eq!(next.begin_count(), Some((state.clone(), observed(7))));
        assert_eq!(next.begin_count(), None);
        next.give_back(&observed(7));
        assert_eq!(next.begin_count(), Some((state, observed(7))));
        assert_eq!(LossShard::decode(&sums.encode(), 3), None);
        assert_eq!(LossShard::decode(&sums.encode()[1..], 2), None);
    }
}
