//! Tests of what a group guarantees to the ordering thread.

use std::sync::mpsc::{Receiver, Sender, channel};

use proptest::prelude::*;

use super::*;

/// Work that doubles numbers, fails at one of them, and leaves one unfinished piece for each multiple of three.
struct Double {
    fails_at: Option<u32>,
    left: u32,
    ended: Sender<&'static str>,
}

fn failure(order: u32) -> RunError {
    RunError::Thread(format!("no {order}"))
}

impl StageWork for Double {
    type Order = u32;
    type Made = u32;

    fn perform(&mut self, order: u32) -> Result<u32, RunError> {
        if self.fails_at == Some(order) {
            return Err(failure(order));
        }
        self.left += u32::from(order.is_multiple_of(3));
        Ok(2 * order)
    }

    fn unfinished(&self) -> bool {
        self.left > 0
    }

    fn go_on(&mut self) -> Result<Option<u32>, RunError> {
        self.left -= 1;
        Ok(Some(1))
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        let _nobody_listens = self.ended.send("ended");
    }
}

fn double(fails_at: Option<u32>) -> (Double, Receiver<&'static str>) {
    let (ended, hears) = channel();
    let work = Double {
        fails_at,
        left: 0,
        ended,
    };
    (work, hears)
}

fn start(bound: Option<usize>, work: Double) -> StageHandle<Double> {
    let pipe = bound.map(|bound| ("doubling", bound));
    StageHandle::start(pipe, work, Arc::default()).expect("a thread")
}

proptest! {
    /// Every order is answered in order, for any capacity, with or without a thread.
    #[test]
    fn every_order_is_answered(bound in proptest::option::of(1_usize..4), orders in 1_u32..30, ask in any::<u32>()) {
        let (work, hears) = double(None);
        let mut group = start(bound, work);
        let mut answers = Vec::new();
        for order in 1..=orders {
            group.order(order);
            if ask >> (order % 32) & 1 == 1 {
                answers.extend(group.received().unwrap());
            }
        }
        while answers.len() < (orders + orders / 3) as usize {
            answers.push(group.receive().unwrap());
        }
        let (left, made): (Vec<u32>, Vec<u32>) = answers.into_iter().partition(|&made| made == 1);
        prop_assert_eq!(made, (1..=orders).map(|order| 2 * order).collect::<Vec<_>>());
        prop_assert_eq!(left.len() as u32, orders / 3);
        prop_assert!(hears.try_recv().is_err());
        drop(group);
        prop_assert_eq!(hears.try_recv(), Ok("ended"));
    }

    /// Results before an error are received, then its cause; later orders are not carried out.
    #[test]
    fn an_error_ends_a_group_with_its_cause(bound in proptest::option::of(1_usize..4), fails_at in 1_u32..10) {
        let (work, hears) = double(Some(fails_at));
        let mut group = start(bound, work);
        for order in 1..12 {
            group.order(order);
        }
        let mut made = Vec::new();
        let cause = loop {
            match group.receive() {
                Ok(answer) => made.push(answer),
                Err(cause) => break cause.to_string(),
            }
        };
        prop_assert_eq!(cause, failure(fails_at).to_string());
        made.retain(|&made| made != 1);
        prop_assert_eq!(made, (1..fails_at).map(|order| 2 * order).collect::<Vec<_>>());
        prop_assert!(group.receive().is_err());
        drop(group);
        prop_assert_eq!(hears.try_recv(), Ok("ended"));
    }
}

#[test]
fn both_sides_count_their_time() {
    let (work, _hears) = double(None);
    let training = Arc::new(StageClock::default());
    let mut group = StageHandle::start(Some(("doubling", 1)), work, Arc::clone(&training)).unwrap();
    for order in 1..20 {
        group.order(order);
    }
    for _ in 1..20 {
        group.receive().unwrap();
    }
    let times = group.seconds().expect("it has a thread");
    assert_eq!(times.group, "doubling");
    assert!(
        times.busy > 0.0 && times.input + times.output > 0.0,
        "{times:?}"
    );
    // There are more orders than the pipes hold, so training waited for room.
    let waited = training.read("training");
    assert!(waited.output > 0.0, "{waited:?}");
    assert_eq!(waited.busy, 0.0);

    let (work, _hears) = double(None);
    let within = Arc::new(StageClock::default());
    let mut group = StageHandle::start(None, work, Arc::clone(&within)).unwrap();
    group.order(1);
    group.receive().unwrap();
    assert_eq!(group.seconds(), None);
    assert!(within.read("training").busy > 0.0);
}
