//! Trainers that a run rejects.

use super::*;

#[test]
fn what_differs_is_refused_with_its_name() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let (one, two) = (Connection::new(&hub, 0), Connection::new(&hub, 1));
    let stop = Arc::new(AtomicBool::new(false));
    let attempts = [
        (
            world.config("together", &[("lr", "0.2")]),
            1,
            "the hash of the configuration",
        ),
        (
            config.clone(),
            0,
            "rank 0 is taken by the trainer trainer 0",
        ),
        (
            world.config("elsewhere", &[]),
            1,
            "is not the one that the trainer",
        ),
    ];
    let refusals: Vec<_> = thread::scope(|scope| {
        // The first trainer waits for a second one.
        let first = scope.spawn(|| join(&config, &cluster(&one, 0, 2), &stop, &mut |_| ()));
        while hub.history().last().is_none_or(|r| r.trainers().is_empty()) {
            thread::sleep(Duration::from_millis(10));
        }
        let refusals = attempts.iter().map(|(config, rank, _)| {
            // One that is asked to stop would end before it knows whether it is refused.
            let ends = Arc::new(AtomicBool::new(false));
            join(config, &cluster(&two, *rank, 2), &ends, &mut |_| ())
        });
        let refusals = refusals.collect();
        stop.store(true, Ordering::Relaxed);
        let first = first.join().expect("no panic");
        assert!(
            matches!(first, Ok(RunOutcome::Interrupted { .. })),
            "{first:?}"
        );
        refusals
    });
    for (refusal, (_, _, expected)) in refusals.iter().zip(&attempts) {
        let refusal = refusal.as_ref().map_err(ToString::to_string);
        assert!(
            refusal.as_ref().is_err_and(|r| r.contains(expected)),
            "{refusal:?}"
        );
    }
}

/// The ledger of a run that continues is not discarded for the folder of another one.
#[test]
fn another_run_does_not_take_over_a_ledger() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let keys = [("num_epochs", "100000")];
    let config = world.config("together", &keys);
    let (one, two) = (Connection::new(&hub, 0), Connection::new(&hub, 1));
    let stop = Arc::new(AtomicBool::new(false));
    let committed = AtomicBool::new(false);
    let (refusal, first) = thread::scope(|scope| {
        let first = scope.spawn(|| {
            let mut lost = 0;
            let watch = &mut |event| match event {
                Event::Committed { .. } => committed.store(true, Ordering::Relaxed),
                Event::Rejoining { .. } => lost += 1,
                _ => {}
            };
            let outcome = join(&config, &cluster(&one, 0, 1), &stop, watch);
            (outcome, lost)
        });
        while !committed.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        let config = world.config("elsewhere", &keys);
        let cluster = ClusterOptions {
            lease: Duration::from_secs(2),
            ..cluster(&two, 1, 1)
        };
        let refusal = join(
            &config,
            &cluster,
            &Arc::new(AtomicBool::new(false)),
            &mut |_| (),
        );
        stop.store(true, Ordering::Relaxed);
        (refusal, first.join().expect("no panic"))
    });
    let refusal = refusal.map_err(|error| error.to_string());
    let expected = "is not the one that the trainer";
    assert!(
        refusal.as_ref().is_err_and(|r| r.contains(expected)),
        "{refusal:?}"
    );
    assert!(
        matches!(first, (Ok(RunOutcome::Interrupted { .. }), 0)),
        "{first:?}"
    );
}

#[test]
fn several_trainers_of_one_bucket_are_refused() {
    let world = World::of(&CONFIG.replace("num_partitions = 4", "num_partitions = 1"));
    let hub = Arc::new(Hub::default());
    let stop = Arc::new(AtomicBool::new(false));
    let config = world.config("together", &[]);
    let connection = Connection::new(&hub, 0);
    let refusal = join(&config, &cluster(&connection, 0, 2), &stop, &mut |_| ());
    let refusal = refusal.map_err(|error| error.to_string());
    let expected = "no entity type has more than one partition";
    assert!(
        refusal.as_ref().is_err_and(|r| r.contains(expected)),
        "{refusal:?}"
    );
}
