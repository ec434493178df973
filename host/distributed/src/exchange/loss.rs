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

use pbg_core::lock::lock;
use pbg_core::strategy::{FaultCause, Loss as _};
use pbg_ledger::Token;

use super::loss_shard::LossShard;
use super::message::{PeerReply, PeerRequest};
use super::rounds::{ExchangeRounds, LossSender, Round};

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
