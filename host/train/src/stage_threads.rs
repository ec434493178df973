//! Groups of the pipeline as threads: each receives orders from a bounded pipe and sends its results through another.
//!
//! A group ends when its pipe of orders closes, or at its first error, which it sends as its last result. A group that
//! the pipeline lacks has no thread: the ordering thread does its work itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pbg_clock::{JoinHandle, Receiver, Sender, channel};
use pbg_core::batch_graph::pipeline::TRAINING;
use pbg_core::event::GroupSeconds;
use pbg_model::crew::panicked;
use pbg_model::error::RunError;

/// Work of a group.
pub(crate) trait StageWork: Send + Sync + 'static {
    /// Order that the group receives.
    type Order: Send;
    /// Result of an order.
    type Made: Send;

    /// Carries out an order.
    ///
    /// # Errors
    /// The error that ends the group.
    fn perform(&mut self, order: Self::Order) -> Result<Self::Made, RunError>;

    /// Whether carried out orders left work that is done while no order waits.
    fn unfinished(&self) -> bool {
        false
    }

    /// Does a piece of the unfinished work. Returns a result if the piece has one.
    ///
    /// # Errors
    /// The error that ends the group.
    fn go_on(&mut self) -> Result<Option<Self::Made>, RunError> {
        Ok(None)
    }
}

type Answer<W> = Result<<W as StageWork>::Made, RunError>;

/// Time that a group spends working and waiting, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct StageClock {
    busy: AtomicU64,
    input: AtomicU64,
    output: AtomicU64,
}

impl StageClock {
    /// Adds time that the group worked.
    pub(crate) fn worked(&self, time: Duration) {
        add(&self.busy, time);
    }

    /// Runs `work` and counts its duration as waiting for input.
    pub(crate) fn waits_for_input<T>(&self, work: impl FnOnce() -> T) -> T {
        timed(&self.input, work)
    }

    /// Runs `work` and counts its duration as waiting until its output is taken.
    pub(crate) fn waits_for_output<T>(&self, work: impl FnOnce() -> T) -> T {
        timed(&self.output, work)
    }

    /// Returns the times so far, under the name `group`.
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

/// Runs `work` and adds its duration to a part of a clock.
fn timed<T>(part: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let started = pbg_clock::now();
    let result = work();
    add(part, pbg_clock::elapsed(started));
    result
}

/// Handle of a group, held by the training thread.
pub(crate) struct StageHandle<W: StageWork> {
    place: StageExecution<W>,
    /// Results that were received and not yet asked for.
    kept: VecDeque<Answer<W>>,
    /// Clock of the training thread.
    training: Arc<StageClock>,
}

enum StageExecution<W: StageWork> {
    /// The group has a thread.
    Threaded(Thread<W>),
    /// The thread that gives the orders does the work; `None` after an error.
    Inline(Option<W>),
}

struct Thread<W: StageWork> {
    name: String,
    clock: Arc<StageClock>,
    /// Dropping the sender ends the thread.
    orders: Option<Sender<W::Order>>,
    /// Never locked; the mutex only makes the handle `Sync`.
    made: Mutex<Receiver<Answer<W>>>,
    handle: Option<JoinHandle>,
}

impl<W: StageWork> StageHandle<W> {
    /// Starts a group for training, whose clock is `training`. `pipe` is the name of the group and the capacity of its
    /// two pipes, one for orders and one for results; without it, the calling thread carries out the orders.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub(crate) fn start(
        pipe: Option<(&str, usize)>,
        work: W,
        training: Arc<StageClock>,
    ) -> Result<Self, RunError> {
        Ok(Self {
            place: match pipe {
                Some((name, bound)) => StageExecution::Threaded(Thread::start(name, bound, work)?),
                None => StageExecution::Inline(Some(work)),
            },
            kept: VecDeque::new(),
            training,
        })
    }

    /// Passes an order to the group. While the pipe is full, results of the group are received and kept, so that
    /// neither side waits for the other.
    pub(crate) fn order(&mut self, order: W::Order) {
        match &mut self.place {
            StageExecution::Inline(work) => {
                let kept = &mut self.kept;
                timed(&self.training.busy, || perform_here(work, order, kept));
            }
            StageExecution::Threaded(thread) => {
                let mut next = Some(order);
                while let Some(order) = next.take() {
                    next = thread.offer(order);
                    if next.is_some() {
                        let made = timed(&self.training.output, || thread.receive());
                        // `receive` notices that a group has ended, since it waits for its answer.
                        let Ok(made) = made else { return };
                        self.kept.push_back(made);
                    }
                }
            }
        }
    }

    /// Waits for the next result of the group.
    ///
    /// # Errors
    /// The error that the group ended with.
    pub(crate) fn receive(&mut self) -> Result<W::Made, RunError> {
        match (self.kept.pop_front(), &mut self.place) {
            (Some(made), _) => made,
            (None, StageExecution::Threaded(thread)) => {
                timed(&self.training.input, || thread.receive())?
            }
            (None, StageExecution::Inline(_)) => Err(RunError::GroupEnded {
                group: TRAINING.to_owned(),
            }),
        }
    }

    /// Returns the next result of the group if there is one already.
    ///
    /// # Errors
    /// The error that the group ended with.
    pub(crate) fn received(&mut self) -> Result<Option<W::Made>, RunError> {
        match (self.kept.pop_front(), &mut self.place) {
            (Some(made), _) => made.map(Some),
            (None, StageExecution::Threaded(thread)) => thread.received(),
            (None, StageExecution::Inline(_)) => Ok(None),
        }
    }

    /// Returns how the group has spent its time so far; `None` for a group without a thread.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        match &self.place {
            StageExecution::Threaded(thread) => Some(thread.clock.read(&thread.name)),
            StageExecution::Inline(_) => None,
        }
    }
}

/// Carries out an order and all unfinished work that it leaves.
fn perform_here<W: StageWork>(
    place: &mut Option<W>,
    order: W::Order,
    kept: &mut VecDeque<Answer<W>>,
) {
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

impl<W: StageWork> Thread<W> {
    fn start(name: &str, bound: usize, work: W) -> Result<Self, RunError> {
        let (orders, taken) = channel(bound);
        let (report, made) = channel(bound);
        let clock = Arc::new(StageClock::default());
        let own = Arc::clone(&clock);
        let handle = pbg_clock::spawn(name, move || run(work, &taken, &report, &own))
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            clock,
            orders: Some(orders),
            made: Mutex::new(made),
            handle: Some(handle),
        })
    }

    /// Sends an order. Returns it if the pipe is full.
    fn offer(&self, order: W::Order) -> Option<W::Order> {
        match self.orders.as_ref()?.try_send(order) {
            Err(TrySendError::Full(order)) => Some(order),
            // `receive` notices that a group has ended.
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

    /// Returns the reason why the group sends no more results, after its own error was received.
    fn ended(&mut self) -> RunError {
        match self.handle.take().map(JoinHandle::join) {
            Some(Err(panic)) => panicked(&*panic),
            Some(Ok(())) | None => RunError::GroupEnded {
                group: self.name.clone(),
            },
        }
    }
}

/// Runs a group's thread: carries out orders until the pipe is closed or an order fails. Work that is unfinished then
/// is abandoned.
fn run<W: StageWork>(
    mut work: W,
    orders: &Receiver<W::Order>,
    report: &Sender<Answer<W>>,
    clock: &StageClock,
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

impl<W: StageWork> Drop for Thread<W> {
    /// Ends the group and waits for its thread. Results that it still sends are discarded, so that it does not block.
    fn drop(&mut self) {
        self.orders = None;
        // The last call of `receive` joins the thread. A panic of it was printed already.
        while self.receive().is_ok() {}
    }
}

#[cfg(test)]
mod tests;
