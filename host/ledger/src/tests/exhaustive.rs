//! Every world that small models can reach, fault by fault. In all of them, trainers take their steps in any order, so
//! one may pause before any step and resume after any other. Each test says which faults can occur in addition, and how
//! often.
//!
//! A grid of 3 x 3 shared partitions lets one or two trainers train at the same time, one of 2 x 3 partitions two; the
//! third trainer waits, takes over, and revokes. The faults that need the most states, a register that loses writes
//! together with other faults, are checked on 1 x 2 partitions: one that both buckets need, and one for each.
//!
//! The second argument of [`holds`] is a lower bound of the number of worlds, so that no model shrinks unnoticed. It is
//! well below the counted number, because the choice of the canonical world among equivalent ones depends on hashes.

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
    paused: 0,
};

/// A revoked trainer finds out at once. That it may find out at any later moment is checked where the number of states
/// allows it. It makes no difference, because the record gives it the same reply at any time.
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
    holds(wakes_at_once(shared(3, 3, budget)), 7000);
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
        7000,
    );
}

#[test]
fn three_trainers_on_two_sides_pause_crash_and_are_evicted() {
    let budget = Budget {
        evictions: 1,
        ..NONE
    };
    holds(two_sided(2, 3, 3, budget), 3500);
    let budget = Budget {
        crashes: 1,
        ..budget
    };
    holds(wakes_at_once(two_sided(2, 3, 3, budget)), 2100);
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
    holds(model.clone(), 2800);
    holds(
        Model {
            tree_init: true,
            ..model
        },
        1400,
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
    holds(model.clone(), 70);
    holds(
        Model {
            tree_init: true,
            ..model
        },
        70,
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
        10_500,
    );
    let budget = Budget { lost: 1, ..budget };
    holds(
        Model {
            passes: 2,
            ..two_sided(1, 2, 2, budget)
        },
        2100,
    );
}

#[test]
fn answers_are_lost_and_writes_are_late_or_doubled() {
    let lost = Budget {
        lost: 1,
        evictions: 1,
        ..NONE
    };
    holds(wakes_at_once(two_sided(2, 3, 3, lost)), 2800);
    holds(two_sided(2, 2, 2, Budget { lost: 2, ..lost }), 2800);
    holds(two_sided(2, 2, 2, Budget { late: 1, ..NONE }), 2100);
    holds(two_sided(2, 2, 2, Budget { doubled: 1, ..NONE }), 700);
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
        2800,
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
    holds(wakes_at_once(two_sided(2, 2, 2, evicted)), 10_500);
    holds(two_sided(2, 2, 2, Budget { wiped: 1, ..NONE }), 70);
    for (budget, worlds) in [
        (
            Budget {
                set_back: 2,
                ..NONE
            },
            1400,
        ),
        (Budget { lost: 1, ..back }, 489),
        (Budget { late: 1, ..back }, 6300),
        (Budget { doubled: 1, ..back }, 2800),
        (
            Budget {
                wiped: 1,
                late: 1,
                ..NONE
            },
            2100,
        ),
    ] {
        holds(two_sided(1, 2, 2, budget), worlds);
    }
}

/// Checkpoints that begin, are abandoned, taken over, and restarted from.
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
            10_500,
        ),
        (
            Budget {
                crashes: 1,
                evictions: 1,
                ..checkpoint
            },
            3500,
        ),
        (
            Budget {
                checkpoints: 2,
                crashes: 1,
                ..NONE
            },
            3500,
        ),
        (
            Budget {
                wiped: 1,
                ..checkpoint
            },
            700,
        ),
        (
            Budget {
                lost: 1,
                wiped: 1,
                ..checkpoint
            },
            700,
        ),
    ] {
        holds(wakes_at_once(two_sided(1, 2, 2, budget)), worlds);
    }
}

/// Files that a checkpoint has made superfluous are removed, while the register may still return to records that name
/// them.
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
        (1, Budget { set_back: 1, ..two }, 17_500),
        (
            2,
            Budget {
                set_back: 1,
                ..checkpoint
            },
            52_500,
        ),
        (
            2,
            Budget {
                evictions: 1,
                ..checkpoint
            },
            4900,
        ),
        (
            2,
            Budget {
                crashes: 1,
                ..checkpoint
            },
            7000,
        ),
        (2, two, 3500),
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

/// Blocks are ranked, given up, and ranked by other trainers, while trainers and the register fail.
#[test]
fn blocks_are_ranked_whatever_happens() {
    let evicted = Budget {
        evictions: 1,
        ..NONE
    };
    let gone = Budget {
        crashes: 1,
        given_up: 1,
        left: 1,
        ..NONE
    };
    let unanswered = Budget {
        lost: 1,
        checkpoints: 1,
        ..evicted
    };
    let set_back = Budget {
        set_back: 1,
        ..evicted
    };
    for (rhs, trainers, budget, worlds) in [
        (1, 3, evicted, 700),
        (2, 2, gone, 3500),
        (1, 2, unanswered, 12_000),
        (1, 2, Budget { late: 1, ..NONE }, 600),
        (1, 2, Budget { doubled: 1, ..NONE }, 200),
        (1, 2, Budget { wiped: 1, ..NONE }, 260),
    ] {
        let model = two_sided(1, rhs, trainers, budget);
        holds(Model { blocks: 2, ..model }, worlds);
    }
    let model = wakes_at_once(two_sided(1, 1, 2, set_back));
    holds(Model { blocks: 2, ..model }, 10_500);
}

/// A trainer pauses between a decision and its transaction, and anything else happens in between.
#[test]
fn trainers_pause_between_a_decision_and_its_transaction() {
    let paused = Budget { paused: 1, ..NONE };
    let evicted = Budget {
        evictions: 1,
        ..paused
    };
    let passes = |model| Model { passes: 2, ..model };
    holds(
        passes(two_sided(1, 2, 2, Budget { paused: 2, ..NONE })),
        200,
    );
    holds(passes(wakes_at_once(two_sided(1, 2, 2, evicted))), 300);
    holds(wakes_at_once(shared(3, 2, paused)), 22_000);
    let gone = Budget {
        crashes: 1,
        given_up: 1,
        left: 1,
        ..paused
    };
    for (budget, worlds) in [
        (
            Budget {
                set_back: 1,
                ..paused
            },
            750,
        ),
        (Budget { lost: 1, ..evicted }, 280),
        (Budget { late: 1, ..paused }, 520),
        (gone, 1000),
    ] {
        holds(wakes_at_once(two_sided(1, 2, 2, budget)), worlds);
    }
    let checkpoint = Budget {
        checkpoints: 1,
        ..evicted
    };
    let model = wakes_at_once(two_sided(1, 2, 2, checkpoint));
    holds(
        Model {
            collects: true,
            ..model
        },
        25_000,
    );
    let model = two_sided(1, 1, 2, evicted);
    holds(Model { blocks: 2, ..model }, 100);
}
