//! Stacks of simulated threads, which take turns on one thread of the operating system, so that passing the turn on costs
//! no system call.

use std::mem::ManuallyDrop;

use generator::{Generator, Gn};

/// Size of a stack in bytes. Untouched parts take no memory.
const STACK: usize = 1 << 20;

/// A simulated thread that waits for its turn. One that is dropped before its end never goes on: no destructor runs, and
/// its stack stays until the program ends.
pub(crate) struct Coroutine(ManuallyDrop<Generator<'static, (), ()>>);

impl Coroutine {
    /// Creates a thread that does `work`, beginning with its first turn.
    pub(crate) fn new(work: impl FnOnce() + Send + 'static) -> Self {
        let words = STACK / size_of::<usize>();
        Self(ManuallyDrop::new(Gn::new_opt(words, work)))
    }

    /// Lets the thread run until it [passes the turn on](pass_on). Returns it, or `None` if it has ended.
    pub(crate) fn resume(mut self) -> Option<Self> {
        self.0.resume();
        if !self.0.is_done() {
            return Some(self);
        }
        drop(ManuallyDrop::into_inner(self.0));
        None
    }
}

/// Passes the turn of the calling coroutine on, and returns when it is resumed.
pub(crate) fn pass_on() {
    #[expect(
        deprecated,
        reason = "a thread waits deep in its calls, where a scope cannot be passed on"
    )]
    generator::yield_with(());
}
