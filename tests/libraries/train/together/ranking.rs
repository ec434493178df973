//! Rankings between epochs: the figures are those of one machine, whichever trainer ranks which block and whatever
//! happens meanwhile.

use std::path::PathBuf;

use pbg_core::event::RankStats;
use pbg_ledger::Phase;
use pbg_query::{CandidateSet, EvalOptions};

use super::*;

const EPOCHS: usize = 3;

/// Keys of every run here: edges that are ranked after each epoch.
const VALIDATED: [(&str, &str); 2] = [("validation.edges", "valid"), ("num_epochs", "3")];

fn world(text: &str) -> World {
    World::importing(text, &[("train", &STEPS), ("valid", &[3, 5, 11, 13])])
}

fn with(changes: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    [&VALIDATED, changes].concat()
}

/// Trainer that has ended.
struct Ended {
    outcome: Result<RunOutcome, RunError>,
    events: Vec<Event>,
}

impl Ended {
    fn finished(&self) -> bool {
        matches!(self.outcome, Ok(RunOutcome::Finished { .. }))
    }

    /// Returns epochs, ranks, whether they were the best, and the factor of the learning rates.
    fn validated(&self) -> Vec<(u32, RankStats, bool, f32)> {
        validated(&self.events)
    }
}

fn validated(events: &[Event]) -> Vec<(u32, RankStats, bool, f32)> {
    let ranks = |event: &Event| match *event {
        Event::Validated {
            epochs,
            ranks,
            best,
            lr_factor,
            ..
        } => Some((epochs, ranks, best, lr_factor)),
        _ => None,
    };
    events.iter().filter_map(ranks).collect()
}

/// Trains with one thread per connection.
fn train_all(config: &Config, connections: &[Arc<Connection>]) -> Vec<Ended> {
    train_within(config, connections, Duration::from_secs(60))
}

/// Like [`train_all`]; a trainer that is silent for `lease` counts as dead, and one that reaches nobody for half of it
/// ends.
fn train_within(config: &Config, connections: &[Arc<Connection>], lease: Duration) -> Vec<Ended> {
    let machines = connections.len() as u32;
    let run = |(rank, connection): (u32, &Arc<Connection>)| {
        let (stop, mut events) = (Arc::new(AtomicBool::new(false)), Vec::new());
        let cluster = ClusterOptions {
            lease,
            patience: lease / 2,
            ..cluster(connection, rank, machines)
        };
        let outcome = join(config, &cluster, &stop, &mut |event| events.push(event));
        Ended { outcome, events }
    };
    thread::scope(|scope| {
        let trainers = (0..).zip(connections);
        let trainers: Vec<_> = trainers.map(|t| scope.spawn(move || run(t))).collect();
        let ended = trainers.into_iter().map(|t| t.join().expect("no panic"));
        ended.collect()
    })
}

fn connections(hub: &Arc<Hub>, count: u64) -> Vec<Arc<Connection>> {
    (0..count).map(|i| Connection::new(hub, i)).collect()
}

/// Trains on one machine, in the order of `passes` if given; returns its events.
fn alone(config: &Config, passes: Option<BTreeMap<PassId, Vec<Bucket>>>) -> Ended {
    let mut strategies = strategies(config);
    if let Some(passes) = passes {
        let id = strategies.order.id().clone();
        strategies.order = Box::new(Recorded { id, passes });
    }
    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
    let (stop, mut events) = (Arc::new(AtomicBool::new(false)), Vec::new());
    let outcome = pbg_train::train(
        &resolved,
        strategies,
        AllowedChanges::default(),
        &stop,
        &mut |event| {
            events.push(event);
        },
    );
    Ended { outcome, events }
}

/// Returns the filtered ranks of the checkpoint in a folder, computed by one machine.
fn evaluated(config: &Config, folder: &Path) -> RankStats {
    let config = Config {
        checkpoint_path: folder.display().to_string(),
        ..config.clone()
    };
    let rules = &config.validation;
    let options = EvalOptions {
        edges: "valid".to_owned(),
        filter: vec!["train".to_owned(), "valid".to_owned()],
        candidates: rules
            .candidates
            .map_or(CandidateSet::All, CandidateSet::Sample),
        threads: Some(1),
        limit: rules.limit.map(|limit| limit as usize),
        by: None,
        seen: false,
    };
    let resolved = ResolvedConfig::new(config).expect("they fit");
    let report = pbg_query::evaluate(&resolved, &options, &mut |_, _| ());
    *report.expect("ranks").ranks()
}

fn folder(config: &Config, name: &str) -> PathBuf {
    Path::new(&config.checkpoint_path).join(name)
}

/// Asserts that ranks are equal. Their reciprocals may be added in another order.
fn assert_same(one: &RankStats, other: &RankStats) {
    let exact = |s: &RankStats| {
        let hits = [s.hits_at_1, s.hits_at_3, s.hits_at_10, s.hits_at_50];
        (s.count, s.mean_rank, hits)
    };
    assert_eq!(exact(one), exact(other));
    let is_near = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(
        is_near(one.mrr, other.mrr) && is_near(one.auc, other.auc),
        "{one:?} is not {other:?}"
    );
}

/// Returns the results in the checkpoint's `metrics.jsonl`.
fn in_metrics(config: &Config) -> Vec<(u32, RankStats, bool, f32)> {
    let text = std::fs::read_to_string(folder(config, "metrics.jsonl")).expect("metrics");
    let event = |line| serde_json::from_str(line).expect("an event");
    validated(&text.lines().map(event).collect::<Vec<Event>>())
}

/// Returns the number of blocks of each ranking.
fn blocks(history: &[LedgerRecord]) -> Vec<usize> {
    let mut blocks = Vec::new();
    for pair in history.windows(2) {
        if let (None, Some(ranking)) = (pair[0].ranking(), pair[1].ranking()) {
            blocks.push(ranking.blocks.len());
        }
    }
    blocks
}

/// Asserts that each of `trainers` found the results of one machine that trains in the order of `history`.
fn assert_as_one(
    world: &World,
    changes: &[(&str, &str)],
    history: &[LedgerRecord],
    trainers: &[Ended],
) {
    let one = alone(&world.config("alone", changes), Some(committed(history)));
    assert!(one.finished(), "{:?}", one.outcome);
    let expected = one.validated();
    for trainer in trainers {
        assert!(trainer.finished(), "{:?}", trainer.outcome);
        let found = trainer.validated();
        assert_eq!((found.len(), expected.len()), (EPOCHS, EPOCHS));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.0, found.2), (expected.0, expected.2));
            assert_same(&found.1, &expected.1);
        }
    }
}

#[test]
fn any_number_of_trainers_finds_the_ranks_of_one_machine() {
    for (trainers, changes, cut) in [
        (1, vec![], 1),
        (2, vec![("validation.limit", "200")], 2),
        (3, vec![("validation.candidates", "30")], 3),
        (2, vec![("buffer_partitions", "4")], 2),
    ] {
        let changes = with(&changes);
        let world = world(CONFIG);
        let hub = Arc::new(Hub::default());
        let config = world.config("together", &changes);
        let together = train_all(&config, &connections(&hub, trainers));
        let history = hub.history();
        assert_eq!(blocks(&history), [cut; EPOCHS]);
        for trainer in &together {
            assert_eq!(trainer.validated(), in_metrics(&config));
        }
        assert_as_one(&world, &changes, &history, &together);
        assert!(
            bytes(&config) == bytes(&world.config("alone", &changes)),
            "the bytes differ from those of one machine"
        );
    }
}

#[test]
fn parameters_are_those_of_the_checkpoint_for_all() {
    let world = world(CONFIG);
    let hub = Arc::new(Hub::default());
    let changes = with(&[
        ("global_emb", "true"),
        ("num_epochs", "1"),
        ("validation.early_stop", "9"),
    ]);
    let mut config = world.config("together", &changes);
    config.relations[0].operator = Operator::ComplexDiagonal.name().to_owned();
    let told: Vec<_> = train_all(&config, &connections(&hub, 3))
        .iter()
        .map(|trainer| {
            assert!(trainer.finished(), "{:?}", trainer.outcome);
            trainer.validated()
        })
        .collect();
    let expected = evaluated(&config, &folder(&config, "best"));
    for told in told {
        assert_eq!(told.len(), 1);
        assert_same(&told[0].1, &expected);
    }
    // Nothing was trained between the two checkpoints, and no earlier training arrived late.
    assert_same(&evaluated(&config, &folder(&config, ".")), &expected);
}

#[test]
fn a_block_of_a_trainer_that_dies_is_ranked_by_another() {
    let world = world(CONFIG);
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &with(&[("validation.early_stop", "9")]));
    let connections = connections(&hub, 2);
    // The first trainer that leases a block dies with it.
    let (lines, mut is_dead) = (connections.clone(), false);
    hub.watch(move |record| {
        let mut trainers = record.trainers().values();
        let dies = trainers.find(|t| t.block.is_some())?.rank?;
        if !std::mem::replace(&mut is_dead, true) {
            lines[dies as usize].is_cut.store(true, Ordering::Relaxed);
        }
        None
    });
    let all = train_within(&config, &connections, Duration::from_secs(2));
    // A trainer that is cut off finally sees that the other has finished, if that has happened by then.
    let is_told = |event: &Event| matches!(event, Event::FinishedByOthers { .. });
    let (lost, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(|trainer| {
        let is_cut = matches!(trainer.outcome, Err(RunError::Cluster(_)));
        is_cut || trainer.events.iter().any(is_told)
    });
    assert_eq!((ended.len(), lost.len()), (1, 1));
    assert!(ended[0].finished(), "{:?}", ended[0].outcome);
    let history = hub.history();
    assert_eq!(blocks(&history), [2, 1, 1]);
    let changes = with(&[("validation.early_stop", "9")]);
    assert_as_one(&world, &changes, &history, &ended);
    let best = ended[0].validated().into_iter().rfind(|v| v.2);
    let kept = evaluated(&config, &folder(&config, "best"));
    assert_same(&best.expect("a best one").1, &kept);
}

#[test]
fn a_trainer_that_is_evicted_in_the_ranking_joins_anew() {
    let world = world(CONFIG);
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &VALIDATED);
    let mut is_evicted = false;
    hub.watch(move |record| {
        let mut trainers = record.trainers().iter();
        let (token, _) = trainers.find(|(_, t)| t.block.is_some())?;
        let evict = || {
            record
                .apply_command(OperatorCommand::Evict(*token))
                .expect("it takes part")
        };
        let first = !std::mem::replace(&mut is_evicted, true);
        first.then(evict)
    });
    let ended = train_all(&config, &connections(&hub, 2));
    // Including the results while it was away.
    assert_as_one(&world, &VALIDATED, &hub.history(), &ended);
    let rejoins = |event: &&Event| matches!(event, Event::Rejoining { .. });
    let events = ended.iter().flat_map(|trainer| &trainer.events);
    assert_eq!(events.filter(rejoins).count(), 1);
}

#[test]
fn lost_answers_and_refusals_change_no_rank() {
    let world = world(CONFIG);
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &VALIDATED);
    let connections = connections(&hub, 3);
    for connection in &connections {
        connection.faults.store(20, Ordering::Relaxed);
    }
    let ended = train_all(&config, &connections);
    assert_as_one(&world, &VALIDATED, &hub.history(), &ended);
}

#[test]
fn all_stop_early_and_whoever_is_more_patient_goes_on() {
    // The learning rate is so small that no ranking is better than the first.
    let still = [
        ("lr", "1e-30"),
        ("validation.lr_decay", "0.5"),
        ("validation.lr_patience", "1"),
    ];
    let changes = [&still[..], &[("validation.early_stop", "2")]].concat();
    let changes = [with(&changes), vec![("num_epochs", "9")]].concat();
    let world = world(CONFIG);
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &changes);
    for trainer in train_all(&config, &connections(&hub, 2)) {
        assert!(trainer.finished(), "{:?}", trainer.outcome);
        let told = trainer.validated();
        let told: Vec<_> = told.iter().map(|t| (t.0, t.2, t.3)).collect();
        assert_eq!(told, [(1, true, 1.0), (2, false, 0.5), (3, false, 0.25)]);
        let ends = |event: &Event| match *event {
            Event::StoppedEarly {
                epochs, best_epoch, ..
            } => Some((epochs, best_epoch)),
            _ => None,
        };
        let ends: Vec<_> = trainer.events.iter().filter_map(ends).collect();
        assert_eq!(ends, [(3, 1)]);
    }
    let last = hub.history().pop().expect("a record");
    assert_eq!((last.phase(), last.work().pass.epoch), (Phase::Finished, 3));
    // The checkpoint contains the results of the rankings.
    let again = alone(&config, None);
    assert!(again.finished() && again.validated().is_empty());
    let patience = |more| [changes.clone(), vec![("validation.early_stop", more)]].concat();
    let epochs = |told: &Ended| {
        assert!(told.finished(), "{:?}", told.outcome);
        let told = told.validated();
        told.iter().map(|t| (t.0, t.2, t.3)).collect::<Vec<_>>()
    };
    // The old record has other terms, and no trainer takes part in it.
    for patient in train_all(
        &world.config("together", &patience("3")),
        &connections(&hub, 2),
    ) {
        assert_eq!(epochs(&patient), [(4, false, 0.125)]);
    }
    let patient = alone(&world.config("together", &patience("4")), None);
    assert_eq!(epochs(&patient), [(5, false, 0.0625)]);
}

/// Leaves a run during its first ranking.
fn interrupted(world: &World, trainers: u64) -> Config {
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &VALIDATED);
    hub.watch(|record| {
        let is_ranking = record.ranking().is_some();
        let stop = || {
            record
                .apply_command(OperatorCommand::Stop)
                .expect("it does not end yet")
        };
        is_ranking.then(stop)
    });
    for trainer in train_all(&config, &connections(&hub, trainers)) {
        assert!(
            matches!(trainer.outcome, Ok(RunOutcome::Interrupted { .. })),
            "{:?}",
            trainer.outcome
        );
        assert!(trainer.validated().is_empty());
    }
    config
}

#[test]
fn a_ranking_that_was_interrupted_is_made_by_one_machine() {
    let world = world(CONFIG);
    let config = interrupted(&world, 2);
    let expected = evaluated(&config, &folder(&config, "."));
    let one = alone(&config, None);
    assert!(one.finished(), "{:?}", one.outcome);
    let told = one.validated();
    assert_eq!(told.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2, 3]);
    assert_same(&told[0].1, &expected);
}

#[test]
fn a_ranking_that_was_interrupted_is_made_by_several_that_have_lost_the_ledger() {
    let world = world(CONFIG);
    let config = interrupted(&world, 1);
    let expected = evaluated(&config, &folder(&config, "."));
    let hub = Arc::new(Hub::default());
    for trainer in train_all(&config, &connections(&hub, 2)) {
        assert!(trainer.finished(), "{:?}", trainer.outcome);
        let told = trainer.validated();
        assert_eq!(told.iter().map(|t| t.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_same(&told[0].1, &expected);
        assert_eq!(told, in_metrics(&config));
    }
}

#[test]
fn what_cannot_be_validated_is_told_before_training() {
    let world = world(CONFIG);
    let hub = Arc::new(Hub::default());
    let connection = Connection::new(&hub, 0);
    let stop = Arc::new(AtomicBool::new(false));
    let config = world.config("together", &[("validation.edges", "nosuch")]);
    let refusal = join(&config, &cluster(&connection, 0, 1), &stop, &mut |_| ());
    let refusal = refusal.expect_err("there is no such edge set").to_string();
    assert!(refusal.contains("nosuch"), "{refusal}");
}
