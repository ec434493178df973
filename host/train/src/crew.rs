//! Threads that work on one thing together: the first that fails stops the others.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::error::RunError;

/// What the threads know of each other.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    failed: AtomicBool,
}

impl Crew {
    /// Whether one of the threads has failed, so that the work of the others is of no use any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn watch<T>(&self, job: impl FnOnce(&Self) -> Result<T, RunError>) -> Result<T, RunError> {
        let alarm = Alarm(&self.failed);
        let made = job(self)?;
        std::mem::forget(alarm);
        Ok(made)
    }
}

/// Says that a thread has failed, unless it is forgotten before: an error and a panic both drop it.
struct Alarm<'c>(&'c AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs each of `jobs` on a thread of its own, does what is to be done `meanwhile`, and waits for all of them. Once a job
/// has failed, by an error or a panic, [`Crew::has_failed`] holds for the others. Gives what they made, in their order.
///
/// # Errors
/// The first failure in the order of the jobs, or that the system gives no thread.
pub(crate) fn run<T: Send, J>(
    jobs: impl IntoIterator<Item = J>,
    meanwhile: impl FnOnce(),
) -> Result<Vec<T>, RunError>
where
    J: FnOnce(&Crew) -> Result<T, RunError> + Send,
{
    let crew = Crew::default();
    thread::scope(|scope| {
        let start = |job: J| {
            let crew = &crew;
            let started = thread::Builder::new().spawn_scoped(scope, move || crew.watch(job));
            started.map_err(|error| RunError::Thread(error.to_string()))
        };
        let started = jobs.into_iter().map(start).collect::<Result<Vec<_>, _>>();
        // The scope waits for those that were started.
        let handles = started.inspect_err(|_| drop(Alarm(&crew.failed)))?;
        meanwhile();
        let ended = handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|panic| Err(panicked(&*panic))));
        // Each is joined before the first failure is returned.
        ended.collect::<Vec<_>>().into_iter().collect()
    })
}

/// The error of a thread that has panicked.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> RunError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("it gave no reason").to_owned();
    RunError::WorkerPanic { message }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    type Job<'a> = Box<dyn FnOnce(&Crew) -> Result<u32, RunError> + Send + 'a>;

    /// Waits for the failure of another one: without it, this test does not end.
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
            let error = run([wait(), fail, wait()], || ()).unwrap_err();
            let expected = if panics { "the reason" } else { "stopped" };
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs = (0..5).map(|at| move |crew: &Crew| Ok((at, crew.has_failed())));
        let mut done = false;
        let made = run(jobs, || done = true).unwrap();
        assert!(done);
        assert_eq!(made, (0..5).map(|at| (at, false)).collect::<Vec<_>>());
    }
}
