//! Tests of the schedule: every bucket is trained exactly once by any trainers, and a schedule survives serialisation.

use proptest::prelude::*;

use super::*;

/// A pass whose sides share their partitions if the grid is square. A side of one partition is never swapped.
fn pass(n: u32, m: u32) -> Pass {
    let bytes = |n: u32| vec![if n == 1 { 0 } else { 100 }; n as usize];
    Pass {
        lhs_partitions: n,
        rhs_partitions: m,
        shared: n == m,
        edges: vec![1; (n * m) as usize],
        lhs_bytes: bytes(n),
        rhs_bytes: bytes(m),
        buffer_partitions: 2,
        resident: Vec::new(),
        epoch: 0,
        edge_set: 0,
        edge_chunk: 0,
        seed: 0,
    }
}

fn grid(n: u32, m: u32) -> Vec<Bucket> {
    (0..n)
        .flat_map(|l| (0..m).map(move |r| Bucket::new(l, r)))
        .collect()
}

proptest! {
    #[test]
    fn every_bucket_of_every_pass_exactly_once_with_any_trainers(
        n in 1_u32..6, m in 1_u32..6, trainers in 1_u32..4, chunks in 1_u32..3, sets in 1_u32..3,
        epochs in 1_u32..3, choices in proptest::collection::vec(any::<u32>(), 64),
    ) {
        let extent = RunExtent { epochs, edge_sets: sets, edge_chunks: chunks };
        let grid_of = pass(n, m);
        let mut schedule = Schedule::new();
        let mut seen = Vec::new();
        let mut held: Vec<(u32, LeasedBucket)> = Vec::new();
        let mut step = 0;
        while !schedule.finished(extent) {
            if schedule.needs_plan() {
                schedule.set_plan(grid(n, m));
            }
            let choice = choices[step % choices.len()];
            step += 1;
            let trainer = choice % trainers;
            if !held.iter().any(|(t, _)| *t == trainer)
                && let Some(acquired) = schedule.acquire(trainer, &grid_of)
            {
                let (a, swapped) = (acquired.bucket, |n: u32| n > 1);
                for (_, other) in &held {
                    let b = other.bucket;
                    prop_assert!(!swapped(n) || a.lhs != b.lhs);
                    prop_assert!(!swapped(m) || a.rhs != b.rhs);
                    prop_assert!(n != m || n == 1 || (a.lhs != b.rhs && a.rhs != b.lhs));
                }
                held.push((trainer, acquired));
            } else if let Some(index) = (!held.is_empty()).then(|| choice as usize % held.len()) {
                let (holder, acquired) = held.swap_remove(index);
                prop_assert!(schedule.complete(holder + 1, acquired.position).is_err());
                prop_assert_eq!(schedule.complete(holder, acquired.position), Ok(()));
                prop_assert!(schedule.complete(holder, acquired.position).is_err());
                seen.push((schedule.pass(), acquired.bucket));
                schedule.advance(extent);
            }
        }
        let mut unique = seen.clone();
        unique.sort_unstable();
        unique.dedup();
        prop_assert_eq!(unique.len(), seen.len());
        prop_assert_eq!(seen.len() as u32, n * m * chunks * sets * epochs);
        let passes: Vec<PassId> = seen.iter().map(|(p, _)| *p).collect();
        prop_assert!(passes.is_sorted());
    }
}

#[test]
fn an_epoch_can_begin_again() {
    let extent = RunExtent {
        epochs: 1,
        edge_sets: 2,
        edge_chunks: 1,
    };
    let mut schedule = Schedule::new();
    schedule.set_plan(grid(1, 1));
    let whole = pass(1, 1);
    let position = schedule.acquire(0, &whole).map(|a| a.position);
    schedule.complete(0, position.unwrap_or_default()).unwrap();
    assert!(schedule.advance(extent));
    schedule.set_plan(grid(1, 1));
    schedule.restart_epoch();
    assert_eq!(schedule, Schedule::new());
}

#[test]
fn a_side_that_is_never_swapped_lets_trainers_work_side_by_side() {
    let pass = pass(1, 4);
    let mut schedule = Schedule::new();
    schedule.set_plan(grid(1, 4));
    let taken: Vec<_> = (0..4)
        .map(|trainer| schedule.acquire(trainer, &pass))
        .collect();
    let positions = taken.iter().flatten().map(|acquired| acquired.position);
    assert_eq!(positions.collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn what_another_holds_is_not_reported_done() {
    let mut schedule = Schedule::new();
    schedule.set_plan(grid(2, 2));
    let position = schedule
        .acquire(0, &pass(2, 2))
        .map(|a| a.position)
        .unwrap();
    let trainer = 1;
    assert_eq!(
        schedule.complete(trainer, position),
        Err(NotLeased { trainer, position })
    );
    assert_eq!(schedule.done(), 0);
    assert!(schedule.complete(0, 99).is_err());
}

#[test]
fn a_serialised_schedule_goes_on_where_it_was() {
    let pass = pass(2, 2);
    let mut schedule = Schedule::new();
    schedule.set_plan(grid(2, 2));
    let first = schedule.acquire(0, &pass).map(|a| a.position);
    schedule.complete(0, first.unwrap_or_default()).unwrap();
    let _held = schedule.acquire(0, &pass);
    let text = serde_json::to_string(&schedule).unwrap();
    let mut back: Schedule = serde_json::from_str(&text).unwrap();
    assert_eq!(back, schedule);
    back.release_all();
    assert_eq!(back.acquire(0, &pass).map(|a| a.position), Some(1));
}
