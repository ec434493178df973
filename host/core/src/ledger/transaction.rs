//! Transactions: who asks for what, and whether it is applied already.

use serde::{Deserialize, Serialize};

use super::{BlockTotals, Cut, Join, RankingId, Record, Refusal, Settlement, Token};
use crate::graph::Bucket;
use crate::schedule::PassId;

/// A change of the record that a trainer asks for.
///
/// Between a trainer's decision and its transaction, any number of other transactions may come: the trainer's process
/// may have stood still. So an action names what it was decided on (the pass, the ranking, the newest checkpoint, the
/// last transaction of a silent trainer), and is refused where that has changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// To take part.
    Join(Box<Join>),
    /// To give the pass its plan, which the asker has checked.
    Open {
        /// The pass.
        pass: PassId,
        /// Digest of the plan.
        plan: u64,
        /// Buckets without edges.
        empty: Vec<Bucket>,
    },
    /// A bucket to train.
    Lease {
        /// The pass that it is trained in.
        pass: PassId,
        /// The bucket.
        bucket: Bucket,
    },
    /// To mark trained buckets as done, with the files that they are in, and to lease the next.
    Settle(Box<Settlement>),
    /// To give buckets back untrained.
    GiveUp {
        /// The pass that they were leased in.
        pass: PassId,
        /// The buckets.
        buckets: Vec<Bucket>,
    },
    /// To end the part of a trainer that is silent.
    Revoke(Silent),
    /// To take part no more; what the asker has is to do again.
    Leave,
    /// The same, but not as the last one while something that is trained is in no checkpoint.
    LeaveSaved,
    /// To go on to the next pass.
    Advance {
        /// The pass that is done.
        from: PassId,
    },
    /// To rank the validation edges, where an epoch has ended.
    BeginRanking {
        /// Epochs that are trained.
        epochs: u32,
        /// The checkpoint that is ranked.
        version: u64,
        /// How many blocks the edges are cut into.
        blocks: u32,
    },
    /// A block of edges to rank.
    LeaseBlock {
        /// The ranking that it is a block of.
        ranking: RankingId,
        /// The block.
        block: u32,
    },
    /// To give a block back unranked.
    GiveUpBlock {
        /// The ranking that it was leased in.
        ranking: RankingId,
        /// The block.
        block: u32,
    },
    /// To add the ranks of a block.
    Ranked {
        /// The ranking that it was leased in.
        ranking: RankingId,
        /// The block.
        block: u32,
        /// Sums over them.
        totals: Box<BlockTotals>,
    },
    /// To draw the conclusions, when every block is ranked.
    EndRanking(RankingId),
    /// To write a checkpoint of this revision.
    Checkpoint {
        /// The pass that it is due in.
        pass: PassId,
        /// The newest manifest, which the new one follows; none before the first.
        newest: Option<Cut>,
    },
    /// A checkpoint's manifest is durable.
    Committed(Cut),
    /// To end the run: no bucket is given out any more.
    Stop,
}

impl Action {
    /// Whether it ends the part of who asks for it.
    #[must_use]
    pub const fn leaves(&self) -> bool {
        matches!(self, Self::Leave | Self::LeaveSaved)
    }
}

/// What a trainer writes to the record.
///
/// It never uses a number for two transactions. So a record that knows the number has applied this transaction and no
/// other one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// Who asks.
    pub token: Token,
    /// Number of this transaction, greater than all before of the same trainer.
    pub number: u64,
    /// The last one that the trainer knows to be applied; 0 before it joined.
    pub after: u64,
    /// What it asks for.
    pub action: Action,
}

/// A trainer that has not been heard for the time of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Silent {
    /// Its token.
    pub token: Token,
    /// Number of its last transaction. A later one shows that it lives.
    pub last: u64,
}

impl Silent {
    /// The trainer of `token` as `record` has it; none if it does not take part.
    #[must_use]
    pub fn of(record: &Record, token: Token) -> Option<Self> {
        let last = record.trainers.get(&token)?.last;
        Some(Self { token, last })
    }
}

/// A change of the record that is asked for from outside the run. It needs no token: done twice, it is refused the
/// second time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// To end the part of a trainer that a person wants gone (`cluster evict`).
    Evict(Token),
    /// To end the part of a trainer that is silent.
    EvictSilent(Silent),
    /// To end the run (`cluster stop`).
    Stop,
}

/// What became of a transaction that no answer came to, as a record that was read again tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is applied.
    Applied,
    /// It is not applied. It may still arrive, as long as the register is not written.
    NotApplied,
    /// The record lacks the trainer. For a transaction that ends its part, that is what it asked for.
    Fenced,
    /// The record has lost what the trainer knew to be applied.
    SetBack {
        /// The last one that it knows.
        last: u64,
    },
    /// Another one of the trainer, which was given up for lost, is applied instead.
    Overtaken {
        /// Its number.
        last: u64,
    },
}

impl Record {
    /// What became of transaction `number` of `token`, when `after` was the last that it knew to be applied.
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

    /// The record after `transaction`. The caller writes it to the register if nobody wrote since this one was read.
    ///
    /// # Errors
    /// Why it changes nothing.
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

    /// The record after what a person asked for, to be written as that of [`Record::apply`].
    ///
    /// # Errors
    /// Why it changes nothing.
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
