//! A worker that panics.

use std::sync::Barrier;
use std::thread;

use super::*;

/// Flag that is set when the thread that owns it has ended, also by a panic.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    static ENDED: std::cell::RefCell<Option<Ended>> = const { std::cell::RefCell::new(None) };
}

/// Loss for two workers. Once both have trained a batch, one panics, and the other waits until that one has ended.
struct Panicking {
    loss: Box<dyn Loss>,
    both: Barrier,
    has_ended: Arc<AtomicBool>,
    batches: Arc<AtomicI64>,
}

impl Loss for Panicking {
    fn id(&self) -> &StrategyId {
        self.loss.id()
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        self.loss.worker()
    }

    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        self.loss.observe(edges, loss)?;
        if self.batches.fetch_add(1, Ordering::Relaxed) < 2 {
            if self.both.wait().is_leader() {
                ENDED.set(Some(Ended(Arc::clone(&self.has_ended))));
                panic!("the loss broke");
            }
            while !self.has_ended.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn state(&self) -> Option<LossState> {
        self.loss.state()
    }

    fn restore(&self, state: &LossState) -> Result<(), String> {
        self.loss.restore(state)
    }
}

#[test]
fn a_worker_that_panics_stops_the_others() {
    let world = World::of_neighbours(true);
    let two = ("workers", "2".to_owned());
    let small = ("batch_size", "5".to_owned());
    let config = world.config("model", &[two, small]);
    let batches = Arc::new(AtomicI64::new(0));
    let loss = Panicking {
        loss: logistic(1.0),
        both: Barrier::new(2),
        has_ended: Arc::default(),
        batches: Arc::clone(&batches),
    };
    let strategies = Strategies {
        order: Box::new(Alone(id("alone"))),
        sampler: Box::new(Hardest(id("hardest"), 0)),
        negatives: None,
        schedule: None,
        loss: GuardedLoss::new(Box::new(loss), None),
        fallbacks: Fallbacks::default(),
    };
    let resolved = ResolvedConfig::new(config).expect("they fit");
    let stop = AtomicBool::new(false);
    let outcome = pbg_train::train_at(
        &resolved,
        strategies,
        AllowedChanges::default(),
        None,
        &stop,
        &mut |_| {},
    );
    let error = outcome.expect_err("a worker has panicked");
    assert!(error.to_string().contains("the loss broke"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Internal);
    // The other worker ended before its next batch, of about twenty.
    assert_eq!(batches.load(Ordering::Relaxed), 2);
}
