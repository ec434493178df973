//! Registers that lose writes, and trainers that are evicted or die.

use pbg_checkpoint::SharedCheckpoint;
use pbg_ledger::{CheckpointCut, CutOrigin, Join, LedgerAction, Token, Trainer, Transaction};

use super::*;

#[test]
fn answers_that_are_lost_and_refusals_without_a_reason_change_nothing() {
    for seed in 0..3 {
        let world = World::new();
        let hub = Arc::new(Hub::default());
        let config = world.config("together", &[]);
        let connections: Vec<_> = (0..2)
            .map(|i| Connection::new(&hub, 10 * seed + i))
            .collect();
        for connection in &connections {
            connection.faults.store(20, Ordering::Relaxed);
        }
        for outcome in train(&config, &connections) {
            finished(&outcome);
        }
        replays(&world, &config, &hub.history(), &[]);
    }
}

#[test]
fn one_that_is_evicted_joins_anew() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let is_evicted = AtomicBool::new(false);
    // Evicts the first trainer with three buckets, which then has one that is not settled.
    let evict = |rank| {
        if !is_evicted.swap(true, Ordering::Relaxed) {
            hub.order(|record| {
                let me = |(_, t): &(_, &Trainer)| t.rank == Some(rank);
                let me = record.trainers().iter().find(me);
                let token = *me.expect("it takes part").0;
                record
                    .apply_command(OperatorCommand::Evict(token))
                    .expect("it takes part")
            });
        }
    };
    let run = |rank| {
        let (mut trained, mut rejoined) = (0, 0);
        let mut watch = |event: Event| match event {
            Event::BucketFinished { .. } => {
                trained += 1;
                if trained == 3 {
                    evict(rank);
                }
            }
            Event::Rejoining { .. } => rejoined += 1,
            _ => {}
        };
        let connection = Connection::new(&hub, u64::from(rank));
        let stop = Arc::new(AtomicBool::new(false));
        let outcome = join(&config, &cluster(&connection, rank, 2), &stop, &mut watch);
        finished(&outcome);
        rejoined
    };
    let rejoined: u32 = thread::scope(|scope| {
        let run = &run;
        let trainers = [0, 1].map(|rank| scope.spawn(move || run(rank)));
        let rejoined = trainers.map(|t| t.join().expect("no panic"));
        rejoined.iter().sum()
    });
    assert_eq!(rejoined, 1);
    replays(&world, &config, &hub.history(), &[]);
}

/// Moves the files of embeddings from one folder to another.
fn move_embeddings(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder") {
        let name = entry.expect("an entry").file_name();
        if name.to_string_lossy().starts_with("embeddings_") {
            std::fs::rename(from.join(&name), to.join(&name)).expect("one file system");
        }
    }
}

/// An evicted trainer may still have to read partitions that others have meanwhile trained and replaced.
#[test]
fn one_that_is_evicted_before_it_reads_joins_anew() {
    let world = World::new();
    let once = world.config("together", &[("num_epochs", "1")]);
    let hub = Arc::new(Hub::default());
    for outcome in train(&once, &[Connection::new(&hub, 0)]) {
        finished(&outcome);
    }
    // It resumes from files alone, so its first lease is of partitions that it has to read.
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let [model, hidden] = ["together", "hidden"].map(|name| world.folder.path().join(name));
    std::fs::create_dir(&hidden).expect("room on the disk");
    let (shown_at, hidden_at) = (model.clone(), hidden.clone());
    let mut is_evicted = false;
    hub.watch(move |record| {
        let mut trainers = record.trainers().iter();
        let (token, _) = trainers.find(|(_, t)| !t.leases.is_empty())?;
        let evict = || {
            move_embeddings(&shown_at, &hidden_at);
            record
                .apply_command(OperatorCommand::Evict(*token))
                .expect("it takes part")
        };
        let first = !std::mem::replace(&mut is_evicted, true);
        first.then(evict)
    });
    let (stop, mut rejoined) = (Arc::new(AtomicBool::new(false)), 0);
    let mut watch = |event: Event| {
        if matches!(event, Event::Rejoining { .. }) {
            rejoined += 1;
            move_embeddings(&hidden, &model);
        }
    };
    let connection = Connection::new(&hub, 0);
    // With a lease ahead, the ledger would report the eviction first.
    let unhurried = ClusterOptions {
        lease_ahead: Some(false),
        ..cluster(&connection, 0, 1)
    };
    let outcome = join(&config, &unhurried, &stop, &mut watch);
    finished(&outcome);
    assert_eq!(rejoined, 1);
}

#[test]
fn what_a_dead_trainer_had_is_trained_by_others() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let is_dead = AtomicBool::new(false);
    // The first trainer with two buckets dies with the second one, which it has not settled.
    let run = |rank| {
        let connection = Connection::new(&hub, u64::from(rank));
        let (mut dies, mut is_told, mut lost) = (false, false, Vec::new());
        let mut watch = |event: Event| match event {
            Event::BucketFinished { index: 1, .. } => {
                dies = !is_dead.swap(true, Ordering::Relaxed);
                connection.is_cut.fetch_or(dies, Ordering::Relaxed);
            }
            Event::TrainerLost { name, .. } => lost.push(name),
            Event::FinishedByOthers { .. } => is_told = true,
            _ => {}
        };
        let cluster = ClusterOptions {
            lease: Duration::from_secs(2),
            patience: Duration::from_secs(1),
            ..cluster(&connection, rank, 2)
        };
        let outcome = join(
            &config,
            &cluster,
            &Arc::new(AtomicBool::new(false)),
            &mut watch,
        );
        match dies {
            // It finally sees that the other one has finished, if that has happened by then.
            true => assert!(
                matches!(outcome, Err(RunError::Cluster(_))) || is_told,
                "{outcome:?}"
            ),
            false => finished(&outcome),
        }
        (dies.then_some(cluster.name), lost)
    };
    let ended = thread::scope(|scope| {
        let run = &run;
        let trainers = [0, 1].map(|rank| scope.spawn(move || run(rank)));
        trainers.map(|t| t.join().expect("no panic"))
    });
    let dead: Vec<_> = ended.iter().filter_map(|(dead, _)| dead.clone()).collect();
    let lost: Vec<_> = ended.into_iter().flat_map(|(_, lost)| lost).collect();
    assert_eq!(dead.len(), 1);
    assert_eq!(lost, dead);
    replays(&world, &config, &hub.history(), &[]);
}

#[test]
fn the_sign_of_one_that_died_before_it_took_part_goes() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let folder = std::path::Path::new(&config.checkpoint_path);
    std::fs::create_dir_all(folder).expect("a folder");
    let sign = folder.join("trainer.00000000000000aa");
    std::fs::write(&sign, "").expect("a file");
    let connections: Vec<_> = (0..2).map(|i| Connection::new(&hub, i)).collect();
    for outcome in train(&config, &connections) {
        finished(&outcome);
    }
    assert!(!sign.exists());
    replays(&world, &config, &hub.history(), &[]);
}

/// Sets the ledger back: a checkpoint exists that the ledger does not know, and only the files of the other trainers
/// remain of their later work. The ledger's own next checkpoint has a number that nobody has written.
fn set_back(hub: &Hub, config: &Config) {
    let other = Token(1);
    let folder = SharedCheckpoint::open(Path::new(&config.checkpoint_path), other);
    let folder = folder.expect("a folder of several");
    let newest = folder.newest().expect("it can be read");
    let mut manifest = newest.expect("that of the first epoch");
    manifest.version += 1;
    let begun = CutOrigin {
        incarnation: other,
        revision: 0,
        token: other,
        number: 1,
    };
    manifest.cut = Some(CheckpointCut {
        version: manifest.version,
        begun: Some(begun),
    });
    folder.publish(&manifest).expect("the first of its number");
    folder.make_current(&manifest).expect("it can be written");
    let action = |number, action| Transaction {
        token: other,
        number,
        after: number - 1,
        action,
    };
    hub.order(|record| {
        let join = Join {
            terms: record.terms().clone(),
            name: "other".to_owned(),
            rank: None,
            instead_of: None,
            incarnation: record.incarnation(),
            newest: record.checkpoints().base(),
        };
        let checkpoint = LedgerAction::Checkpoint {
            pass: record.work().pass,
            newest: record.checkpoints().base(),
        };
        let joined = record.apply(&action(1, LedgerAction::Join(Box::new(join))));
        let begun = joined.and_then(|record| record.apply(&action(2, checkpoint)));
        let dead = begun.and_then(|record| record.apply_command(OperatorCommand::Evict(other)));
        dead.expect("nothing is refused")
    });
}

#[test]
fn no_checkpoint_is_made_of_a_ledger_that_is_older_than_the_newest() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let (mut trained, mut told) = (0, Vec::new());
    let mut watch = |event: Event| match event {
        Event::BucketFinished { .. } => {
            trained += 1;
            // In the second epoch; each has 16 buckets.
            if trained == 20 {
                set_back(&hub, &config);
            }
        }
        Event::Rejoining { reason, .. } => told.push(reason),
        Event::LedgerReplaced { reason, .. } => told.push(reason),
        _ => {}
    };
    let (connection, stop) = (Connection::new(&hub, 0), Arc::new(AtomicBool::new(false)));
    let outcome = join(&config, &cluster(&connection, 0, 1), &stop, &mut watch);
    finished(&outcome);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("does not contain checkpoint 2"),
        "{told:?}"
    );
    assert_eq!(trained, 3 * 16);
    assert!(ReadCheckpoint::open(Path::new(&config.checkpoint_path)).is_ok());
}
