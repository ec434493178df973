//! Transactions: changes that trainers make to the record, and whether one has been applied.

use serde::{Deserialize, Serialize};

use super::{BlockTotals, Cut, Join, RankingId, Record, Refusal, Settlement, Token};
use crate::graph::Bucket;
use crate::schedule::PassId;

/// Change of the record that a trainer requests.
///
/// Any number of other transactions may be applied between a trainer's decision and its transaction, because the
/// trainer's process may have been suspended. So an action names what the decision was based on (the pass, the ranking,
/// the newest checkpoint, the last transaction of a silent trainer), and is refused if that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
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
    Revoke(Silent),
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
        newest: Option<Cut>,
    },
    /// Records that a checkpoint's manifest is durable.
    Committed(Cut),
    /// Stops the run: no bucket is leased any more.
    Stop,
}

impl Action {
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
    pub action: Action,
}

/// Trainer that has not been heard from for the duration of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silent {
    /// Token of the trainer.
    pub token: Token,
    /// Number of its last transaction. A later one shows that it is alive.
    pub last: u64,
}

impl Silent {
    /// Returns the trainer `token` as it is in `record`, or `None` if it is not part of the run.
    #[must_use]
    pub fn of(record: &Record, token: Token) -> Option<Self> {
        let last = record.trainers.get(&token)?.last;
        Some(Self { token, last })
    }
}

/// Change of the record that is requested from outside the run. It needs no token: a repetition is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Removes a trainer at a user's request (`cluster evict`).
    Evict(Token),
    /// Removes a silent trainer.
    EvictSilent(Silent),
    /// Stops the run (`cluster stop`).
    Stop,
}

/// State of a transaction whose reply was lost, according to a record that was read afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
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

impl Record {
    /// Returns the state of transaction `number` of `token`, where `after` is the last transaction that the trainer
    /// knows to be applied.
    #[must_use]
    pub fn fate(&self, token: Token, number: u64, after: u64) -> Fate {
        let Some(last) = self.trainers.get(&token).map(|trainer| trainer.last) else {
            return Fate::Fenced;
        };
        match last {
            _ if last == number => Fate::Applied,
            _ if last == after => Fate::NotApplied,
            _ if last < after => Fate::SetBack { last },
            _ => Fate::Overtaken { last },
        }
    }

    /// Returns the record after `transaction`. The caller writes it to the register on the condition that nobody has
    /// written since this record was read.
    ///
    /// # Errors
    /// Returns the reason for which the transaction changes nothing.
    pub fn apply(&self, transaction: &Transaction) -> Result<Self, Refusal> {
        let &Transaction {
            token,
            number,
            after,
            ref action,
        } = transaction;
        if number <= after {
            return Err(Refusal::Number { number, after });
        }
        let mut next = self.clone();
        match (self.fate(token, number, after), action) {
            (Fate::Fenced, Action::Join(join)) => next.join(token, join)?,
            (Fate::Fenced, _) => return Err(Refusal::Fenced { token }),
            (Fate::Applied, _) => return Err(Refusal::Applied { token, number }),
            (_, Action::Join(_)) => return Err(Refusal::TokenTaken { token }),
            (Fate::SetBack { last }, _) => return Err(Refusal::SetBack { token, last, after }),
            (Fate::Overtaken { last }, _) => return Err(Refusal::Overtaken { token, last }),
            (Fate::NotApplied, action) => next.act(token, number, action)?,
        }
        if let Some(trainer) = next.trainers.get_mut(&token) {
            trainer.last = number;
        }
        next.revision += 1;
        Ok(next)
    }

    /// Returns the record after a change requested from outside the run. It is written under the same condition as that
    /// of [`Record::apply`].
    ///
    /// # Errors
    /// Returns the reason for which the order changes nothing.
    pub fn order(&self, order: Order) -> Result<Self, Refusal> {
        let mut next = self.clone();
        match order {
            Order::Evict(token) => next.remove(token)?,
            Order::EvictSilent(silent) => next.remove_silent(silent)?,
            Order::Stop => next.stop()?,
        }
        next.revision += 1;
        Ok(next)
    }

    fn act(&mut self, token: Token, number: u64, action: &Action) -> Result<(), Refusal> {
        match action {
            Action::Join(_) => Err(Refusal::TokenTaken { token }),
            Action::Open { pass, plan, empty } => self.open(*pass, *plan, empty),
            Action::Lease { pass, bucket } => self.lease(token, *pass, *bucket),
            Action::Settle(settlement) => self.settle(token, settlement),
            Action::GiveUp { pass, buckets } => self.give_up(token, *pass, buckets),
            Action::Revoke(silent) => self.remove_silent(*silent),
            Action::Leave => self.remove(token),
            Action::LeaveSaved => self.leave_saved(token),
            Action::Advance { from } => self.advance(*from),
            Action::BeginRanking {
                epochs,
                version,
                blocks,
            } => self.begin_ranking(*epochs, *version, *blocks),
            Action::LeaseBlock { ranking, block } => self.lease_block(token, *ranking, *block),
            Action::GiveUpBlock { ranking, block } => self.give_up_block(token, *ranking, *block),
            Action::Ranked {
                ranking,
                block,
                totals,
            } => self.ranked(token, *ranking, *block, totals),
            Action::EndRanking(ranking) => self.end_ranking(*ranking),
            Action::Checkpoint { pass, newest } => {
                self.begin_checkpoint((token, number), *pass, *newest)
            }
            Action::Committed(cut) => self.committed(*cut),
            Action::Stop => self.stop(),
        }
    }
}
