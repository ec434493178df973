//! The number of threads with which libtorch computes.

use std::cell::Cell;

/// Makes libtorch compute every operation of this thread on this thread.
///
/// OpenMP keeps the number of threads per thread: a worker that does not set it would have its own team of threads
/// spinning beside it. Every function that is called from outside calls this first.
pub(super) fn on_this_thread() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !DONE.replace(true) {
        tch::set_num_threads(1);
    }
}
