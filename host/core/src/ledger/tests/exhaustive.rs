//! Every world that small models can reach, fault by fault. In all of them trainers take their steps in any order, so
//! one may pause before any step and wake after any other; each test says which faults come on top, and how many.
//!
//! `wakes_at_once` leaves out that a trainer which was revoked finds that out late. Models without it show that it makes
//! no difference when.

use super::checked::holds;
use super::world::{Budget, Model};

const NONE: Budget = Budget {
    crashes: 0,
    evictions: 0,
    lost: 0,
    late: 0,
    doubled: 0,
    set_back: 0,
    wiped: 0,
    given_up: 0,
    left: 0,
    checkpoints: 0,
};

fn measure(name: &str, model: Model) {
    let start = std::time::Instant::now();
    let states = holds(model);
    eprintln!("{name}: {states} states in {:?}", start.elapsed());
}

#[test]
fn three_trainers_on_a_shared_grid_and_one_is_evicted() {
    let budget = Budget { evictions: 1, ..NONE };
    let model = Model::new(3, 3, true, 3, budget);
    measure("3x3x3 evict", Model { wakes_at_once: true, ..model });
}

#[test]
fn three_trainers_on_a_shared_grid_in_the_order_of_a_tree() {
    let budget = Budget { evictions: 1, given_up: 1, ..NONE };
    let model = Model::new(3, 3, true, 3, budget);
    measure("3x3x3 tree", Model { wakes_at_once: true, tree_init: true, ..model });
}

#[test]
fn three_trainers_on_two_sides_pause_crash_and_are_evicted() {
    let evictions = Budget { evictions: 1, ..NONE };
    measure("2x3x3 evict, any time", Model::new(2, 3, false, 3, evictions));
    let budget = Budget { evictions: 1, crashes: 1, ..NONE };
    let model = Model::new(2, 3, false, 3, budget);
    measure("2x3x3 evict, crash", Model { wakes_at_once: true, ..model });
}

#[test]
fn buckets_are_leased_ahead_given_up_and_left() {
    let budget = Budget { evictions: 1, given_up: 1, left: 1, ..NONE };
    let model = Model::new(2, 3, false, 2, budget);
    measure("2x3x2 ahead", Model { ahead: true, wakes_at_once: true, ..model.clone() });
    measure("2x3x2 ahead tree", Model { ahead: true, wakes_at_once: true, tree_init: true, ..model });
}

#[test]
fn a_side_that_is_not_swapped_is_nobodys() {
    let mut model = Model::new(1, 3, false, 3, Budget { evictions: 1, ..NONE });
    model.grid.tables[0].clear();
    measure("1x3x3 unswapped", model.clone());
    measure("1x3x3 unswapped tree", Model { tree_init: true, ..model });
}

#[test]
fn passes_follow_each_other() {
    let budget = Budget { evictions: 1, crashes: 1, ..NONE };
    let model = Model::new(2, 2, true, 2, budget);
    measure("2x2x2 passes", Model { passes: 2, ..model });
    let model = Model::new(1, 2, false, 2, Budget { lost: 1, ..budget });
    measure("1x2x2 passes", Model { passes: 2, ..model });
}

#[test]
fn answers_are_lost_and_writes_are_late_or_doubled() {
    let lost = Budget { lost: 1, evictions: 1, ..NONE };
    measure("2x3x3 lost", Model { wakes_at_once: true, ..Model::new(2, 3, false, 3, lost) });
    for (name, budget) in [
        ("2x2x2 lost lost", Budget { lost: 2, evictions: 1, ..NONE }),
        ("2x2x2 late", Budget { late: 1, ..NONE }),
        ("2x2x2 doubled", Budget { doubled: 1, ..NONE }),
    ] {
        measure(name, Model::new(2, 2, false, 2, budget));
    }
    for (name, budget) in [
        ("1x2x2 late late", Budget { late: 2, evictions: 1, ..NONE }),
    ] {
        measure(name, Model::new(1, 2, false, 2, budget));
    }
}

#[test]
fn the_register_loses_its_last_writes_or_all() {
    for (name, budget) in [
        ("2x2x2 back", Budget { set_back: 1, evictions: 1, ..NONE }),
        ("2x2x2 wiped", Budget { wiped: 1, ..NONE }),
    ] {
        measure(name, Model { wakes_at_once: true, ..Model::new(2, 2, false, 2, budget) });
    }
    for (name, budget) in [
        ("1x2x2 back back", Budget { set_back: 2, ..NONE }),
        ("1x2x2 back lost", Budget { set_back: 1, lost: 1, ..NONE }),
        ("1x2x2 back late", Budget { set_back: 1, late: 1, ..NONE }),
        ("1x2x2 back doubled", Budget { set_back: 1, doubled: 1, ..NONE }),
        ("1x2x2 wiped late", Budget { wiped: 1, late: 1, ..NONE }),
    ] {
        measure(name, Model::new(1, 2, false, 2, budget));
    }
}

#[test]
fn checkpoints_and_a_register_that_loses_writes() {
    let checkpoints = Budget { checkpoints: 1, ..NONE };
    let model = Model::new(2, 2, false, 2, Budget { crashes: 1, ..checkpoints });
    measure("2x2x2 checkpoint crash", Model { wakes_at_once: true, ..model });
    for (name, budget) in [
        ("1x2x2 cp2 back", Budget { set_back: 1, checkpoints: 2, ..NONE }),
        ("1x2x2 cp back crash", Budget { set_back: 1, crashes: 1, ..checkpoints }),
        ("1x2x2 cp wiped", Budget { wiped: 1, ..checkpoints }),
        ("1x2x2 cp lost back", Budget { lost: 1, set_back: 1, ..checkpoints }),
    ] {
        measure(name, Model { wakes_at_once: true, ..Model::new(1, 2, false, 2, budget) });
    }
}

#[test]
fn files_are_collected() {
    for (name, budget) in [
        ("1x2x2 gc cp2 back", Budget { set_back: 1, checkpoints: 2, ..NONE }),
        ("1x2x2 gc cp1 back evict", Budget { set_back: 1, checkpoints: 1, evictions: 1, ..NONE }),
        ("1x2x2 gc cp2 crash", Budget { checkpoints: 2, crashes: 1, ..NONE }),
    ] {
        measure(name, Model { wakes_at_once: true, collects: true, ..Model::new(1, 2, false, 2, budget) });
    }
}
