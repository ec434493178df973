//! Random walks through larger models: all faults together, with the same invariants after every step.

use proptest::prelude::*;
use stateright::Model as _;

use super::super::*;
use super::invariants::{self, go_on, standing};
use super::rankings::Part;
use super::steps::{Request, Step};
use super::world::{Budget, Mistake, Model, World};

fn budget() -> impl Strategy<Value = Budget> {
    let some = || 0..5_u8;
    let more = (some(), some(), some(), some());
    let last = (some(), 0..6_u8, some());
    ((some(), some(), some(), some()), more, last).prop_map(
        |(first, second, (left, checkpoints, paused))| {
            let (crashes, evictions, lost, late) = first;
            let (doubled, set_back, wiped, given_up) = second;
            Budget {
                crashes,
                evictions,
                lost,
                late,
                doubled,
                set_back,
                wiped,
                given_up,
                left,
                checkpoints,
                paused,
            }
        },
    )
}

prop_compose! {
    /// At most 128 buckets in all passes, which is the number of bits of a content.
    fn model()(
        (lhs, rhs, is_shared) in (1..7_u32, 1..7_u32, any::<bool>()),
        trainers in 1..6_usize,
        passes in 1..4_u32,
        (tree_init, ahead, unswapped) in any::<(bool, bool, bool)>(),
        budget in budget(),
        blocks in 0..5_u32,
    ) -> Model {
        let rhs = if is_shared { lhs } else { rhs };
        let mut model = Model::new(lhs, rhs, is_shared, trainers, budget);
        if unswapped && lhs == 1 && !is_shared {
            model.grid.tables[0].clear();
        }
        Model { passes, tree_init, ahead, collects: true, blocks, ..model }
    }
}

fn broken(model: &Model, world: &World) -> Option<&'static str> {
    let mut properties = invariants::properties().into_iter();
    let broken = properties.find(|property| !(property.condition)(model, world));
    broken.map(|property| property.name)
}

/// Chooses one of the possible steps. Faults and steps that undo work are chosen rarely, so that runs make progress.
fn choose(model: &Model, world: &World, choice: u32) -> Option<Step> {
    let mut steps = Vec::new();
    model.actions(world, &mut steps);
    let is_work = |step: &Step| {
        let undoes = |r: &Request| {
            matches!(
                r,
                Request::GiveUp(_)
                    | Request::Leave
                    | Request::Revoke(_)
                    | Request::Ranking(Part::GiveUp(_))
            )
        };
        !matches!(step, Step::Fault(_))
            && !matches!(step, Step::Send(_, request, _) | Step::Decide(_, request) if undoes(request))
    };
    let (work, rest): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(is_work);
    let of = if rest.is_empty() || !choice.is_multiple_of(8) && !work.is_empty() {
        work
    } else {
        rest
    };
    let index = (choice / 8) as usize % of.len().max(1);
    of.into_iter().nth(index)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn larger_grids_with_all_faults_keep_the_invariants(
        model in model(),
        choices in proptest::collection::vec(any::<u32>(), 800),
    ) {
        let mut world = model.init_states().remove(0);
        let mut steps = 0;
        for choice in choices {
            let Some(step) = choose(&model, &world, choice) else { break };
            steps += 1;
            let shown = format!("{step:?}");
            if let Some(next) = model.next_state(&world, step) {
                world = next;
            }
            prop_assert_eq!(broken(&model, &world), None, "after {}", shown);
        }
        let is_over = world.register.as_ref().is_some_and(|record| record.phase() == Phase::Finished);
        prop_assert!(is_over || steps == 800, "no trainer can take a step");
        let token = world.next_token();
        let mut record = match standing(&model, &world) {
            Some(record) => record.clone(),
            None => model.found(world.newest(), token.0 + 1),
        };
        // A ranking begins, ranks each block, and ends.
        let most = (model.grid.buckets() + 2) * model.passes as usize + model.blocks as usize + 3;
        for _ in 0..most {
            record = go_on(&model, record, token).unwrap();
            record.check().unwrap();
        }
        prop_assert_eq!(record.phase(), Phase::Finished);
    }
}

/// Takes a walk of at most 200 steps, chosen by pseudorandom numbers that start with `state`.
fn walk(model: &Model, mut state: u64) -> Option<&'static str> {
    let mut world = model.init_states().remove(0);
    for _ in 0..200 {
        // Xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let step = choose(model, &world, (state >> 32) as u32)?;
        world = model.next_state(&world, step).unwrap_or(world);
        if let Some(broken) = broken(model, &world) {
            return Some(broken);
        }
    }
    None
}

/// A ledger with a deliberate mistake, like those of [`broken`](super::broken), for which a checker would need too many
/// steps: the register is restored to an earlier state twice, or a write arrives after that, and a trainer of the older
/// history makes a checkpoint of it.
#[test]
fn a_checkpoint_of_a_record_that_does_not_stand_is_found() {
    let budget = Budget {
        set_back: 2,
        late: 1,
        checkpoints: 6,
        ..Budget::default()
    };
    let model = |mistake| Model {
        passes: 3,
        collects: true,
        mistake,
        ..Model::new(1, 2, false, 3, budget)
    };
    // A few of 100,000 walks find the mistake; this is one of them.
    let starts = [954_140_164];
    let find = |mistake| starts.map(|start| walk(&model(mistake), start));
    let found = find(Some(Mistake::CheckpointOfAnyRecord));
    let is_it = |broken: &str| broken.starts_with("6:");
    assert!(found.into_iter().flatten().any(is_it), "{found:?}");
    assert_eq!(find(None), [None]);
}
