//! The parameters of a loss: updated by their current owner with the sums of all trainers.

use pbg_core::loss::{LossState, ParameterSchedule, ScheduleProgress, TracedLoss};
use pbg_core::strategy::{Loss as _, StrategyError, StrategyId};
use pbg_formula::loss::{LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode};

use super::*;

/// Arguments of all updates, on any trainer.
type Told = Arc<Mutex<Vec<ScheduleProgress>>>;

/// Doubles the parameter, up to a bound.
struct Doubling(Told);

impl ParameterSchedule for Doubling {
    fn update(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError> {
        lock(&self.0).push(*progress);
        Ok(values
            .iter()
            .map(|value| (2.0 * value).min(1024.0))
            .collect())
    }
}

/// Returns a loss without parameters.
pub(super) fn without_parameters() -> GuardedLoss {
    scaled(0, None)
}

fn loss(told: &Told) -> GuardedLoss {
    scaled(5, Some(Box::new(Doubling(Arc::clone(told)))))
}

fn scaled(update_every: u32, schedule: Option<Box<dyn ParameterSchedule>>) -> GuardedLoss {
    let definition = LossDefinition {
        nodes: vec![
            FormulaNode::Positive,
            FormulaNode::Parameter(0),
            FormulaNode::Binary(Binary::Mul, 0, 1),
        ],
        output: 2,
        parameters: vec![LossParameter {
            name: "scale".to_owned(),
            value: 1.0,
        }],
        update_every,
    };
    let id = StrategyId {
        name: "scaled".to_owned(),
        version: "1".to_owned(),
        sha256: String::new(),
    };
    let traced = TracedLoss {
        id,
        graph: definition.check(10).unwrap(),
        schedule,
        keep: None,
    };
    GuardedLoss::new(pbg_train::traced(traced), None)
}

fn state(trainer: &Trainer) -> LossState {
    trainer.loss.state().unwrap()
}

/// Each trainer observes `batches` batches of ten edges. Returns the number of all batches.
fn observe(trainers: &[Trainer], batches: u64) -> u64 {
    for trainer in trainers {
        for _ in 0..batches {
            trainer.loss.observe(10, 5.0).unwrap();
            pbg_clock::sleep(Duration::from_micros(100));
        }
    }
    batches * trainers.len() as u64
}

/// Asserts that all trainers have the same state, in which every batch counts once.
fn agree_on_losses(trainers: &[Trainer], told: &Told, batches: u64) {
    for _ in 0..3 {
        trainers.iter().for_each(Trainer::tell);
    }
    for trainer in trainers {
        let state = state(trainer);
        let edges: u64 = lock(told).iter().map(|progress| progress.edges).sum();
        assert_eq!((state.step, edges + state.edges), (batches, 10 * batches));
        let updates = lock(told).len() as i32;
        assert_eq!(state.parameters, [2.0_f32.powi(updates).min(1024.0)]);
    }
}

#[test]
fn every_batch_counts_once_in_everybodys_parameters_whoever_comes_and_goes() {
    let hub = hub();
    let told = Told::default();
    let join = |token| Trainer::join_with(&hub, token, loss(&told));
    let mut trainers: Vec<Trainer> = (1..=3).map(join).collect();
    let mut batches = observe(&trainers, 7);
    agree_on_losses(&trainers, &told, batches);
    assert!(!lock(&told).is_empty());
    trainers.push(join(4));
    batches += observe(&trainers, 7);
    agree_on_losses(&trainers, &told, batches);
    // The owner is among the trainers that leave.
    while trainers.len() > 1 {
        batches += observe(&trainers, 3);
        trainers.remove(0).leave();
        batches += observe(&trainers, 3);
        agree_on_losses(&trainers, &told, batches);
    }
    // There may be fewer updates than `update_every` allows, where many batches came at once, but never more.
    assert!(lock(&told).len() as u64 <= batches / 5);
}

#[test]
fn the_loss_of_an_owner_that_dies_goes_on_from_what_others_have_seen() {
    for round in 0..3_u64 {
        let hub = hub();
        let told = Told::default();
        let join = |token: u64| Trainer::join_with(&hub, 10 * round + token, loss(&told));
        let mut trainers: Vec<Trainer> = (1..=3).map(join).collect();
        let batches = observe(&trainers, 7);
        agree_on_losses(&trainers, &told, batches);
        trainers.remove(0).die(&hub);
        let more = observe(&trainers, 4);
        agree_on_losses(&trainers, &told, batches + more);
    }
}
