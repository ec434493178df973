//! A virtual clock under which one thread runs at a time. A seed decides which.
//!
//! Every thread of every simulated process is a [coroutine](Coroutine) that waits for its turn. It keeps its turn until it
//! waits for something ([`Clock::wait`]); then the world chooses among the threads that can go on. If there are none, the
//! time advances to the earliest moment at which one can. Computing takes no virtual time.
//!
//! A process that is killed never gets another turn, as after `kill -9`: no destructor runs, and its files stay as they
//! are. The stacks of its threads remain until the program that simulates ends.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::{Duration, Instant};

use pbg_clock::{Clock, FileOperation, WaitKey};
use pbg_core::lock::lock;

use crate::coroutines::{self, Coroutine};
use crate::dice::Dice;
use crate::disk::{Disk, DiskFaults};
use crate::fault::{FaultCounts, Injector, SimFault};

/// Index of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process(usize);

/// How often a process is disturbed when one of its threads begins to wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disturbances {
    /// Probability that the process is paused.
    pub(crate) pause: f64,
    /// Longest pause.
    pub(crate) longest: Duration,
    /// Probability that the process is killed, or that its machine loses its power.
    pub(crate) kill: f64,
}

enum TaskState {
    Running,
    Waiting {
        key: WaitKey,
        until: Option<Duration>,
    },
    Ended,
}

struct Task {
    process: Process,
    state: TaskState,
}

/// Index of the thread that runs a world: the first of its first process. It resumes the others.
const FIRST: usize = 0;

struct ProcessState {
    is_alive: bool,
    paused_until: Duration,
    disturbances: Disturbances,
    /// Difference between the process's calendar and the true one, in seconds.
    calendar_error: f64,
}

struct State {
    now: Duration,
    dice: Dice,
    tasks: Vec<Task>,
    /// Threads that may run again, in the order of their creation: those that have not ended, of processes that are alive.
    left: Vec<usize>,
    /// Threads that can go on, and since when; kept for its memory.
    ready: Vec<(usize, Duration)>,
    /// The thread whose turn it is.
    running: usize,
    processes: Vec<ProcessState>,
    /// Number of turns that threads were given.
    turns: u64,
    /// Number of threads that panicked.
    panics: u64,
    injector: Injector,
    disk: Disk,
    /// Digest of all turns.
    trace: DefaultHasher,
}

/// The virtual clock of a simulation, and its processes.
pub(crate) struct SimWorld {
    me: Weak<SimWorld>,
    /// Moment at which the simulation began.
    start: Instant,
    state: Mutex<State>,
    /// Threads that wait for their turn, by index. The first has no coroutine.
    waiting: Mutex<Vec<Option<Coroutine>>>,
}

impl SimWorld {
    /// Runs `main` as the first process of a world and returns its result.
    ///
    /// # Errors
    /// When the operating system cannot create a thread.
    pub(crate) fn run<T: Send>(
        seed: u64,
        without: BTreeSet<SimFault>,
        main: impl FnOnce(&Arc<Self>) -> T + Send,
    ) -> io::Result<T> {
        let start = pbg_clock::now();
        let world = Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            start,
            state: Mutex::new(State {
                now: Duration::ZERO,
                dice: Dice::new(seed),
                tasks: Vec::new(),
                left: Vec::new(),
                ready: Vec::new(),
                running: FIRST,
                processes: Vec::new(),
                turns: 0,
                panics: 0,
                injector: Injector::new(without),
                disk: Disk::default(),
                trace: DefaultHasher::new(),
            }),
            waiting: Mutex::new(vec![None]),
        });
        {
            let mut state = lock(&world.state);
            let process = state.add_process();
            state.add_task(process);
            state.tasks[FIRST].state = TaskState::Running;
        }
        thread::scope(|scope| {
            let builder = thread::Builder::new().name("simulation".to_owned());
            let running = builder.spawn_scoped(scope, || {
                <dyn Clock>::enter(Arc::clone(&world) as Arc<dyn Clock>);
                main(&world)
            })?;
            Ok(running
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// Starts a process that does `work`.
    ///
    /// # Errors
    /// When the operating system cannot create a thread.
    pub(crate) fn start_process(
        &self,
        disturbances: Disturbances,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<Process> {
        let process = {
            let mut state = lock(&self.state);
            let process = state.add_process();
            state.processes[process.0].disturbances = disturbances;
            process
        };
        self.start_task(process, Box::new(work))?;
        Ok(process)
    }

    /// Kills a process other than the calling one.
    pub(crate) fn kill(&self, process: Process) {
        lock(&self.state).kill(process);
    }

    /// Cuts the power of the machine of a process other than the calling one.
    pub(crate) fn cut_power(&self, process: Process) {
        lock(&self.state).cut_power(process);
    }

    /// Pauses a process other than the calling one.
    pub(crate) fn pause(&self, process: Process, time: Duration) {
        let mut state = lock(&self.state);
        let until = state.now + time;
        if state.injector.inject(SimFault::Pause) {
            state.processes[process.0].paused_until = until;
        }
    }

    /// Disturbs the disk from now on.
    pub(crate) fn set_disk(&self, faults: DiskFaults) {
        lock(&self.state).disk.faults = faults;
    }

    /// Makes the disk full until a moment.
    pub(crate) fn fill_disk_until(&self, time: Duration) {
        let mut state = lock(&self.state);
        if state.injector.inject(SimFault::FullDisk) {
            state.disk.full_until = time;
        }
    }

    /// Returns whether a fault of this kind is to happen, and counts it.
    pub(crate) fn inject(&self, fault: SimFault) -> bool {
        lock(&self.state).injector.inject(fault)
    }

    /// Returns how often each kind of fault was injected so far.
    pub(crate) fn faults(&self) -> FaultCounts {
        lock(&self.state).injector.counts().clone()
    }

    /// Ends the disturbances of a process.
    pub(crate) fn leave_alone(&self, process: Process) {
        lock(&self.state).processes[process.0].disturbances = Disturbances::default();
    }

    /// Ends the disturbances of the disk.
    pub(crate) fn restore_disk(&self) {
        let mut state = lock(&self.state);
        state.disk.faults = DiskFaults::default();
        state.disk.full_until = Duration::ZERO;
    }

    /// Sets a process's calendar wrong by `seconds`.
    pub(crate) fn set_calendar(&self, process: Process, seconds: f64) {
        let mut state = lock(&self.state);
        if state.injector.inject(SimFault::WrongCalendar) {
            state.processes[process.0].calendar_error = seconds;
        }
    }

    /// Whether a process is paused now.
    pub(crate) fn is_paused(&self, process: Process) -> bool {
        let state = lock(&self.state);
        state.processes[process.0].paused_until > state.now
    }

    /// Whether a process was not killed.
    pub(crate) fn is_alive(&self, process: Process) -> bool {
        lock(&self.state).processes[process.0].is_alive
    }

    /// Returns the time since the simulation began.
    pub(crate) fn time(&self) -> Duration {
        lock(&self.state).now
    }

    /// Returns the process of the calling thread.
    pub(crate) fn current(&self) -> Process {
        let state = lock(&self.state);
        state.tasks[state.running].process
    }

    /// Draws from the world's dice.
    pub(crate) fn draw<T>(&self, draw: impl FnOnce(&mut Dice) -> T) -> T {
        draw(&mut lock(&self.state).dice)
    }

    /// Returns the number of turns so far.
    pub(crate) fn turns(&self) -> u64 {
        lock(&self.state).turns
    }

    /// Returns the number of threads that panicked so far.
    pub(crate) fn panics(&self) -> u64 {
        lock(&self.state).panics
    }

    /// Returns a digest of all turns so far: equal runs have equal digests.
    pub(crate) fn digest(&self) -> u64 {
        lock(&self.state).trace.finish()
    }

    fn start_task(&self, process: Process, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let world = self.me.upgrade().ok_or(io::ErrorKind::NotFound)?;
        let index = lock(&self.state).add_task(process);
        let run = move || {
            let ended = catch_unwind(AssertUnwindSafe(work));
            let mut state = lock(&world.state);
            state.end(index);
            state.panics += u64::from(ended.is_err());
            state.grant_next();
        };
        lock(&self.waiting).push(Some(Coroutine::new(run)));
        Ok(())
    }

    /// Passes the turn on and waits for the next one.
    fn hand_over(&self, mut state: MutexGuard<'_, State>) {
        let own = state.running;
        state.grant_next();
        let mut running = state.running;
        drop(state);
        if own != FIRST {
            // Nothing needs to be passed on to oneself.
            if running != own {
                coroutines::pass_on();
            }
            return;
        }
        while running != FIRST {
            let next = lock(&self.waiting)[running].take();
            let left = next.and_then(Coroutine::resume);
            lock(&self.waiting)[running] = left;
            running = lock(&self.state).running;
        }
    }
}

impl Clock for SimWorld {
    fn now(&self) -> Instant {
        self.start + lock(&self.state).now
    }

    fn unix_time(&self) -> Duration {
        let state = lock(&self.state);
        let process = state.tasks[state.running].process;
        let error = state.processes[process.0].calendar_error;
        let seconds = 1.8e9 + state.now.as_secs_f64() + error;
        Duration::from_secs_f64(seconds.max(0.0))
    }

    fn random_u64(&self) -> u64 {
        self.draw(Dice::bits)
    }

    fn wait(&self, key: WaitKey, until: Option<Instant>) {
        let until = until.map(|until| until.saturating_duration_since(self.start));
        let mut state = lock(&self.state);
        let task = state.running;
        state.tasks[task].state = TaskState::Waiting { key, until };
        let process = state.tasks[task].process;
        state.disturb(process);
        self.hand_over(state);
    }

    fn wake(&self, key: WaitKey) {
        let mut state = lock(&self.state);
        let State {
            now, tasks, left, ..
        } = &mut *state;
        for index in left {
            if let TaskState::Waiting { key: of, until } = &mut tasks[*index].state
                && *of == key
            {
                *until = Some(*now);
            }
        }
    }

    fn spawn(&self, _: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        self.start_task(self.current(), work)
    }

    fn begin_file_operation(&self, operation: FileOperation, path: &Path) -> io::Result<()> {
        let until = {
            let mut state = lock(&self.state);
            let State {
                now,
                dice,
                injector,
                disk,
                ..
            } = &mut *state;
            *now + disk.delay(dice, injector)
        };
        // Another thread may run first, even if this takes no time.
        loop {
            self.wait(WaitKey::of(&until), Some(self.start + until));
            if self.time() >= until {
                break;
            }
        }
        let mut state = lock(&self.state);
        let (now, process) = (state.now, state.tasks[state.running].process);
        match operation {
            FileOperation::Write => state.disk.begin_write(now, process, path),
            FileOperation::Remove => {
                state.disk.removed(path);
                Ok(())
            }
        }
    }

    fn file_synced(&self, path: &Path) {
        lock(&self.state).disk.synced(path);
    }

    fn file_renamed(&self, from: &Path, to: &Path) {
        lock(&self.state).disk.renamed(from, to);
    }
}

impl State {
    fn add_process(&mut self) -> Process {
        self.processes.push(ProcessState {
            is_alive: true,
            paused_until: Duration::ZERO,
            disturbances: Disturbances::default(),
            calendar_error: 0.0,
        });
        Process(self.processes.len() - 1)
    }

    /// Adds a thread that can run at once, and returns its index.
    fn add_task(&mut self, process: Process) -> usize {
        let state = TaskState::Waiting {
            key: WaitKey(0),
            until: Some(self.now),
        };
        let index = self.tasks.len();
        self.tasks.push(Task { process, state });
        self.left.push(index);
        index
    }

    /// Ends a thread.
    fn end(&mut self, index: usize) {
        self.tasks[index].state = TaskState::Ended;
        self.left.retain(|left| *left != index);
    }

    fn disturb(&mut self, process: Process) {
        let Disturbances {
            pause,
            longest,
            kill,
        } = self.processes[process.0].disturbances;
        if kill > 0.0 && self.dice.chance(kill) {
            match self.dice.chance(0.5) {
                true => self.kill(process),
                false => self.cut_power(process),
            }
        }
        if pause > 0.0 && self.dice.chance(pause) {
            let time = self.dice.duration(longest);
            if self.injector.inject(SimFault::Pause) {
                self.processes[process.0].paused_until = self.now + time;
            }
        }
    }

    fn kill(&mut self, process: Process) {
        if self.processes[process.0].is_alive && self.injector.inject(SimFault::Kill) {
            self.end_process(process);
        }
    }

    fn end_process(&mut self, process: Process) {
        self.processes[process.0].is_alive = false;
        let tasks = &self.tasks;
        self.left.retain(|index| tasks[*index].process != process);
    }

    /// Kills a process. Files that it has not synced keep only what was on the disk before.
    fn cut_power(&mut self, process: Process) {
        if !self.processes[process.0].is_alive || !self.injector.inject(SimFault::PowerLoss) {
            return;
        }
        self.end_process(process);
        self.disk.lose_unsynced(process);
    }

    /// Returns when a thread of a living process can go on; `None` if only another thread can wake it.
    fn ready_at(&self, task: &Task) -> Option<Duration> {
        match task.state {
            TaskState::Waiting {
                until: Some(until), ..
            } => Some(until.max(self.processes[task.process.0].paused_until)),
            _ => None,
        }
    }

    /// Gives the turn to one of the threads that can go on, after advancing the time if there are none.
    fn grant_next(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        for index in &self.left {
            ready.extend(
                self.ready_at(&self.tasks[*index])
                    .map(|time| (*index, time)),
            );
        }
        // If nobody can ever go on, the simulation has ended: its first thread always waits with a limit.
        if let Some(earliest) = ready.iter().map(|(_, time)| *time).min() {
            self.now = self.now.max(earliest);
            ready.retain(|(_, time)| *time <= self.now);
            let (next, _) = ready[self.dice.below(ready.len())];
            self.turns += 1;
            (next, self.now).hash(&mut self.trace);
            self.tasks[next].state = TaskState::Running;
            self.running = next;
        }
        self.ready = ready;
    }
}
