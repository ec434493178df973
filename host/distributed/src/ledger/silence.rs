//! Tracks how long the register has not answered: decides when to notify the user, and when to end a wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pbg_core::event::Event;
use pbg_core::lock::lock;
use pbg_ledger::transport::NoAnswer;

/// Duration of silence after which the user is notified.
const WORTH_TELLING: Duration = Duration::from_secs(2);
/// Interval between repeated notifications.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Duration of silence after which a trainer that must stop waits no longer. Together with the last request, the end of
/// the threads and the leave transaction, this stays within the 10 seconds that Ctrl-C promises.
const PARTING: Duration = Duration::from_secs(4);
/// Interval at which a wait checks whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// The user who started this trainer: can ask it to stop, and receives events while its threads wait.
#[derive(Clone)]
pub(crate) struct UserHandle {
    /// Set when the trainer must stop.
    pub(crate) stop: Arc<AtomicBool>,
    /// Receives events, from any thread.
    pub(crate) tell: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Default for UserHandle {
    /// A user who never asks to stop and ignores all events.
    fn default() -> Self {
        Self {
            stop: Arc::default(),
            tell: Arc::new(drop),
        }
    }
}

/// Kind of request to the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Read,
    Write,
}

/// Unanswered requests of one kind.
#[derive(Clone, Debug)]
struct Unanswered {
    since: Instant,
    /// Error of the last of these requests.
    what: String,
}

/// The last notification of the user.
#[derive(Clone, Copy, Debug)]
struct Notification {
    /// Time of the notification.
    at: Instant,
    /// Start of the silence.
    since: Instant,
}

#[derive(Default)]
struct State {
    reads: Option<Unanswered>,
    writes: Option<Unanswered>,
    /// The last notification about the current silence; `None` once the user knows that it is over.
    told: Option<Notification>,
    /// Whether unanswered writes were forgotten that the user was told of, and none was answered since: an answered read
    /// does not mean that the register can be written again.
    writes_unknown: bool,
    /// When it was first noticed that the trainer must stop.
    stopped: Option<Instant>,
    /// When the last request was made.
    asked: Option<Instant>,
}

/// The register's silence, shared by all threads of a trainer.
pub(super) struct SilenceMonitor {
    state: Mutex<State>,
    user: UserHandle,
    patience: Duration,
    /// Whether the trainer has failed. It then waits no longer than one that was asked to stop.
    failed: AtomicBool,
    /// Whether the trainer's participation has ended. Nothing is waited for.
    closed: AtomicBool,
}

impl SilenceMonitor {
    pub(super) fn new(user: UserHandle, patience: Duration) -> Self {
        Self {
            state: Mutex::default(),
            user,
            patience,
            failed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    /// Makes a request, and records whether it was answered.
    pub(super) fn request<T>(
        &self,
        request: Request,
        ask: impl FnOnce() -> Result<T, NoAnswer>,
    ) -> Result<T, NoAnswer> {
        let began = pbg_clock::now();
        let pending = || Unanswered {
            since: began,
            what: "no answer yet".to_owned(),
        };
        {
            let mut state = lock(&self.state);
            state.asked = Some(began);
            state.of(request).get_or_insert_with(pending);
        }
        let answer = ask();
        match &answer {
            Ok(_) => self.answered(request),
            Err(NoAnswer(what)) => {
                let mut state = lock(&self.state);
                state
                    .of(request)
                    .get_or_insert_with(pending)
                    .what
                    .clone_from(what);
            }
        }
        answer
    }

    fn answered(&self, request: Request) {
        let told = {
            let mut state = lock(&self.state);
            *state.of(request) = None;
            state.writes_unknown &= request == Request::Read;
            let is_over = state.reads.is_none() && state.writes.is_none() && !state.writes_unknown;
            state.told.take_if(|_| is_over)
        };
        if let Some(Notification { since, .. }) = told {
            let seconds = pbg_clock::elapsed(since).as_secs_f64();
            (self.user.tell)(Event::LedgerAnswers { seconds });
        }
    }

    /// Forgets unanswered writes. Called when no thread waits for a write any more.
    pub(super) fn forget_writes(&self) {
        let mut state = lock(&self.state);
        state.writes_unknown |= state.writes.take().is_some() && state.told.is_some();
    }

    /// Notifies the user of a silence that has lasted long enough, and repeats the notification at intervals.
    pub(super) fn notify_user(&self) {
        self.note_stop();
        let event = {
            let mut state = lock(&self.state);
            let Some(unanswered) = state.longest().filter(|u| u.lasts(WORTH_TELLING)) else {
                return;
            };
            if state
                .told
                .is_some_and(|told| pbg_clock::elapsed(told.at) < TELL_AGAIN)
            {
                return;
            }
            state.told = Some(Notification {
                at: pbg_clock::now(),
                since: unanswered.since,
            });
            let silent = pbg_clock::elapsed(unanswered.since);
            Event::LedgerSilent {
                what: unanswered.what,
                seconds: silent.as_secs_f64(),
                patience_seconds: self.patience.saturating_sub(silent).as_secs_f64(),
            }
        };
        (self.user.tell)(event);
    }

    /// Whether the register has not answered for a while.
    pub(super) fn is_silent(&self) -> bool {
        let longest = lock(&self.state).longest();
        longest.is_some_and(|unanswered| unanswered.lasts(WORTH_TELLING))
    }

    /// Whether a request was made within `time`.
    pub(super) fn was_asked_within(&self, time: Duration) -> bool {
        lock(&self.state)
            .asked
            .is_some_and(|asked| pbg_clock::elapsed(asked) < time)
    }

    /// Whether to end a wait regardless of the remaining patience: the trainer's participation has ended, or the
    /// trainer must stop and the register has been silent since.
    pub(super) fn ends_waits(&self) -> bool {
        self.is_closed() || {
            self.note_stop();
            let state = lock(&self.state);
            let is_silent = state.longest().is_some_and(|u| u.lasts(PARTING));
            is_silent
                && state
                    .stopped
                    .is_some_and(|at| pbg_clock::elapsed(at) >= PARTING)
        }
    }

    fn note_stop(&self) {
        if self.is_hurried() {
            lock(&self.state).stopped.get_or_insert_with(pbg_clock::now);
        }
    }

    /// Whether the trainer must stop or has failed.
    fn is_hurried(&self) -> bool {
        self.user.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed)
    }

    /// Records that the trainer has failed: it waits for the register no longer than one that must stop.
    pub(super) fn hurry(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// Records that the trainer's participation has ended, which ends every wait.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Whether the trainer's participation has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Waits before the next attempt. Returns early if the trainer is asked to stop meanwhile.
    pub(super) fn pause(&self, wait: Duration) {
        let (started, was_hurried) = (pbg_clock::now(), self.is_hurried());
        while !self.is_closed() && self.is_hurried() == was_hurried {
            let left = wait.saturating_sub(pbg_clock::elapsed(started));
            if left.is_zero() {
                return;
            }
            pbg_clock::sleep(left.min(LOOK));
        }
    }
}

impl State {
    const fn of(&mut self, request: Request) -> &mut Option<Unanswered> {
        match request {
            Request::Read => &mut self.reads,
            Request::Write => &mut self.writes,
        }
    }

    fn longest(&self) -> Option<Unanswered> {
        let all = self.reads.iter().chain(&self.writes);
        all.min_by_key(|unanswered| unanswered.since).cloned()
    }
}

impl Unanswered {
    fn lasts(&self, time: Duration) -> bool {
        pbg_clock::elapsed(self.since) >= time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard() -> (UserHandle, Arc<Mutex<Vec<Event>>>) {
        let told = Arc::<Mutex<Vec<Event>>>::default();
        let into = Arc::clone(&told);
        let tell = move |event| into.lock().unwrap().push(event);
        let user = UserHandle {
            stop: Arc::default(),
            tell: Arc::new(tell),
        };
        (user, told)
    }

    fn long_ago() -> Instant {
        pbg_clock::now()
            .checked_sub(Duration::from_secs(20))
            .unwrap()
    }

    /// Moves the start of all unanswered requests into the past.
    fn backdate(silence: &SilenceMonitor) {
        let mut state = lock(&silence.state);
        let State { reads, writes, .. } = &mut *state;
        for unanswered in reads.iter_mut().chain(writes) {
            unanswered.since = long_ago();
        }
    }

    fn no() -> Result<(), NoAnswer> {
        Err(NoAnswer("no route".to_owned()))
    }

    #[test]
    fn the_user_is_told_once_that_nothing_answers_and_once_that_it_does() {
        let (user, told) = heard();
        let silence = SilenceMonitor::new(user, Duration::from_secs(600));
        silence.request(Request::Read, no).unwrap_err();
        silence.notify_user();
        assert!(
            told.lock().unwrap().is_empty(),
            "a short silence is not reported"
        );
        backdate(&silence);
        silence.notify_user();
        silence.notify_user();
        silence.request(Request::Read, || Ok(())).unwrap();
        silence.request(Request::Read, || Ok(())).unwrap();
        let told = told.lock().unwrap();
        assert!(
            matches!(
                &told[..],
                [Event::LedgerSilent { what, seconds, patience_seconds }, Event::LedgerAnswers { .. }]
                    if what == "no route" && *seconds >= 20.0 && *patience_seconds <= 580.0
            ),
            "{told:?}"
        );
    }

    #[test]
    fn a_request_that_is_under_way_is_told_about_too() {
        let (user, told) = heard();
        let silence = SilenceMonitor::new(user, Duration::from_secs(600));
        let asked = silence.request(Request::Read, || {
            backdate(&silence);
            silence.notify_user();
            Ok(told.lock().unwrap().len())
        });
        assert_eq!(asked, Ok(1));
    }

    #[test]
    fn reads_that_are_answered_do_not_hide_that_writes_are_not() {
        let (user, told) = heard();
        let silence = SilenceMonitor::new(user, Duration::from_secs(600));
        silence.request(Request::Write, no).unwrap_err();
        backdate(&silence);
        silence.request(Request::Read, || Ok(())).unwrap();
        silence.notify_user();
        assert_eq!(told.lock().unwrap().len(), 1);
        silence.request(Request::Read, || Ok(())).unwrap();
        assert_eq!(told.lock().unwrap().len(), 1, "writes are still unanswered");
        silence.request(Request::Write, || Ok(())).unwrap();
        assert_eq!(told.lock().unwrap().len(), 2);
    }

    #[test]
    fn after_forgotten_writes_the_next_one_tells_that_the_register_answers() {
        let (user, told) = heard();
        let silence = SilenceMonitor::new(user, Duration::from_secs(600));
        silence.request(Request::Write, no).unwrap_err();
        backdate(&silence);
        silence.notify_user();
        // The record shows that the write arrived, although its answer was lost.
        silence.request(Request::Read, || Ok(())).unwrap();
        silence.forget_writes();
        silence.request(Request::Read, || Ok(())).unwrap();
        assert_eq!(told.lock().unwrap().len(), 1);
        silence.request(Request::Write, || Ok(())).unwrap();
        let told = told.lock().unwrap();
        assert!(matches!(told[1], Event::LedgerAnswers { .. }), "{told:?}");
    }

    #[test]
    fn a_forgotten_write_that_nobody_was_told_of_leaves_no_trace() {
        let (user, told) = heard();
        let silence = SilenceMonitor::new(user, Duration::from_secs(600));
        silence.request(Request::Write, no).unwrap_err();
        silence.forget_writes();
        silence.request(Request::Read, no).unwrap_err();
        backdate(&silence);
        silence.notify_user();
        silence.request(Request::Read, || Ok(())).unwrap();
        let told = told.lock().unwrap();
        let [Event::LedgerSilent { .. }, Event::LedgerAnswers { .. }] = &told[..] else {
            panic!("{told:?}");
        };
    }

    #[test]
    fn one_that_is_to_stop_bears_less() {
        let (user, _) = heard();
        let silence = SilenceMonitor::new(user.clone(), Duration::from_secs(600));
        silence.request(Request::Read, no).unwrap_err();
        backdate(&silence);
        assert!(!silence.ends_waits());
        user.stop.store(true, Ordering::Relaxed);
        assert!(
            !silence.ends_waits(),
            "the register still has time to answer"
        );
        lock(&silence.state).stopped = Some(long_ago());
        assert!(silence.ends_waits());
        silence.request(Request::Read, || Ok(())).unwrap();
        assert!(!silence.ends_waits(), "the register answers");
        silence.close();
        assert!(silence.ends_waits());
    }
}
