//! Ledgers with a deliberate mistake. In each of them the checker must find a world that breaks an invariant, which
//! shows that the models reach the situations that the ledger guards against.

use super::checked::breaks;
use super::world::{Budget, Mistake, Model};

fn model(mistake: Mistake, budget: Budget) -> Model {
    Model {
        mistake: Some(mistake),
        ..Model::new(2, 2, true, 2, budget)
    }
}

/// Trainers train one bucket after another of the same left partition, and a checkpoint collects its replaced files.
fn collecting(mistake: Mistake) -> Model {
    let budget = Budget {
        set_back: 1,
        checkpoints: 1,
        ..Budget::default()
    };
    Model {
        collects: true,
        wakes_at_once: true,
        mistake: Some(mistake),
        ..Model::new(1, 2, false, 2, budget)
    }
}

#[test]
fn a_revoked_trainer_that_may_write_is_found() {
    let budget = Budget {
        evictions: 1,
        ..Budget::default()
    };
    let model = model(Mistake::NoFencing, budget);
    assert!(breaks(model.clone(), "3, 5") > 0);
    assert!(breaks(model, "the record's parts") > 0);
}

#[test]
fn a_bucket_that_is_settled_in_one_partition_is_found() {
    assert!(breaks(model(Mistake::HalfSettled, Budget::default()), "2, 4") > 0);
}

#[test]
fn partitions_that_two_hold_are_found() {
    assert!(breaks(model(Mistake::NobodyHolds, Budget::default()), "1") > 0);
}

#[test]
fn buckets_that_nobody_gives_back_are_found() {
    let budget = Budget {
        evictions: 1,
        ..Budget::default()
    };
    assert!(breaks(model(Mistake::LeasesStay, budget), "9") > 0);
}

#[test]
fn a_pass_that_ends_too_early_is_found() {
    let model = model(Mistake::EarlyAdvance, Budget::default());
    assert!(breaks(Model { passes: 2, ..model }, "2, 4, 8") > 0);
}

#[test]
fn a_trainer_that_goes_on_after_the_register_was_set_back_is_found() {
    let budget = Budget {
        set_back: 1,
        ..Budget::default()
    };
    let model = Model {
        ahead: true,
        ..model(Mistake::NothingCompared, budget)
    };
    assert!(breaks(model.clone(), "3, 5") > 0);
    assert!(breaks(model, "2, 4") > 0);
}

#[test]
fn a_manifest_of_two_revisions_is_found() {
    let budget = Budget {
        checkpoints: 1,
        ..Budget::default()
    };
    assert!(breaks(model(Mistake::MixedManifest, budget), "7") > 0);
}

#[test]
fn files_that_go_too_early_are_found() {
    assert!(breaks(collecting(Mistake::EagerCollection), "6") > 0);
}

#[test]
fn a_record_that_is_older_than_the_manifest_is_found() {
    assert!(breaks(collecting(Mistake::AnyRecordStands), "6") > 0);
}

/// Two trainers that validate. One of them may be revoked while it ranks.
fn validating(mistake: Mistake) -> Model {
    let budget = Budget {
        evictions: 1,
        checkpoints: 1,
        ..Budget::default()
    };
    Model {
        blocks: 2,
        mistake: Some(mistake),
        ..Model::new(1, 1, true, 2, budget)
    }
}

#[test]
fn a_block_that_is_counted_twice_is_found() {
    assert!(breaks(validating(Mistake::RankedUnasked), "10") > 0);
}

#[test]
fn a_ranking_without_some_of_its_blocks_is_found() {
    assert!(breaks(validating(Mistake::EarlyConclusion), "10") > 0);
}

#[test]
fn a_ranking_of_an_older_checkpoint_is_found() {
    assert!(breaks(validating(Mistake::AnyCheckpointRanked), "11") > 0);
}

#[test]
fn a_bucket_of_the_next_pass_that_is_trained_as_one_of_this_is_found() {
    let paused = Budget {
        paused: 1,
        ..Budget::default()
    };
    let model = |mistake, budget| Model {
        passes: 2,
        mistake,
        ..Model::new(1, 2, false, 2, budget)
    };
    let mistake = Some(Mistake::LeaseOfAnyPass);
    assert!(breaks(model(mistake, paused), "3, 5") > 0);
    // The mistake shows only if a trainer pauses between its decision and its transaction.
    super::checked::holds(model(mistake, Budget::default()), 15);
    super::checked::holds(model(None, paused), 50);
}
