//! Threads whose results are needed.

use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

/// Joins a thread and returns its result, resuming a panic.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
