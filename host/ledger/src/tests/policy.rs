//! Tests of what trainers do next: passes that several of them train, in any interleaving of their steps.

use std::collections::BTreeMap;
use std::time::Duration;

use pbg_core::graph::Bucket;
use proptest::prelude::*;

use super::super::*;
use super::turns::{act, opened};

/// Trainers that follow the policy.
struct Pass {
    record: LedgerRecord,
    policies: BTreeMap<Token, BucketPolicy>,
    /// Buckets in training.
    training: BTreeMap<Token, Bucket>,
    trained: Vec<Bucket>,
    files: u64,
    now: Duration,
}

impl Pass {
    fn new(record: LedgerRecord, buffer: u32, ahead: Option<bool>) -> Self {
        let policy = |token: &Token| {
            let mut policy = BucketPolicy::new(ahead);
            policy.begin_pass(record.work.pass, buffer);
            (*token, policy)
        };
        let policies = record.trainers.keys().map(policy).collect();
        Self {
            record,
            policies,
            training: BTreeMap::new(),
            trained: Vec::new(),
            files: 0,
            now: Duration::ZERO,
        }
    }

    /// Carries out the next step of a trainer, or ends its bucket. Returns what it did.
    fn go_on(&mut self, token: Token, pick: usize) -> Option<BucketStep> {
        self.now += Duration::from_millis(100);
        let policy = self.policies.get_mut(&token).unwrap();
        if let Some(bucket) = self.training.remove(&token) {
            policy.trained(Duration::from_secs(1));
            self.trained.push(bucket);
            return None;
        }
        let step = policy.step(self.now, token, &self.record, true);
        match &step {
            BucketStep::Lease(choices) => {
                let bucket = choices[pick % choices.len()];
                let pass = self.record.work.pass;
                self.record = act(&self.record, token, LedgerAction::Lease { pass, bucket });
                policy.leased(bucket);
            }
            BucketStep::Train(bucket) => drop(self.training.insert(token, *bucket)),
            BucketStep::Settle | BucketStep::Wait(_) | BucketStep::EndPass => self.settle(token),
            BucketStep::Refresh => panic!("the record is the newest"),
        }
        Some(step)
    }

    fn settle(&mut self, token: Token) {
        let buckets = self.policies.get_mut(&token).unwrap().take_trained();
        if buckets.is_empty() {
            return;
        }
        let grid = self.record.grid().clone();
        let partitions = grid.partitions_of_all(&buckets).into_iter().map(|group| {
            let files = grid.tables[group.0 as usize].iter().map(|_| {
                self.files += 1;
                let writer = Some((token, self.files));
                PartitionFile {
                    id: FileId { version: 1, writer },
                    size: 1,
                    crc32: 0,
                }
            });
            SettledPartition {
                group,
                from: self.record.partition(group).unwrap().stamp(),
                files: files.collect(),
            }
        });
        let settlement = Settlement {
            pass: self.record.work.pass,
            partitions: partitions.collect(),
            buckets,
            ..Settlement::default()
        };
        let settle = LedgerAction::Settle(Box::new(settlement));
        self.record = act(&self.record, token, settle);
    }
}

proptest! {
    /// The ledger accepts every step, every bucket is trained once, and a trainer that waits holds no partition.
    #[test]
    fn a_pass_is_trained_in_any_interleaving(
        (lhs, rhs, is_shared) in (1..7_u32, 1..7_u32, any::<bool>()),
        (trainers, buffer, tree_init) in (1..4_u64, 2..5_u32, any::<bool>()),
        ahead in prop_oneof![Just(None), Just(Some(true)), Just(Some(false))],
        turns in prop::collection::vec((any::<u64>(), any::<usize>()), 1..40),
    ) {
        let rhs = if is_shared { lhs } else { rhs };
        let record = opened(lhs, rhs, is_shared, tree_init, trainers);
        let buckets = record.grid().buckets();
        let mut pass = Pass::new(record, buffer, ahead);
        let mut turns = turns.into_iter().cycle();
        let mut steps = 0;
        while pass.record.phase() == Phase::Training {
            let (turn, pick) = turns.next().unwrap();
            steps += 1;
            // All of them go on in turn now and then, so that none stands still for ever.
            let token = Token(if steps % 3 == 0 { steps / 3 % trainers } else { turn % trainers } + 1);
            if let Some(BucketStep::Wait(_)) = pass.go_on(token, pick) {
                prop_assert_eq!(&pass.record.trainers[&token].leases, &[]);
            }
            prop_assert!(steps < 10_000, "the pass does not end");
        }
        prop_assert_eq!(pass.trained.len(), buckets);
        pass.trained.sort_unstable();
        pass.trained.dedup();
        prop_assert_eq!(pass.trained.len(), buckets);
        for token in (1..=trainers).map(Token) {
            let step = pass.go_on(token, 0);
            prop_assert_eq!(step, Some(BucketStep::EndPass));
        }
    }
}

/// The bucket that a trainer is advised to take has a partition that another one holds.
#[test]
fn a_wait_for_an_advised_bucket_lasts_as_long_as_a_pair_of_buckets() {
    let mut pass = Pass::new(opened(5, 5, true, false, 2), 4, Some(false));
    let (one, other) = (Token(1), Token(2));
    let waits = |pass: &mut Pass| matches!(pass.go_on(one, 0), Some(BucketStep::Wait(_)));
    // The other trainer leases a bucket and stands still.
    while !pass.training.contains_key(&other) {
        pass.go_on(other, 0);
    }
    while !waits(&mut pass) {}
    let end = pass.policies[&one].wait_ends().unwrap();
    // Its own buckets took a second each.
    assert!(end > pass.now && end <= pass.now + Duration::from_secs(2));
    pass.now = end;
    let trained = pass.trained.len();
    while pass.trained.len() == trained {
        assert!(!waits(&mut pass), "a free bucket is taken after the wait");
    }
}

/// A trainer that waited for an advised bucket waits like any other once no bucket is free.
#[test]
fn a_wait_for_an_advised_bucket_ends_when_no_bucket_is_free() {
    let record = opened(5, 5, true, false, 2);
    let mut pass = Pass::new(record.clone(), 4, Some(false));
    let (one, other) = (Token(1), Token(2));
    while !pass.training.contains_key(&other) {
        pass.go_on(other, 0);
    }
    while pass.policies[&one].wait_ends().is_none() {
        pass.go_on(one, 0);
    }
    // No bucket is free in a record without this trainer's pass.
    let mut none = pass.record.clone();
    none.stopping = true;
    let policy = pass.policies.get_mut(&one).unwrap();
    assert_eq!(policy.step(pass.now, one, &none, true), BucketStep::EndPass);
    assert_eq!(policy.wait_ends(), None);
    // Nor does the wait go on in the next pass.
    policy.step(pass.now, one, &pass.record, true);
    assert!(policy.wait_ends().is_some());
    policy.begin_pass(record.work.pass, 4);
    assert_eq!(policy.wait_ends(), None);
}

#[test]
fn a_bucket_that_was_not_begun_is_given_up() {
    let mut pass = Pass::new(opened(8, 8, true, false, 1), 4, Some(true));
    let token = Token(1);
    while !pass.training.contains_key(&token) {
        pass.go_on(token, 0);
    }
    let policy = pass.policies.get_mut(&token).unwrap();
    let ahead: Vec<Bucket> = policy.upcoming().collect();
    assert_eq!(ahead.len(), 1);
    assert_eq!(policy.to_train().count(), 2);
    assert_eq!(policy.give_up(), ahead);
    assert_eq!(policy.to_train().count(), 1);
}

#[test]
fn one_trainer_acts_on_behalf_of_all() {
    let record = opened(2, 2, true, false, 2);
    let (one, other) = (Token(1), Token(2));
    assert_eq!(PassStep::of(&record, one, false), PassStep::TrainPass);
    assert_eq!(PassStep::of(&record, one, true), PassStep::WriteCheckpoint);
    assert_eq!(PassStep::of(&record, other, true), PassStep::TrainPass);
    let pass = record.work.pass;
    let newest = None;
    let begun = act(&record, other, LedgerAction::Checkpoint { pass, newest });
    // The one that has begun a checkpoint writes it, even if another leads.
    assert_eq!(PassStep::of(&begun, one, true), PassStep::TrainPass);
    assert_eq!(PassStep::of(&begun, other, true), PassStep::WriteCheckpoint);
    let stopped = act(&record, one, LedgerAction::Stop);
    assert_eq!(PassStep::of(&stopped, other, false), PassStep::Leave);
}
