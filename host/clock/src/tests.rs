//! Waiting on the machine's clock. The simulation (`pbg-sim`) tests the same under a virtual one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{TryRecvError, TrySendError};
use std::time::Duration;

use crate::{Exclusive, Monitor, channel, now, spawn};

const LONG: Duration = Duration::from_secs(600);

#[test]
fn a_change_ends_the_wait_for_it_and_a_limit_ends_any() {
    let monitor = Arc::new(Monitor::new(0));
    let counts = Arc::clone(&monitor);
    let thread = spawn("counts", move || counts.change(|count| *count += 1)).unwrap();
    assert_eq!(*monitor.wait_while(LONG, |count| *count == 0), 1);
    thread.join().unwrap();
    let value = monitor.wait_while(Duration::from_millis(1), |count| *count < 5);
    assert_eq!(*value, 1);
}

#[test]
fn one_thread_at_a_time_has_an_exclusive_value() {
    let value = Arc::new(Exclusive::<u64>::default());
    let users = Arc::new(AtomicU32::new(0));
    let threads = (0..4).map(|_| {
        let (value, users) = (Arc::clone(&value), Arc::clone(&users));
        let work = move || {
            for _ in 0..100 {
                let mut count = value.take();
                assert_eq!(users.fetch_add(1, Ordering::SeqCst), 0);
                *count += 1;
                users.fetch_sub(1, Ordering::SeqCst);
            }
        };
        spawn("user", work).unwrap()
    });
    let threads: Vec<_> = threads.collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let count = value.take();
    assert_eq!(*count, 400);
    assert!(value.take_until(now()).is_none(), "it is in use");
}

#[test]
fn a_channel_holds_its_bound_and_ends_with_either_end() {
    let (sender, receiver) = channel(1);
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    sender.send(1).unwrap();
    assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
    let sending = spawn("sender", move || sender.send(3).unwrap()).unwrap();
    assert_eq!(receiver.recv(), Ok(1));
    assert_eq!(receiver.recv(), Ok(3));
    sending.join().unwrap();
    assert!(receiver.recv().is_err());
    let (sender, receiver) = channel(1);
    drop(receiver);
    assert!(sender.send(1).is_err());
}

#[test]
fn the_panic_of_a_thread_is_the_error_of_its_join() {
    let thread = spawn("fails", || panic!("as intended")).unwrap();
    let panic = thread.join().unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"as intended"));
}
