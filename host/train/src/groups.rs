//! Groups of the pipeline as threads: each takes orders from a bounded pipe and hands on what it made through
//! another.
//!
//! A group ends when its orders do, or at its first error, which is handed on as the last that it made. A group
//! that the pipeline lacks has no thread: its work is done by the thread that orders it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::batch_graph::pipeline::TRAINING;
use pbg_core::event::GroupSeconds;

use crate::crew::panicked;
use crate::error::RunError;

/// What a group does.
pub(crate) trait Work: Send + Sync + 'static {
    /// What it is asked for.
    type Order: Send;
    /// What it makes of it.
    type Made: Send;

    /// Carries out an order.
    ///
    /// # Errors
    /// The cause that the group ends with.
    fn perform(&mut self, order: Self::Order) -> Result<Self::Made, RunError>;

    /// Whether orders left something that is done while there are no others.
    fn unfinished(&self) -> bool {
        false
    }

    /// Does a piece of that; what it made, if anything.
    ///
    /// # Errors
    /// The cause that the group ends with.
    fn go_on(&mut self) -> Result<Option<Self::Made>, RunError> {
        Ok(None)
    }
}

type Answer<W> = Result<<W as Work>::Made, RunError>;

/// Where a group's time goes, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    busy: AtomicU64,
    input: AtomicU64,
    output: AtomicU64,
}

impl Clock {
    /// Adds time that the group worked.
    pub(crate) fn worked(&self, time: Duration) {
        add(&self.busy, time);
    }

    /// What `work` takes is time that the group waited for something to work on.
    pub(crate) fn waits_for_input<T>(&self, work: impl FnOnce() -> T) -> T {
        timed(&self.input, work)
    }

    /// What `work` takes is time that the group waited for somebody to take what it made.
    pub(crate) fn waits_for_output<T>(&self, work: impl FnOnce() -> T) -> T {
        timed(&self.output, work)
    }

    /// The times so far, of the group of this name.
    pub(crate) fn read(&self, group: &str) -> GroupSeconds {
        let seconds = |part: &AtomicU64| 1e-9 * part.load(Ordering::Relaxed) as f64;
        GroupSeconds {
            group: group.to_owned(),
            busy: seconds(&self.busy),
            input: seconds(&self.input),
            output: seconds(&self.output),
        }
    }
}

fn add(part: &AtomicU64, time: Duration) {
    part.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Adds the time that `work` takes to a part of a clock.
fn timed<T>(part: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    add(part, started.elapsed());
    result
}

/// A group, as training sees it.
pub(crate) struct GroupHandle<W: Work> {
    place: Place<W>,
    /// What it made that was not asked for yet.
    kept: VecDeque<Answer<W>>,
    /// Training's own.
    training: Arc<Clock>,
}

enum Place<W: Work> {
    /// A thread of its own.
    Beside(Thread<W>),
    /// The thread that gives the orders; no work any more after an error.
    Within(Option<W>),
}

struct Thread<W: Work> {
    name: String,
    clock: Arc<Clock>,
    /// Dropping it ends the thread.
    orders: Option<SyncSender<W::Order>>,
    /// Never locked: it makes the group one that threads may share.
    made: Mutex<Receiver<Answer<W>>>,
    handle: Option<JoinHandle<()>>,
}

impl<W: Work> GroupHandle<W> {
    /// Starts a group for training, whose clock is `training`. `pipe` is the name of the group and how many
    /// orders and, apart from them, answers may wait; without it, orders are carried out by who gives them.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(
        pipe: Option<(&str, usize)>,
        work: W,
        training: Arc<Clock>,
    ) -> Result<Self, RunError> {
        Ok(Self {
            place: match pipe {
                Some((name, bound)) => Place::Beside(Thread::start(name, bound, work)?),
                None => Place::Within(Some(work)),
            },
            kept: VecDeque::new(),
            training,
        })
    }

    /// Has an order carried out. While the pipe is full, what the group made is taken from it and kept, so
    /// neither waits for the other.
    pub(crate) fn order(&mut self, order: W::Order) {
        match &mut self.place {
            Place::Within(work) => {
                let kept = &mut self.kept;
                timed(&self.training.busy, || perform_here(work, order, kept));
            }
            Place::Beside(thread) => {
                let mut next = Some(order);
                while let Some(order) = next.take() {
                    next = thread.offer(order);
                    if next.is_some() {
                        let made = timed(&self.training.output, || thread.receive());
                        // A group that is gone is noticed by `receive`, which waits for its answer.
                        let Ok(made) = made else { return };
                        self.kept.push_back(made);
                    }
                }
            }
        }
    }

    /// The next that the group made, waited for.
    ///
    /// # Errors
    /// What the group ended with.
    pub(crate) fn receive(&mut self) -> Result<W::Made, RunError> {
        match (self.kept.pop_front(), &mut self.place) {
            (Some(made), _) => made,
            (None, Place::Beside(thread)) => timed(&self.training.input, || thread.receive())?,
            (None, Place::Within(_)) => Err(RunError::GroupEnded {
                group: TRAINING.to_owned(),
            }),
        }
    }

    /// The next that the group made, if there is one by now.
    ///
    /// # Errors
    /// What the group ended with.
    pub(crate) fn received(&mut self) -> Result<Option<W::Made>, RunError> {
        match (self.kept.pop_front(), &mut self.place) {
            (Some(made), _) => made.map(Some),
            (None, Place::Beside(thread)) => thread.received(),
            (None, Place::Within(_)) => Ok(None),
        }
    }

    /// Where its time went so far; none of a group without a thread.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        match &self.place {
            Place::Beside(thread) => Some(thread.clock.read(&thread.name)),
            Place::Within(_) => None,
        }
    }
}

/// Carries out an order and all that it leaves to do.
fn perform_here<W: Work>(place: &mut Option<W>, order: W::Order, kept: &mut VecDeque<Answer<W>>) {
    let Some(work) = place else { return };
    let mut made = work.perform(order).map(Some);
    loop {
        let failed = made.is_err();
        kept.extend(made.transpose());
        if failed {
            *place = None;
            return;
        }
        if !work.unfinished() {
            return;
        }
        made = work.go_on();
    }
}

impl<W: Work> Thread<W> {
    fn start(name: &str, bound: usize, work: W) -> Result<Self, RunError> {
        let (orders, taken) = sync_channel(bound);
        let (report, made) = sync_channel(bound);
        let clock = Arc::new(Clock::default());
        let own = Arc::clone(&clock);
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(work, &taken, &report, &own))
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            clock,
            orders: Some(orders),
            made: Mutex::new(made),
            handle: Some(handle),
        })
    }

    /// Gives an order, which comes back if the pipe is full.
    fn offer(&self, order: W::Order) -> Option<W::Order> {
        match self.orders.as_ref()?.try_send(order) {
            Err(TrySendError::Full(order)) => Some(order),
            // A group that is gone is noticed by `receive`.
            Ok(()) | Err(TrySendError::Disconnected(_)) => None,
        }
    }

    fn receive(&mut self) -> Result<Answer<W>, RunError> {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        made.recv().map_err(|_| self.ended())
    }

    fn received(&mut self) -> Result<Option<W::Made>, RunError> {
        let made = self.made.get_mut().unwrap_or_else(PoisonError::into_inner);
        match made.try_recv() {
            Ok(made) => made.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(self.ended()),
        }
    }

    /// Why it makes nothing any more, after what it failed with was received.
    fn ended(&mut self) -> RunError {
        match self.handle.take().map(JoinHandle::join) {
            Some(Err(panic)) => panicked(&*panic),
            Some(Ok(())) | None => RunError::GroupEnded {
                group: self.name.clone(),
            },
        }
    }
}

/// The thread's side: carries out orders until there will be no more, or one fails. What is unfinished then
/// is given up.
fn run<W: Work>(
    mut work: W,
    orders: &Receiver<W::Order>,
    report: &SyncSender<Answer<W>>,
    clock: &Clock,
) {
    loop {
        let next = match work.unfinished() {
            false => timed(&clock.input, || orders.recv()).map_err(|_| TryRecvError::Disconnected),
            true => orders.try_recv(),
        };
        let made = match next {
            Ok(order) => timed(&clock.busy, || work.perform(order).map(Some)),
            Err(TryRecvError::Empty) => timed(&clock.busy, || work.go_on()),
            Err(TryRecvError::Disconnected) => return,
        };
        let Some(made) = made.transpose() else {
            continue;
        };
        let failed = made.is_err();
        if timed(&clock.output, || report.send(made)).is_err() || failed {
            return;
        }
    }
}

impl<W: Work> Drop for Thread<W> {
    /// Ends the group and waits for its end. What it still makes is taken from its pipe, so that it can.
    fn drop(&mut self) {
        self.orders = None;
        // The last answer waits for the end of the thread. What that panicked with was printed.
        while self.receive().is_ok() {}
    }
}

#[cfg(test)]
mod tests;
