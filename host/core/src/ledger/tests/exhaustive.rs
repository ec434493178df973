//! Every world that small models can reach, fault by fault. In all of them trainers take their steps in any order, so
//! one may pause before any step and wake after any other; each test says which faults come on top, and how many.
//!
//! A grid of 3 x 3 shared partitions has room for one or two trainers at a time, one of 2 x 3 for two; the third one
//! waits, takes over, and revokes. What needs most states, a register that loses its writes together with other faults,
//! is checked on 1 x 2 partitions: one that both buckets need, and one for each.
//!
//! The second argument of [`holds`] is a number of worlds that there are at least, so that no model shrinks unseen.

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

/// A revoked trainer finds out at once. That it may at any later moment is checked where the states allow it, and makes
/// no difference, because the record answers it the same whenever it asks.
fn wakes_at_once(model: Model) -> Model {
    Model {
        wakes_at_once: true,
        ..model
    }
}

fn shared(partitions: u32, trainers: usize, budget: Budget) -> Model {
    Model::new(partitions, partitions, true, trainers, budget)
}

fn two_sided(lhs: u32, rhs: u32, trainers: usize, budget: Budget) -> Model {
    Model::new(lhs, rhs, false, trainers, budget)
}

#[test]
fn three_trainers_on_a_shared_grid_and_one_is_evicted() {
    let budget = Budget {
        evictions: 1,
        ..NONE
    };
    holds(wakes_at_once(shared(3, 3, budget)), 10_000);
}

#[test]
fn three_trainers_on_a_shared_grid_in_the_order_of_a_tree() {
    let budget = Budget {
        evictions: 1,
        given_up: 1,
        ..NONE
    };
    let model = wakes_at_once(shared(3, 3, budget));
    holds(
        Model {
            tree_init: true,
            ..model
        },
        10_000,
    );
}

#[test]
fn three_trainers_on_two_sides_pause_crash_and_are_evicted() {
    let budget = Budget {
        evictions: 1,
        ..NONE
    };
    holds(two_sided(2, 3, 3, budget), 5000);
    let budget = Budget {
        crashes: 1,
        ..budget
    };
    holds(wakes_at_once(two_sided(2, 3, 3, budget)), 3000);
}

#[test]
fn buckets_are_leased_ahead_given_up_and_left() {
    let budget = Budget {
        evictions: 1,
        given_up: 1,
        left: 1,
        ..NONE
    };
    let model = wakes_at_once(two_sided(2, 3, 2, budget));
    let model = Model {
        ahead: true,
        ..model
    };
    holds(model.clone(), 4000);
    holds(
        Model {
            tree_init: true,
            ..model
        },
        2000,
    );
}

#[test]
fn a_side_that_is_not_swapped_is_nobodys() {
    let mut model = two_sided(
        1,
        3,
        3,
        Budget {
            evictions: 1,
            ..NONE
        },
    );
    model.grid.tables[0].clear();
    holds(model.clone(), 100);
    holds(
        Model {
            tree_init: true,
            ..model
        },
        100,
    );
}

#[test]
fn passes_follow_each_other() {
    let budget = Budget {
        evictions: 1,
        crashes: 1,
        ..NONE
    };
    holds(
        Model {
            passes: 2,
            ..shared(2, 2, budget)
        },
        15_000,
    );
    let budget = Budget { lost: 1, ..budget };
    holds(
        Model {
            passes: 2,
            ..two_sided(1, 2, 2, budget)
        },
        3000,
    );
}

#[test]
fn answers_are_lost_and_writes_are_late_or_doubled() {
    let lost = Budget {
        lost: 1,
        evictions: 1,
        ..NONE
    };
    holds(wakes_at_once(two_sided(2, 3, 3, lost)), 4000);
    holds(two_sided(2, 2, 2, Budget { lost: 2, ..lost }), 4000);
    holds(two_sided(2, 2, 2, Budget { late: 1, ..NONE }), 3000);
    holds(two_sided(2, 2, 2, Budget { doubled: 1, ..NONE }), 1000);
    holds(
        two_sided(
            1,
            2,
            2,
            Budget {
                late: 2,
                evictions: 1,
                ..NONE
            },
        ),
        4000,
    );
}

#[test]
fn the_register_loses_its_last_writes_or_all() {
    let back = Budget {
        set_back: 1,
        ..NONE
    };
    let evicted = Budget {
        evictions: 1,
        ..back
    };
    holds(wakes_at_once(two_sided(2, 2, 2, evicted)), 15_000);
    holds(two_sided(2, 2, 2, Budget { wiped: 1, ..NONE }), 100);
    for (budget, worlds) in [
        (
            Budget {
                set_back: 2,
                ..NONE
            },
            2000,
        ),
        (Budget { lost: 1, ..back }, 700),
        (Budget { late: 1, ..back }, 9000),
        (Budget { doubled: 1, ..back }, 4000),
        (
            Budget {
                wiped: 1,
                late: 1,
                ..NONE
            },
            3000,
        ),
    ] {
        holds(two_sided(1, 2, 2, budget), worlds);
    }
}

/// Checkpoints that begin, are given up, taken over, and restarted from.
#[test]
fn checkpoints_outlive_trainers_and_the_register() {
    let checkpoint = Budget {
        checkpoints: 1,
        ..NONE
    };
    for (budget, worlds) in [
        (
            Budget {
                set_back: 1,
                ..checkpoint
            },
            15_000,
        ),
        (
            Budget {
                crashes: 1,
                evictions: 1,
                ..checkpoint
            },
            5000,
        ),
        (
            Budget {
                checkpoints: 2,
                crashes: 1,
                ..NONE
            },
            5000,
        ),
        (
            Budget {
                wiped: 1,
                ..checkpoint
            },
            1000,
        ),
        (
            Budget {
                lost: 1,
                wiped: 1,
                ..checkpoint
            },
            1000,
        ),
    ] {
        holds(wakes_at_once(two_sided(1, 2, 2, budget)), worlds);
    }
}

/// Files that a checkpoint makes superfluous are removed, while records that name them may come back.
#[test]
fn files_are_collected() {
    let checkpoint = Budget {
        checkpoints: 1,
        ..NONE
    };
    let two = Budget {
        checkpoints: 2,
        ..NONE
    };
    for (trainers, budget, worlds) in [
        (1, Budget { set_back: 1, ..two }, 25_000),
        (
            2,
            Budget {
                set_back: 1,
                ..checkpoint
            },
            75_000,
        ),
        (
            2,
            Budget {
                evictions: 1,
                ..checkpoint
            },
            7000,
        ),
        (
            2,
            Budget {
                crashes: 1,
                ..checkpoint
            },
            10_000,
        ),
        (2, two, 5000),
    ] {
        let model = wakes_at_once(two_sided(1, 2, trainers, budget));
        holds(
            Model {
                collects: true,
                ..model
            },
            worlds,
        );
    }
}
