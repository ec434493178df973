//! Tables of entity types with one partition: every trainer has them, and all trainers receive each other's updates.

use super::*;

/// Each place has a kind, of which there are few, and a shape, which has features.
const CONFIG: &str = r#"
dataset = "data"
checkpoint_path = "model"
dimension = 8
comparator = "dot"
num_epochs = 3
lr = 0.1
workers = 1
seed = 7
batch_size = 20
num_batch_negs = 5
num_uniform_negs = 10
buffer_partitions = 3
global_emb = false

[entities.place]
num_partitions = 4

[entities.kind]
num_partitions = 1

[entities.shape]
num_partitions = 1
featurized = true

[[relations]]
name = "near"
lhs = "place"
rhs = "place"

[[relations]]
name = "is"
lhs = "place"
rhs = "kind"

[[relations]]
name = "has"
lhs = "place"
rhs = "shape"
"#;

fn world() -> World {
    let mut text = super::edges(&super::STEPS);
    for place in 0..ENTITIES {
        writeln!(text, "place {place}\tis\tkind {}", place % 7).expect("a string");
        writeln!(text, "place {place}\thas\tshape {}", place % 11).expect("a string");
    }
    let features =
        (0..11).map(|shape| format!("shape {shape}\tround {}\tlong {}\n", shape % 3, shape % 4));
    World::with(CONFIG, &text, &[("shape", &features.collect::<String>())])
}

/// Returns embeddings and accumulators of a table with one partition.
fn table(config: &Config, entity_type: &str) -> (Vec<f32>, Vec<f32>) {
    let checkpoint = ReadCheckpoint::open(Path::new(&config.checkpoint_path)).expect("a model");
    let data = checkpoint.read_partition(entity_type, 0).expect("a file");
    let data = data.expect("a partition");
    (data.embeddings.to_vec(), data.state.to_vec())
}

fn is_finished(outcome: &Result<RunOutcome, RunError>) -> bool {
    matches!(outcome, Ok(RunOutcome::Finished { .. }))
}

/// Asserts that small types were trained as much as by one machine.
fn is_as_large_as_alone(world: &World, config: &Config, changes: &[(&str, &str)]) {
    let alone = world.config("alone", changes);
    let resolved = ResolvedConfig::new(alone.clone()).expect("they fit");
    let stop = Arc::new(AtomicBool::new(false));
    let outcome = pbg_train::train(
        &resolved,
        strategies(&alone),
        AllowedChanges::default(),
        &stop,
        &mut |_| (),
    );
    assert!(is_finished(&outcome), "{outcome:?}");
    for entity_type in ["kind", "shape"] {
        let sum = |config| table(config, entity_type).1.iter().sum::<f32>();
        let (together, alone) = (sum(config), sum(&alone));
        // The updates of one of three trainers would be a third of it.
        assert!(
            (together / alone - 1.0).abs() < 0.3,
            "{entity_type}: {together} beside {alone}"
        );
    }
}

#[test]
fn what_each_learns_of_a_small_type_is_in_one_table() {
    for changes in [vec![], vec![("storage", "bf16"), ("optimizer", "adagrad")]] {
        let world = world();
        let hub = Arc::new(Hub::default());
        let config = world.config("together", &changes);
        let connections: Vec<_> = (0..3).map(|i| Connection::new(&hub, i)).collect();
        for outcome in train(&config, &connections) {
            assert!(is_finished(&outcome), "{outcome:?}");
        }
        for (pass, buckets) in committed(&hub.history()) {
            assert_eq!(buckets.len(), 16, "{pass:?}");
        }
        is_as_large_as_alone(&world, &config, &changes);
    }
}

#[test]
fn a_checkpoint_has_small_types_and_others_go_on_from_it() {
    let world = world();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let connections: Vec<_> = (0..2).map(|i| Connection::new(&hub, i)).collect();
    let outcomes = train(
        &world.config("together", &[("num_epochs", "1")]),
        &connections,
    );
    assert!(outcomes.iter().all(is_finished), "{outcomes:?}");
    let before = [table(&config, "kind"), table(&config, "shape")];
    // A trainer that is stopped after a bucket writes the values that it has read, with a few updates.
    let hub = Arc::new(Hub::default());
    let stop = Arc::new(AtomicBool::new(false));
    let connection = Connection::new(&hub, 9);
    let mut stopping = |event: Event| {
        if matches!(event, Event::BucketFinished { .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let outcome = join(&config, &cluster(&connection, 0, 1), &stop, &mut stopping);
    assert!(
        matches!(outcome, Ok(RunOutcome::Interrupted { version: 2 })),
        "{outcome:?}"
    );
    for (entity_type, before) in ["kind", "shape"].iter().zip(&before) {
        let now = table(&config, entity_type);
        let grown = now
            .1
            .iter()
            .zip(&before.1)
            .all(|(now, before)| now >= before);
        assert!(grown && now.1.iter().sum::<f32>() > 1e-3, "{entity_type}");
    }
    // One machine trains the remaining epochs; files of old checkpoints do not accumulate.
    let stop = Arc::new(AtomicBool::new(false));
    let outcome = join(&config, &cluster(&connection, 0, 1), &stop, &mut |_| ());
    assert!(is_finished(&outcome), "{outcome:?}");
    assert!(before[0] != table(&config, "kind"));
    let files = std::fs::read_dir(&config.checkpoint_path).expect("a folder");
    let names = files.map(|entry| entry.expect("a file").file_name());
    let names: Vec<String> = names.map(|n| n.to_string_lossy().into_owned()).collect();
    let of_kind = names
        .iter()
        .filter(|name| name.starts_with("embeddings_kind"));
    assert!(of_kind.count() <= 3, "{names:?}");
    let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
    let outcome = pbg_train::train(
        &resolved,
        strategies(&config),
        AllowedChanges::default(),
        &stop,
        &mut |_| (),
    );
    assert!(is_finished(&outcome), "{outcome:?}");
}

#[test]
fn one_that_joins_takes_over_what_was_learned_since_the_checkpoint() {
    let world = world();
    let hub = Arc::new(Hub::default());
    let changes = [("num_epochs", "2")];
    let config = world.config("together", &changes);
    let connections: Vec<_> = (0..2).map(|i| Connection::new(&hub, i)).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let mut seen = 0;
    thread::scope(|scope| {
        let mut second = None;
        let mut watch = |event: Event| {
            if matches!(event, Event::BucketFinished { .. }) {
                seen += 1;
                // Before the first checkpoint, so all its values come from the first trainer.
                if seen == 8 {
                    let (config, connection) = (&config, &connections[1]);
                    second = Some(scope.spawn(move || {
                        let stop = Arc::new(AtomicBool::new(false));
                        join(config, &cluster(connection, 1, 1), &stop, &mut |_| ())
                    }));
                }
            }
        };
        let outcome = join(&config, &cluster(&connections[0], 0, 1), &stop, &mut watch);
        assert!(is_finished(&outcome), "{outcome:?}");
        let outcome = second.expect("it came").join().expect("no panic");
        assert!(is_finished(&outcome), "{outcome:?}");
    });
    for (pass, buckets) in committed(&hub.history()) {
        assert_eq!(buckets.len(), 16, "{pass:?}");
    }
    is_as_large_as_alone(&world, &config, &changes);
}

#[test]
fn an_operator_of_rows_that_no_message_has_room_for_is_exchanged() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let mut config = world.config("together", &[("dimension", "500"), ("num_epochs", "1")]);
    config.relations[0].operator = Operator::Linear.name().to_owned();
    let connections: Vec<_> = (0..2).map(|i| Connection::new(&hub, i)).collect();
    for outcome in train(&config, &connections) {
        assert!(is_finished(&outcome), "{outcome:?}");
    }
    for (pass, buckets) in committed(&hub.history()) {
        assert_eq!(buckets.len(), 16, "{pass:?}");
    }
}

#[test]
fn memory_and_advice_know_of_what_is_exchanged() {
    let world = world();
    let resolved = ResolvedConfig::new(world.config("together", &[])).expect("they fit");
    assert_eq!(
        pbg_distributed::distributed_warnings(&resolved),
        Vec::<String>::new()
    );
    let bytes = |resolved: &ResolvedConfig| {
        let report = pbg_train::check(resolved, None).expect("a report");
        let part = |(name, _): &&(String, u64)| name == "exchange with other trainers";
        report.memory.iter().find(part).map(|(_, bytes)| *bytes)
    };
    assert_eq!(bytes(&resolved), None);
    let changes = [("distributed_init_method", "\"file:///tmp/meeting\"")];
    let resolved = ResolvedConfig::new(world.config("together", &changes)).expect("they fit");
    // Seven kinds and seven features of eight numbers and a sum each, four times.
    assert!(bytes(&resolved).is_some_and(|bytes| bytes >= 4 * 14 * 36));
}
