//! Tests of the recommendations of buckets.

use std::collections::{BTreeMap, BTreeSet};

use pbg_core::graph::{Bucket, SidePartition};

use super::super::round_robin::TournamentRounds;
use super::super::*;
use super::asked::to_lease;
use super::world::{Budget, Model};

pub(super) fn act(record: &LedgerRecord, token: Token, action: LedgerAction) -> LedgerRecord {
    let trainer = record.trainers.get(&token);
    let after = trainer.map_or(0, |trainer| trainer.last);
    let transaction = Transaction {
        token,
        number: after + 1,
        after,
        action,
    };
    record.apply(&transaction).unwrap()
}

/// A pass opened by `trainers` trainers.
pub(super) fn opened(
    lhs: u32,
    rhs: u32,
    shared: bool,
    tree_init: bool,
    trainers: u64,
) -> LedgerRecord {
    let mut model = Model::new(lhs, rhs, shared, 0, Budget::default());
    model.tree_init = tree_init;
    let mut record = model.found(None, 7);
    for token in (1..=trainers).map(Token) {
        record = act(&record, token, model.join(&record, None));
    }
    let open = LedgerAction::Open {
        pass: record.work.pass,
        plan: 0x1234_5678,
        empty: Vec::new(),
    };
    act(&record, Token(1), open)
}

const fn mirror(bucket: Bucket) -> Bucket {
    Bucket::new(bucket.rhs, bucket.lhs)
}

#[test]
fn every_round_has_each_partition_once() {
    for (lhs, rhs, shared) in [
        (2, 2, true),
        (7, 7, true),
        (8, 8, true),
        (12, 12, true),
        (3, 5, false),
        (6, 2, false),
    ] {
        let record = opened(lhs, rhs, shared, false, 2);
        let rounds = TournamentRounds::of(&record);
        let mut partners: BTreeMap<(u32, SidePartition), BTreeSet<Vec<SidePartition>>> =
            BTreeMap::new();
        for bucket in (0..record.grid().buckets()).map(|at| record.grid().bucket(at)) {
            let mut needs: Vec<SidePartition> = record.grid().partitions_of(bucket).collect();
            needs.sort_unstable();
            let round = rounds.of_bucket(bucket);
            assert_eq!(round.is_some(), needs.len() == 2);
            assert!(round.is_none_or(|round| round < lhs.max(rhs)), "{round:?}");
            for (round, group) in round
                .into_iter()
                .flat_map(|r| needs.iter().map(move |g| (r, *g)))
            {
                partners
                    .entry((round, group))
                    .or_default()
                    .insert(needs.clone());
            }
        }
        assert!(partners.values().all(|of| of.len() == 1), "{lhs} x {rhs}");
    }
}

#[test]
fn the_rounds_of_another_plan_are_others() {
    let record = opened(8, 8, true, false, 2);
    let mut other = record.clone();
    other.work.plan = Some(99);
    let all = |record: &LedgerRecord| -> Vec<Option<u32>> {
        let rounds = TournamentRounds::of(record);
        let buckets = (0..64).map(|at| record.grid().bucket(at));
        buckets.map(|bucket| rounds.of_bucket(bucket)).collect()
    };
    assert_ne!(all(&record), all(&other));
}

#[test]
fn what_is_held_comes_first_and_what_would_leave_others_over_never() {
    let mut record = opened(8, 8, true, false, 4);
    let turn =
        |record: &LedgerRecord, token| record.in_turn(Token(token), &record.free(Token(token)));
    let mut first = turn(&record, 1);
    // A whole round, with mirror images.
    assert_eq!(first.len(), 8);
    for token in 1..=4 {
        let bucket = turn(&record, token)[0];
        assert!(first.contains(&bucket));
        record = act(&record, Token(token), to_lease(&record, bucket));
        first.retain(|b| *b != bucket && *b != mirror(bucket));
        let held: BTreeSet<SidePartition> = record.grid().partitions_of(bucket).collect();
        let rest = turn(&record, token);
        // The mirror image, and two on the diagonal.
        assert_eq!(rest.len(), 3);
        assert!(
            rest.iter()
                .all(|b| record.grid().partitions_of(*b).all(|g| held.contains(&g)))
        );
    }
}

#[test]
fn nobody_waits_where_nobody_trains_nor_where_partitions_are_plenty() {
    let record = opened(8, 8, true, false, 4);
    // Buckets that are recommended when they alone are free, though their partitions come in earlier rounds with
    // others.
    let late: Vec<Bucket> = record
        .free(Token(1))
        .into_iter()
        .filter(|b| !record.in_turn(Token(1), &[*b]).is_empty())
        .collect();
    assert_eq!(late.len(), 64);
    let held = act(
        &record,
        Token(2),
        to_lease(&record, record.in_turn(Token(2), &late)[0]),
    );
    let waits = held
        .free(Token(1))
        .iter()
        .any(|b| held.in_turn(Token(1), &[*b]).is_empty());
    assert!(waits);
    for (partitions, trainers) in [(16, 4), (8, 1)] {
        let record = opened(partitions, partitions, true, false, trainers);
        let free = record.free(Token(1));
        assert_eq!(record.in_turn(Token(1), &free), free);
    }
}

#[test]
fn a_tree_grows_by_a_partition_with_each_bucket() {
    for (partitions, trainers) in [(8, 4), (16, 4)] {
        let mut record = opened(partitions, partitions, true, true, trainers);
        let free = record.free(Token(1));
        let first = record.in_turn(Token(1), &free);
        assert!(first.iter().all(|b| b.lhs != b.rhs), "{first:?}");
        record = act(&record, Token(1), to_lease(&record, first[0]));
        let free = record.free(Token(1));
        assert!(free.contains(&mirror(first[0])));
        let second = record.in_turn(Token(1), &free);
        let known = [first[0].lhs, first[0].rhs];
        let grows = |b: &Bucket| known.contains(&b.lhs) != known.contains(&b.rhs);
        assert!(!second.is_empty() && second.iter().all(grows), "{second:?}");
    }
}
