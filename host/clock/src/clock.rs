//! The clock of a thread.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Identity of what a thread waits for: the address of the value that other threads change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitKey(pub usize);

impl WaitKey {
    /// Returns the key of the value at this address.
    #[must_use]
    pub fn of<T>(value: &T) -> Self {
        Self(std::ptr::from_ref(value).addr())
    }
}

/// Kind of an operation that modifies a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// Creates, extends, overwrites, renames or syncs it. Needs space.
    Write,
    /// Removes it.
    Remove,
}

/// A clock other than the machine's. It decides which of its threads run, and what happens to the files that they write.
///
/// Its threads must not wait for each other in any other way than through this crate: a thread that blocks in the
/// operating system keeps all others from running.
pub trait Clock: Send + Sync {
    /// Returns the monotonic time.
    fn now(&self) -> Instant;

    /// Returns the time since 1970-01-01 00:00 UTC.
    fn unix_time(&self) -> Duration;

    /// Returns 64 random bits.
    fn random_u64(&self) -> u64;

    /// Blocks the calling thread until [`Clock::wake`] is called with `key` or until the time `until`. May return
    /// earlier, so the caller must check what it waits for.
    fn wait(&self, key: WaitKey, until: Option<Instant>);

    /// Wakes all threads that wait with `key`.
    fn wake(&self, key: WaitKey);

    /// Starts a thread under this clock.
    ///
    /// # Errors
    /// When the operating system cannot create a thread.
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()>;

    /// Passes before an operation that modifies the file or folder at `path`. Other threads may run first.
    ///
    /// # Errors
    /// When the operation is to fail.
    fn begin_file_operation(&self, operation: FileOperation, path: &Path) -> io::Result<()>;

    /// Notes that the file at `path` is on the disk.
    fn file_synced(&self, path: &Path);

    /// Notes that a file has got another name.
    fn file_renamed(&self, from: &Path, to: &Path);
}

thread_local! {
    static CLOCK: RefCell<Option<Arc<dyn Clock>>> = const { RefCell::new(None) };
}

impl dyn Clock {
    /// Sets the clock of the calling thread, for the rest of its life.
    pub fn enter(clock: Arc<dyn Clock>) {
        CLOCK.set(Some(clock));
    }
}

/// Returns the clock of the calling thread; `None` for the machine's.
pub(crate) fn simulated() -> Option<Arc<dyn Clock>> {
    CLOCK.with_borrow(Clone::clone)
}

/// Whether the calling thread has a clock other than the machine's, under which one thread runs at a time.
#[must_use]
pub fn is_virtual() -> bool {
    CLOCK.with_borrow(Option::is_some)
}

/// Returns the time of the monotonic clock.
#[must_use]
pub fn now() -> Instant {
    CLOCK.with_borrow(|clock| {
        clock
            .as_ref()
            .map_or_else(Instant::now, |clock| clock.now())
    })
}

/// Returns the time since `start`; zero if it is in the future.
#[must_use]
pub fn elapsed(start: Instant) -> Duration {
    now().saturating_duration_since(start)
}

/// Returns the time since 1970-01-01 00:00 UTC; zero if the clock is set to an earlier time.
#[must_use]
pub fn unix_time() -> Duration {
    let machine = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap_or_default()
    };
    CLOCK.with_borrow(|clock| {
        clock
            .as_ref()
            .map_or_else(machine, |clock| clock.unix_time())
    })
}

/// Passes before an operation that modifies a file, which a clock other than the machine's may delay or refuse.
///
/// # Errors
/// When the operation is to fail.
pub fn begin_file_operation(operation: FileOperation, path: &Path) -> io::Result<()> {
    let clock = simulated();
    clock.map_or(Ok(()), |clock| clock.begin_file_operation(operation, path))
}

/// Tells a clock other than the machine's that a file is on the disk.
pub fn file_synced(path: &Path) {
    if let Some(clock) = simulated() {
        clock.file_synced(path);
    }
}

/// Tells a clock other than the machine's that a file has got another name.
pub fn file_renamed(from: &Path, to: &Path) {
    if let Some(clock) = simulated() {
        clock.file_renamed(from, to);
    }
}

/// Blocks this thread for at least `duration`.
pub fn sleep(duration: Duration) {
    let Some(clock) = simulated() else {
        return thread::sleep(duration);
    };
    let until = clock.now() + duration;
    // Nobody wakes the address of a local variable.
    let key = WaitKey::of(&until);
    while clock.now() < until {
        clock.wait(key, Some(until));
    }
}
