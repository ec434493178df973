//! Threads that work on one job together: the first that fails stops the others.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::error::RunError;

/// State that the threads share.
#[derive(Debug, Default)]
pub struct Crew {
    failed: AtomicBool,
}

impl Crew {
    /// Whether one of the threads has failed, so that the others need not go on.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn watch<T>(&self, job: impl FnOnce(&Self) -> Result<T, RunError>) -> Result<T, RunError> {
        let alarm = Alarm(&self.failed);
        let made = job(self)?;
        std::mem::forget(alarm);
        Ok(made)
    }
}

/// Marks the crew as failed when it is dropped, as an error and a panic both do. On success it is forgotten instead.
struct Alarm<'c>(&'c AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs each of `jobs` on its own thread, calls `meanwhile` on this one, and waits for all threads. Once a job has
/// failed, by an error or a panic, [`Crew::has_failed`] holds for the others. Returns the results in the order of the
/// jobs. Under a virtual clock, where one thread runs at a time, this one runs the jobs one after the other.
///
/// # Errors
/// The first failure in the order of the jobs, or the system's refusal to start a thread.
pub fn run_jobs<T: Send, J>(
    jobs: impl IntoIterator<Item = J>,
    meanwhile: impl FnOnce(),
) -> Result<Vec<T>, RunError>
where
    J: FnOnce(&Crew) -> Result<T, RunError> + Send,
{
    let crew = Crew::default();
    if pbg_clock::is_virtual() {
        let done = jobs.into_iter().map(|job| crew.watch(job));
        let done = done.collect::<Vec<_>>();
        meanwhile();
        return done.into_iter().collect();
    }
    thread::scope(|scope| {
        let start = |job: J| {
            let crew = &crew;
            let started = thread::Builder::new().spawn_scoped(scope, move || crew.watch(job));
            started.map_err(|error| RunError::Thread(error.to_string()))
        };
        let started = jobs.into_iter().map(start).collect::<Result<Vec<_>, _>>();
        // The scope waits for the threads that were started.
        let handles = started.inspect_err(|_| drop(Alarm(&crew.failed)))?;
        meanwhile();
        let ended = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| Err(panicked(&*panic))));
        // All threads are joined before the first failure is returned.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// Returns the error for a thread that panicked.
pub fn panicked(panic: &(dyn Any + Send)) -> RunError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    RunError::WorkerPanic(text.unwrap_or("no message").to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    type Job<'a> = Box<dyn FnOnce(&Crew) -> Result<u32, RunError> + Send + 'a>;

    /// Waits until another job fails; otherwise, the test does not end.
    fn until_failure(crew: &Crew) -> Result<u32, RunError> {
        while !crew.has_failed() {
            thread::yield_now();
        }
        Ok(0)
    }

    #[test]
    fn the_first_that_fails_stops_the_others() {
        let all_began = Barrier::new(3);
        for panics in [false, true] {
            let wait = || -> Job<'_> {
                Box::new(|crew| {
                    all_began.wait();
                    until_failure(crew)
                })
            };
            let fail: Job<'_> = Box::new(|_| {
                all_began.wait();
                assert!(!panics, "the reason");
                Err(RunError::Interrupted)
            });
            let error = run_jobs([wait(), fail, wait()], || ()).unwrap_err();
            let expected = if panics { "the reason" } else { "stopped" };
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs = (0..5).map(|at| move |crew: &Crew| Ok((at, crew.has_failed())));
        let mut done = false;
        let made = run_jobs(jobs, || done = true).unwrap();
        assert!(done);
        assert_eq!(made, (0..5).map(|at| (at, false)).collect::<Vec<_>>());
    }
}
