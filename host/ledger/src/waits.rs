//! What a trainer without work waits for, as far as the record knows.

use std::collections::BTreeSet;

use pbg_core::graph::{Bucket, SidePartition};

use super::{BucketState, LedgerRecord, Phase, Token};

/// What a trainer without a bucket or a block waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// The other trainers or the partition servers without which the run does not begin.
    Start,
    /// Partitions that other trainers hold. Every bucket that is to do needs one of them.
    Partitions(Vec<(SidePartition, Token)>),
    /// The buckets of other trainers, after which further ones may be leased: in the first pass, buckets are added to those
    /// that were leased before.
    FirstBuckets(Vec<(Bucket, Token)>),
    /// Its turn: a bucket is free, but taking it now would leave others without one.
    Turn,
    /// The buckets that other trainers train, which are the last of the pass or of the run.
    LastBuckets(Vec<(Bucket, Token)>),
    /// The checkpoint that another trainer writes.
    Checkpoint(Token),
    /// The edges that other trainers rank.
    Blocks(Vec<Token>),
}

impl LedgerRecord {
    /// Returns what `token` waits for; `None` if it has something to do, or if the record does not know.
    #[must_use]
    pub fn wait_reason(&self, token: Token) -> Option<WaitReason> {
        let trainer = self.trainers.get(&token)?;
        if !trainer.leases.is_empty() || trainer.block.is_some() {
            return None;
        }
        match self.phase() {
            Phase::Gathering(_) => Some(WaitReason::Start),
            Phase::Training => Some(self.wait_in_pass(token)),
            Phase::Stopping => self
                .last_buckets()
                .or_else(|| self.checkpoint_of_other(token)),
            Phase::Ranking => self
                .ranked_blocks()
                .or_else(|| self.checkpoint_of_other(token)),
            Phase::Opening | Phase::PassDone | Phase::Finished => self.checkpoint_of_other(token),
        }
    }

    fn wait_in_pass(&self, token: Token) -> WaitReason {
        if !self.free(token).is_empty() {
            return WaitReason::Turn;
        }
        if self.work.buckets.count(BucketState::ToDo) == 0 {
            return WaitReason::LastBuckets(self.leased_buckets());
        }
        let needed = self.in_state(BucketState::ToDo);
        let needed = needed.flat_map(|bucket| self.grid().partitions_of(bucket));
        let needed: BTreeSet<SidePartition> = needed.collect();
        let held = |group| Some((group, self.holder(group)?));
        match needed.into_iter().filter_map(held).collect::<Vec<_>>() {
            held if held.is_empty() => WaitReason::FirstBuckets(self.leased_buckets()),
            held => WaitReason::Partitions(held),
        }
    }

    fn leased_buckets(&self) -> Vec<(Bucket, Token)> {
        let trainers = self.trainers.iter();
        let leases = trainers
            .flat_map(|(token, trainer)| trainer.leases.iter().map(|bucket| (*bucket, *token)));
        leases.collect()
    }

    fn last_buckets(&self) -> Option<WaitReason> {
        let leased = self.leased_buckets();
        (!leased.is_empty()).then_some(WaitReason::LastBuckets(leased))
    }

    fn ranked_blocks(&self) -> Option<WaitReason> {
        let rank = self
            .trainers
            .iter()
            .filter(|(_, trainer)| trainer.block.is_some());
        let rank: Vec<Token> = rank.map(|(token, _)| *token).collect();
        let is_waiting = !rank.is_empty() && self.free_blocks().is_empty();
        is_waiting.then_some(WaitReason::Blocks(rank))
    }

    fn checkpoint_of_other(&self, token: Token) -> Option<WaitReason> {
        let (writer, _) = self.checkpoint_in_progress()?;
        (writer != token).then_some(WaitReason::Checkpoint(writer))
    }
}
