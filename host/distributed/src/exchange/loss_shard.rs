//! The owner's state of the loss: its parameters, the messages counted in it, and the batches to be counted next.

use pbg_core::loss::{LossState, ObservedBatches};
use pbg_ledger::Token;

use super::encoding::{Decoder, Encoder};
use super::message::PeerReply;
use super::shard::{CountedMessages, ShardCopy, version_after_loss};

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
            version: reader.number()? + 1,
            counted: reader.counted()?,
            pending: reader.observed()?,
            state: reader.loss(parameters)?,
        };
        reader.0.is_empty().then_some(sums)
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
        let mut sums = LossShard::anew(ShardCopy::initial(state.clone()));
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
