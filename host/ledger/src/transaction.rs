//! Transactions: changes that trainers make to the record, and whether one has been applied.

use pbg_core::graph::Bucket;
use pbg_core::schedule::PassId;
use serde::{Deserialize, Serialize};

use super::{
    BlockTotals, CheckpointCut, Join, LedgerRecord, PartitionServer, RankingId, Settlement,
    SilentTrainer, Token, TransactionError,
};

/// Change of the record that a trainer requests.
///
/// Any number of other transactions may be applied between a trainer's decision and its transaction, because the
/// trainer's process may have been suspended. So an action names what the decision was based on (the pass, the ranking,
/// the newest checkpoint, the last transaction of a silent trainer), and is refused if that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LedgerAction {
    /// Joins the run.
    Join(Box<Join>),
    /// Sets the plan of the pass, which the trainer has checked.
    Open {
        /// The pass.
        pass: PassId,
        /// Digest of the plan.
        plan: u64,
        /// Buckets without edges.
        empty: Vec<Bucket>,
    },
    /// Leases a bucket for training.
    Lease {
        /// The pass that the bucket is trained in.
        pass: PassId,
        /// The bucket.
        bucket: Bucket,
    },
    /// Marks trained buckets as done, names the files that contain them, and leases the next buckets.
    Settle(Box<Settlement>),
    /// Gives buckets back untrained.
    GiveUp {
        /// The pass that they were leased in.
        pass: PassId,
        /// The buckets.
        buckets: Vec<Bucket>,
    },
    /// Removes a silent trainer.
    Revoke(SilentTrainer),
    /// Leaves the run. The trainer's buckets are to do again.
    Leave,
    /// Leaves the run, but is refused for the last trainer if something trained is in no checkpoint.
    LeaveSaved,
    /// Advances to the next pass.
    Advance {
        /// The pass that is done.
        from: PassId,
    },
    /// Begins to rank the validation edges at the end of an epoch.
    BeginRanking {
        /// Number of epochs trained.
        epochs: u32,
        /// Version number of the checkpoint to rank.
        version: u64,
        /// Number of blocks that the edges are divided into.
        blocks: u32,
    },
    /// Leases a block of edges for ranking.
    LeaseBlock {
        /// The ranking that the block belongs to.
        ranking: RankingId,
        /// The block.
        block: u32,
    },
    /// Gives a block back unranked.
    GiveUpBlock {
        /// The ranking that it was leased in.
        ranking: RankingId,
        /// The block.
        block: u32,
    },
    /// Adds the ranks of a block.
    Ranked {
        /// The ranking that it was leased in.
        ranking: RankingId,
        /// The block.
        block: u32,
        /// Sums over its ranks.
        totals: Box<BlockTotals>,
    },
    /// Ends the ranking, when every block is ranked, and applies its result to learning rates and early stopping.
    EndRanking(RankingId),
    /// Begins a checkpoint of this revision.
    Checkpoint {
        /// The pass for which it is written.
        pass: PassId,
        /// The newest manifest, which the new one follows; none before the first.
        newest: Option<CheckpointCut>,
    },
    /// Records that a checkpoint's manifest is durable.
    Committed(CheckpointCut),
    /// Stops the run: no bucket is leased any more.
    Stop,
}

impl LedgerAction {
    /// Whether the action removes the trainer that requests it.
    #[must_use]
    pub const fn leaves(&self) -> bool {
        matches!(self, Self::Leave | Self::LeaveSaved)
    }
}

/// Change of the record by one trainer.
///
/// A trainer never uses a number for two transactions. So a record whose last number of the trainer is this one has
/// applied this transaction and no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// Trainer that requests the change.
    pub token: Token,
    /// Number of the transaction, greater than all earlier ones of the same trainer.
    pub number: u64,
    /// Number of the last transaction that the trainer knows to be applied; 0 before it joins.
    pub after: u64,
    /// Requested change.
    pub action: LedgerAction,
}

/// Change of the record that is requested from outside the run. It needs no token: a repetition is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorCommand {
    /// Removes a trainer at a user's request (`cluster evict`).
    Evict(Token),
    /// Removes a silent trainer.
    EvictSilent(SilentTrainer),
    /// Adds a partition server.
    AddServer(Token, PartitionServer),
    /// Removes a partition server.
    RemoveServer(Token),
    /// Stops the run (`cluster stop`).
    Stop,
}

/// State of a transaction whose reply was lost, according to a record that was read afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionFate {
    /// It has been applied.
    Applied,
    /// It has not been applied. It may still arrive until the register is written again.
    NotApplied,
    /// The trainer is not in the record. If the transaction was to remove the trainer, it has achieved its purpose.
    Fenced,
    /// The record has lost transactions that the trainer knew to be applied.
    SetBack {
        /// Number of the last transaction in the record.
        last: u64,
    },
    /// Another transaction of the trainer, which was believed lost, has been applied instead.
    Overtaken {
        /// Its number.
        last: u64,
    },
}

impl LedgerRecord {
    /// Returns the state of transaction `number` of `token`, where `after` is the last transaction that the trainer
    /// knows to be applied.
    #[must_use]
    pub fn fate(&self, token: Token, number: u64, after: u64) -> TransactionFate {
        let Some(last) = self.trainers.get(&token).map(|trainer| trainer.last) else {
            return TransactionFate::Fenced;
        };
        match last {
            _ if last == number => TransactionFate::Applied,
            _ if last == after => TransactionFate::NotApplied,
            _ if last < after => TransactionFate::SetBack { last },
            _ => TransactionFate::Overtaken { last },
        }
    }

    /// Returns the record after `transaction`. The caller writes it to the register on the condition that nobody has
    /// written since this record was read.
    ///
    /// # Errors
    /// Returns the reason for which the transaction changes nothing.
    pub fn apply(&self, transaction: &Transaction) -> Result<Self, TransactionError> {
        let &Transaction {
            token,
            number,
            after,
            ref action,
        } = transaction;
        if number <= after {
            return Err(TransactionError::Number { number, after });
        }
        let mut next = self.clone();
        match (self.fate(token, number, after), action) {
            (TransactionFate::Fenced, LedgerAction::Join(join)) => next.join(token, join)?,
            (TransactionFate::Fenced, _) => return Err(TransactionError::Fenced { token }),
            (TransactionFate::Applied, _) => {
                return Err(TransactionError::Applied { token, number });
            }
            (_, LedgerAction::Join(_)) => return Err(TransactionError::TokenTaken { token }),
            (TransactionFate::SetBack { last }, _) => {
                return Err(TransactionError::SetBack { token, last, after });
            }
            (TransactionFate::Overtaken { last }, _) => {
                return Err(TransactionError::Overtaken { token, last });
            }
            (TransactionFate::NotApplied, action) => next.act(token, number, action)?,
        }
        if let Some(trainer) = next.trainers.get_mut(&token) {
            trainer.last = number;
        }
        next.revision += 1;
        Ok(next)
    }

    /// Returns the record after a change requested from outside the run. It is written under the same condition as that
    /// of [`LedgerRecord::apply`].
    ///
    /// # Errors
    /// Returns the reason for which the order changes nothing.
    pub fn apply_command(&self, order: OperatorCommand) -> Result<Self, TransactionError> {
        let mut next = self.clone();
        match order {
            OperatorCommand::Evict(token) => next.remove(token)?,
            OperatorCommand::EvictSilent(silent) => next.remove_silent(silent)?,
            OperatorCommand::AddServer(token, server) => next.add_server(token, &server)?,
            OperatorCommand::RemoveServer(token) => next.remove_server(token)?,
            OperatorCommand::Stop => next.stop()?,
        }
        next.revision += 1;
        Ok(next)
    }

    fn act(
        &mut self,
        token: Token,
        number: u64,
        action: &LedgerAction,
    ) -> Result<(), TransactionError> {
        match action {
            LedgerAction::Join(_) => Err(TransactionError::TokenTaken { token }),
            LedgerAction::Open { pass, plan, empty } => self.open(*pass, *plan, empty),
            LedgerAction::Lease { pass, bucket } => self.lease(token, *pass, *bucket),
            LedgerAction::Settle(settlement) => self.settle(token, settlement),
            LedgerAction::GiveUp { pass, buckets } => self.give_up(token, *pass, buckets),
            LedgerAction::Revoke(silent) => self.remove_silent(*silent),
            LedgerAction::Leave => self.remove(token),
            LedgerAction::LeaveSaved => self.leave_saved(token),
            LedgerAction::Advance { from } => self.advance(*from),
            LedgerAction::BeginRanking {
                epochs,
                version,
                blocks,
            } => self.begin_ranking(*epochs, *version, *blocks),
            LedgerAction::LeaseBlock { ranking, block } => {
                self.lease_block(token, *ranking, *block)
            }
            LedgerAction::GiveUpBlock { ranking, block } => {
                self.give_up_block(token, *ranking, *block)
            }
            LedgerAction::Ranked {
                ranking,
                block,
                totals,
            } => self.ranked(token, *ranking, *block, totals),
            LedgerAction::EndRanking(ranking) => self.end_ranking(*ranking),
            LedgerAction::Checkpoint { pass, newest } => {
                self.begin_checkpoint(token, number, *pass, *newest)
            }
            LedgerAction::Committed(cut) => self.committed(*cut),
            LedgerAction::Stop => self.stop(),
        }
    }
}
