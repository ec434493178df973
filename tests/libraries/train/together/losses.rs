//! A loss with parameters that change: one update for the observations of all trainers.

use std::sync::Mutex;

use pbg_core::loss::{ParameterSchedule, ScheduleProgress};

use super::*;
use crate::train::strategies::weighted_logistic;

type Told = Arc<Mutex<Vec<ScheduleProgress>>>;

/// Lowers the weight of negatives by a thousandth with every update.
struct Lowering(Told);

impl ParameterSchedule for Lowering {
    fn update(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError> {
        self.0.lock().unwrap().push(*progress);
        Ok(values.iter().map(|value| value * 0.999).collect())
    }
}

fn with_loss(config: &Config, told: &Told) -> Strategies {
    let lowering = Box::new(Lowering(Arc::clone(told)));
    Strategies {
        loss: GuardedLoss::new(weighted_logistic(1.0, Some((4, lowering))), None),
        ..strategies(config)
    }
}

/// Returns the checkpoint's state of the loss: batches, edges since the last update, and the weight.
fn stored(config: &Config) -> (u64, u64, f32) {
    let checkpoint = ReadCheckpoint::open(Path::new(&config.checkpoint_path)).expect("a model");
    let state = &checkpoint.run().state["loss"];
    let number = |name: &str| state[name].as_u64().expect("a number");
    let weight = state["parameters"][0].as_f64().expect("a number");
    (number("step"), number("edges"), weight as f32)
}

#[test]
fn all_trainers_update_one_loss_with_what_all_of_them_observe() {
    let world = World::new();
    let hub = Arc::new(Hub::default());
    let config = world.config("together", &[]);
    let told = Told::default();
    let take_part = |hub: &Arc<Hub>, rank: u32, machines: u32, config: &Config| {
        let stop = Arc::new(AtomicBool::new(false));
        let connection = Connection::new(hub, u64::from(rank));
        let cluster = cluster(&connection, rank, machines);
        let resolved = ResolvedConfig::new(config.clone()).expect("they fit");
        let strategies = with_loss(config, &told);
        let outcome = pbg_distributed::train_distributed(
            &resolved,
            strategies,
            &cluster,
            AllowedChanges::default(),
            &stop,
            &mut |_| (),
        );
        finished(&outcome);
    };
    thread::scope(|scope| {
        for rank in 0..2 {
            let (take_part, hub, config) = (&take_part, &hub, &config);
            scope.spawn(move || take_part(hub, rank, 2, config));
        }
    });
    // The same numbers of batches and edges as on one machine.
    let alone = world.config("alone", &[]);
    let resolved = ResolvedConfig::new(alone.clone()).expect("they fit");
    let (stop, told_alone) = (Arc::new(AtomicBool::new(false)), Told::default());
    let outcome = pbg_train::train(
        &resolved,
        with_loss(&alone, &told_alone),
        AllowedChanges::default(),
        &stop,
        &mut |_| (),
    );
    finished(&outcome);
    let edges = |told: &Told| told.lock().unwrap().iter().map(|p| p.edges).sum::<u64>();
    let ((steps, rest, weight), (expected, expected_rest, _)) = (stored(&config), stored(&alone));
    assert_eq!(steps, expected);
    assert_eq!(edges(&told) + rest, edges(&told_alone) + expected_rest);
    let updates = told.lock().unwrap().len();
    assert!(0 < updates && updates as u64 <= steps / 4);
    let lowered = (0..updates).fold(1.0, |weight: f32, _| weight * 0.999);
    assert_eq!(weight, lowered);
    // The ledger also has the state, as the owner settled it.
    let history = hub.history();
    let recorded = history.last().and_then(|r| r.work().progress.loss.clone());
    assert!(recorded.is_some_and(|state| state.step > 0));
    // A trainer that resumes from the checkpoint with another ledger begins with this state.
    let more = Config {
        num_epochs: 3,
        ..config.clone()
    };
    take_part(&Arc::new(Hub::default()), 0, 1, &more);
    let (more_steps, ..) = stored(&more);
    assert_eq!(more_steps, steps + steps / 2);
}
