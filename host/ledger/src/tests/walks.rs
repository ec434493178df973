//! Tests of the walks of several trainers through a pass.

use std::collections::BTreeSet;

use pbg_core::graph::Bucket;

use super::super::pair_walks::{PairWalks, PartitionPair};
use super::super::*;
use super::asked::{to_give_up, to_lease};
use super::turns::{act, opened};

/// Returns the pair of `walk` in `step`, where steps are counted for all walks together.
fn at(walks: &PairWalks, walk: usize, step: usize) -> Option<PartitionPair> {
    let own = step.checked_sub(walks.delays[walk])?;
    walks.walks[walk].get(own).copied()
}

#[test]
fn walks_have_every_pair_once_and_keep_out_of_each_others_way() {
    for (partitions, trainers, tree_init, jumps) in [
        (8, 2, false, 0),
        (8, 2, true, 0),
        (10, 2, false, 0),
        (12, 3, false, 0),
        (12, 3, true, 0),
        (16, 4, false, 2),
        (16, 4, true, 3),
        (32, 8, false, 12),
        (64, 16, false, 30),
    ] {
        let record = opened(partitions, partitions, true, tree_init, trainers);
        let walks = PairWalks::of(&record).unwrap();
        let all: Vec<PartitionPair> = walks.walks.concat();
        let once: BTreeSet<PartitionPair> = all.iter().copied().collect();
        assert_eq!(all.len(), (partitions * (partitions - 1) / 2) as usize);
        assert_eq!(once.len(), all.len());
        let mut jumped = 0;
        for (number, walk) in walks.walks.iter().enumerate() {
            for step in 1..walk.len() {
                let [last, pair] = [walk[step - 1], walk[step]];
                let new: Vec<usize> = pair.into_iter().filter(|p| !last.contains(p)).collect();
                assert!(!new.is_empty(), "{last:?} {pair:?}");
                jumped += new.len() - 1;
                let now = step + walks.delays[number];
                for other in (0..walks.walks.len()).filter(|other| *other != number) {
                    let with = at(&walks, other, now).into_iter().flatten();
                    assert!(pair.iter().all(|p| with.clone().all(|q| q != *p)));
                    let before = at(&walks, other, now - 1);
                    assert!(before.is_none_or(|before| new.iter().all(|p| !before.contains(p))));
                }
            }
        }
        // Pairs that keep nothing cost one more load; they are few.
        assert!(jumped <= jumps, "{partitions} x {trainers}: {jumped}");
    }
}

#[test]
fn there_are_none_where_partitions_are_few() {
    for (partitions, trainers) in [(8, 1), (8, 3), (8, 4)] {
        let record = opened(partitions, partitions, true, false, trainers);
        assert!(PairWalks::of(&record).is_none());
    }
}

/// Returns the recommendations to a trainer that chooses for the first time.
fn turn(record: &LedgerRecord, token: Token) -> Vec<Bucket> {
    BucketAdvisor::default().in_turn(record, token, &record.free(token), 2)
}

#[test]
fn whoever_takes_something_else_ends_all_walks() {
    let record = opened(8, 8, true, false, 2);
    let first = turn(&record, Token(1));
    // A pair of mirror images.
    assert_eq!(first.len(), 2);
    assert_eq!(first[0], Bucket::new(first[1].rhs, first[1].lhs));
    // The trainer that begins takes the first walk, and the next one the second.
    assert_eq!(turn(&record, Token(2)), first);
    let begun = act(&record, Token(2), to_lease(&record, first[0]));
    assert!(turn(&begun, Token(2)).contains(&first[1]));
    let second = turn(&begun, Token(1));
    assert_eq!(second.len(), 2);
    assert!(!second.contains(&first[1]));
    let other = begun.free(Token(1)).into_iter().find(|bucket| {
        bucket.lhs != bucket.rhs && !first.contains(bucket) && !second.contains(bucket)
    });
    let astray = act(&begun, Token(1), to_lease(&begun, other.unwrap()));
    assert_eq!(turn(&astray, Token(2)), [first[1]]);
    // The mirror image still comes first. A trainer that has none may take any bucket.
    let settled = act(&astray, Token(2), to_give_up(&astray, vec![first[0]]));
    assert_eq!(turn(&settled, Token(2)), settled.free(Token(2)));
}

#[test]
fn more_room_needs_no_walks() {
    let record = opened(8, 8, true, false, 2);
    let free = record.free(Token(1));
    assert_eq!(
        BucketAdvisor::default().in_turn(&record, Token(1), &free, 3),
        free
    );
}
