//! Parameters that all trainers share.

use super::*;

#[test]
fn parameters_are_everybodys() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    // In the first epochs the loss depends on which trainer was faster, as it falls by half in each of them.
    let keys = [("global_emb", "true"), ("num_epochs", "12")];
    let mut config = world.config("together", &keys);
    config.relations[0].operator = Operator::ComplexDiagonal.name().to_owned();
    let mut losses: Vec<f64> = Vec::new();
    // Buckets of this world are shorter than the interval between rounds in other tests.
    let everybodys = |connection: &Arc<Connection>, rank: u32| {
        let mut cluster = cluster(connection, rank, 2);
        cluster.sync_limits.rounds = 1e5;
        cluster
    };
    let connections: Vec<_> = (0..2).map(|i| Connection::new(&hub, i)).collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            let stop = Arc::new(AtomicBool::new(false));
            let outcome = join(&config, &everybodys(&connections[1], 1), &stop, &mut |_| ());
            finished(&outcome);
        });
        let stop = Arc::new(AtomicBool::new(false));
        let mut watch = |event: Event| {
            if let Event::EpochFinished { stats, .. } = event {
                losses.push(stats.mean_loss());
            }
        };
        let outcome = join(&config, &everybodys(&connections[0], 0), &stop, &mut watch);
        finished(&outcome);
    });
    let history = hub.history();
    for (pass, buckets) in committed(&history) {
        assert_eq!(buckets.len(), 16, "{pass:?}");
    }
    // As many edges are counted as one machine trains, and the trainers have learned one model.
    let alone = Config {
        checkpoint_path: world.folder.path().join("alone").display().to_string(),
        ..config.clone()
    };
    let resolved = ResolvedConfig::new(alone.clone()).expect("they fit");
    let stop = Arc::new(AtomicBool::new(false));
    let mut last = 0.0;
    let mut watch = |event: Event| {
        if let Event::EpochFinished { stats, .. } = event {
            last = stats.mean_loss();
        }
    };
    let outcome = pbg_train::train(
        &resolved,
        strategies(&alone),
        AllowedChanges::default(),
        &stop,
        &mut watch,
    );
    finished(&outcome);
    if let Some(together) = losses.last() {
        assert!(
            (together / last - 1.0).abs() < 0.15,
            "{together} beside {last}"
        );
    }
    let model = |config: &Config| {
        let read = ReadCheckpoint::open(Path::new(&config.checkpoint_path)).expect("a model");
        read.model().expect("parameters")
    };
    for (one, other) in model(&config).iter().zip(&model(&alone)) {
        let sum = |values: &[f32]| values.iter().map(|v| f64::from(*v)).sum::<f64>();
        if one.name.ends_with(".adagrad") {
            let (one, other) = (sum(&one.values), sum(&other.values));
            assert!((one / other - 1.0).abs() < 0.5, "{one} beside {other}");
        }
    }
}
