//! Locks that stay usable after a panic of a thread that held them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`. A panic of another holder is reported where its thread is joined, not here.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
