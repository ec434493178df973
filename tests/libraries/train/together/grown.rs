//! A dataset that grows between two runs of several trainers.

use super::*;

/// Imports edges of two new places, in addition to the existing ones.
fn grow(world: &World) {
    let file = world.folder.path().join("more.tsv");
    let text = "place 1\tnear\thalley\nencke\tnear\tplace 2\nplace 3\tpasses\tplace 4\n";
    std::fs::write(&file, text).expect("room on the disk");
    let config = world.config("none", &[]);
    let options = ImportOptions {
        target: world.folder.path().join("data"),
        seed: config.seed,
        ..ImportOptions::default()
    };
    let sets = [("more".to_owned(), vec![file])];
    let mut go_on = |_| ControlFlow::Continue(());
    import::run(&config.graph_schema(), &sets, &options, &mut go_on).expect("an import");
}

/// Returns the number of rows of all partitions.
fn rows(config: &Config) -> usize {
    bytes(config).iter().map(|(_, sums)| sums.len()).sum()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            std::fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("room");
        }
    }
}

/// Lets trainers resume with the grown dataset, whose edges their run did not have before; returns their events about
/// the change.
fn go_on(config: &Config, connections: &[Arc<Connection>]) -> Vec<Event> {
    let allowed = AllowedChanges {
        data_change: true,
        ..AllowedChanges::default()
    };
    thread::scope(|scope| {
        let trainers = connections.iter().zip(0..).map(|(connection, rank)| {
            scope.spawn(move || {
                let mut said = Vec::new();
                let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
                let outcome = pbg_distributed::train_distributed(
                    &resolved,
                    strategies(config),
                    &cluster(connection, rank, connections.len() as u32),
                    allowed,
                    &Arc::new(AtomicBool::new(false)),
                    &mut |event| said.push(event),
                );
                finished(&outcome);
                said
            })
        });
        let trainers: Vec<_> = trainers.collect();
        let said = trainers
            .into_iter()
            .flat_map(|t| t.join().expect("no panic"));
        said.collect()
    })
}

/// One machine that resumes from the same checkpoint draws the same rows, and ends with the same bytes.
#[test]
fn new_names_get_the_rows_that_one_machine_draws() {
    for operator in ["none", "diagonal"] {
        let text = CONFIG.replace("operator = \"none\"", &format!("operator = {operator:?}"));
        let world = World::of(&text);
        let hub = Arc::new(Hub::default());
        let config = world.config("together", &[("num_epochs", "1")]);
        let connections: Vec<_> = (0..2).map(|i| Connection::new(&hub, i)).collect();
        for outcome in train(&config, &connections) {
            outcome.expect("they train");
        }
        assert_eq!(rows(&config), ENTITIES);
        grow(&world);
        let [model, alone] = ["together", "alone"].map(|name| world.folder.path().join(name));
        copy(&model, &alone);
        let changes = [("edge_sets", r#"["train", "more"]"#)];
        let config = world.config("together", &changes);
        // Several trainers add the shared parameters in another order than one machine.
        let machines = if operator == "none" { 2 } else { 1 };
        let connections: Vec<_> = (2..2 + machines)
            .map(|i| Connection::new(&hub, i))
            .collect();
        let said = go_on(&config, &connections);
        let of = |event: &&Event| matches!(event, Event::Grown { relations: 1, rows } if rows["place"] == 2);
        assert_eq!(said.iter().filter(of).count(), 1, "{said:?}");
        let changed = |event: &&Event| matches!(event, Event::DataChanged { .. });
        assert_eq!(said.iter().filter(changed).count(), 1, "{said:?}");
        assert_eq!(rows(&config), ENTITIES + 2);
        let mut passes = committed(&hub.history());
        passes.retain(|pass, _| pass.epoch == 1);
        assert_eq!(passes.len(), 2, "two edge sets");
        // Several trainers skip buckets without edges, one machine does not.
        for buckets in passes.values_mut() {
            let all = (0..16).map(|i| Bucket::new(i / 4, i % 4));
            buckets.extend(all.filter(|b| !buckets.contains(b)).collect::<Vec<_>>());
        }
        let alone = world.config("alone", &changes);
        let strategies = Strategies {
            order: Box::new(Recorded {
                id: strategies(&alone).order.id().clone(),
                passes,
            }),
            ..strategies(&alone)
        };
        let allowed = AllowedChanges {
            data_change: true,
            ..AllowedChanges::default()
        };
        let resolved = ResolvedConfig::new(alone.clone()).expect("they fit");
        let stop = Arc::new(AtomicBool::new(false));
        let outcome = pbg_train::train(&resolved, strategies, allowed, &stop, &mut |_| ());
        finished(&outcome);
        assert!(
            bytes(&config) == bytes(&alone),
            "{operator}: the bytes differ"
        );
    }
}

/// A run that is interrupted in the middle of an epoch trains that epoch again with another dataset.
#[test]
fn an_interrupted_epoch_begins_anew_with_other_edges() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[("num_epochs", "1")]);
    let (connection, stop) = (Connection::new(&hub, 0), Arc::new(AtomicBool::new(false)));
    let outcome = join(&config, &cluster(&connection, 0, 1), &stop, &mut |event| {
        if matches!(event, Event::BucketFinished { index: 3, .. }) {
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(
        matches!(outcome, Ok(RunOutcome::Interrupted { .. })),
        "{outcome:?}"
    );
    grow(&world);
    let config = world.config(
        "together",
        &[("num_epochs", "1"), ("edge_sets", r#"["more"]"#)],
    );
    let said = go_on(&config, &[Connection::new(&hub, 1)]);
    let trained = |event: &Event| match event {
        Event::BucketFinished { stats, .. } => stats.count,
        _ => 0,
    };
    assert_eq!(said.iter().map(trained).sum::<u64>(), 3, "{said:?}");
    assert_eq!(rows(&config), ENTITIES + 2);
}
