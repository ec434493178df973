//! Refusals of single transactions, and the reasons that they state.

use pbg_core::graph::{Bucket, Side};
use pbg_core::schedule::PassId;

use super::super::*;
use super::asked::{to_checkpoint, to_give_up, to_lease};
use super::world::{Budget, Model};

pub(super) const ONE: Token = Token(1);
pub(super) const TWO: Token = Token(2);

pub(super) fn model() -> Model {
    Model::new(3, 3, true, 0, Budget::default())
}

pub(super) fn act(
    record: &LedgerRecord,
    token: Token,
    action: LedgerAction,
) -> Result<LedgerRecord, TransactionError> {
    let after = record
        .trainers
        .get(&token)
        .map_or(0, |trainer| trainer.last);
    record.apply(&Transaction {
        token,
        number: after + 1,
        after,
        action,
    })
}

pub(super) fn open(record: &LedgerRecord, empty: &[Bucket]) -> LedgerRecord {
    let (pass, plan, empty) = (record.work.pass, 5, empty.to_vec());
    act(record, ONE, LedgerAction::Open { pass, plan, empty }).unwrap()
}

/// A record in which two trainers have joined and the pass is open.
pub(super) fn opened(model: &Model) -> LedgerRecord {
    let mut record = model.found(None, 7);
    for token in [ONE, TWO] {
        record = act(&record, token, model.join(&record, None)).unwrap();
    }
    open(&record, &[])
}

pub(super) fn settle(
    record: &LedgerRecord,
    settlement: &Settlement,
) -> Result<LedgerRecord, TransactionError> {
    act(
        record,
        ONE,
        LedgerAction::Settle(Box::new(settlement.clone())),
    )
}

/// The record of [`opened`] after the first trainer has leased `bucket`.
fn leased(model: &Model, bucket: Bucket) -> LedgerRecord {
    let record = opened(model);
    act(&record, ONE, to_lease(&record, bucket)).unwrap()
}

#[test]
fn the_first_difference_of_a_trainer_is_named() {
    let model = model();
    let record = model.found(None, 7);
    let refused = |change: fn(&mut Join)| {
        let LedgerAction::Join(mut join) = model.join(&record, None) else {
            unreachable!()
        };
        change(&mut join);
        act(&record, ONE, LedgerAction::Join(join))
            .unwrap_err()
            .to_string()
    };
    let plugin = |name: &str| PluginTerm {
        name: name.to_owned(),
        sha256: "0".to_owned(),
    };
    assert_eq!(
        refused(|j| j.terms.protocol = 4),
        "the protocol version is 4 here, but 3 in the run"
    );
    assert!(
        refused(|j| j.terms.training = "x".to_owned())
            .starts_with("the hash of the configuration is x")
    );
    assert!(
        refused(|j| j.terms.dataset = 255)
            .starts_with("the checksum of the dataset's manifest is 000000ff")
    );
    assert!(refused(|j| j.terms.extent.epochs = 3).contains("3 epochs"));
    assert!(refused(|j| j.terms.grid.shared = false).contains("grid"));
    assert!(
        refused(|j| j.terms.tree_init = true).starts_with("distributed_tree_init_order is true")
    );
    assert!(refused(|j| j.name = "n".repeat(65)).contains("65 bytes"));
    let mut terms = model.terms();
    terms.plugins = vec![plugin("inside-out")];
    let other = RunTerms {
        plugins: vec![PluginTerm {
            sha256: "1".to_owned(),
            ..plugin("inside-out")
        }],
        ..terms.clone()
    };
    let differs = terms.compare(&other).unwrap_err().to_string();
    assert_eq!(
        differs,
        "the plugin inside-out is inside-out 1 here, but inside-out 0 in the run"
    );
}

#[test]
fn a_rank_that_lives_is_taken_until_its_trainer_comes_again() {
    let model = model();
    let mut record = model.found(None, 7);
    let join = |record: &LedgerRecord, instead_of| {
        let LedgerAction::Join(mut join) = model.join(record, instead_of) else {
            unreachable!()
        };
        (join.rank, join.name) = (Some(0), "node-a".to_owned());
        LedgerAction::Join(join)
    };
    record = act(&record, ONE, join(&record, None)).unwrap();
    let refused = act(&record, TWO, join(&record, None)).unwrap_err();
    assert_eq!(refused.to_string(), "rank 0 is taken by the trainer node-a");
    record = act(&record, TWO, join(&record, Some(ONE))).unwrap();
    assert_eq!(record.trainers.keys().collect::<Vec<_>>(), [&TWO]);
}

#[test]
fn a_transaction_counts_once_and_only_after_what_its_trainer_knows() {
    let record = opened(&model());
    let send = |number, after| {
        let action = to_lease(&record, Bucket::new(0, 1));
        record.apply(&Transaction {
            token: TWO,
            number,
            after,
            action,
        })
    };
    let next = send(2, 1).unwrap();
    assert_eq!(next.fate(TWO, 2, 1), TransactionFate::Applied);
    assert_eq!(record.fate(TWO, 2, 1), TransactionFate::NotApplied);
    assert_eq!(record.fate(Token(3), 2, 1), TransactionFate::Fenced);
    assert_eq!(
        send(1, 0).unwrap_err(),
        TransactionError::Applied {
            token: TWO,
            number: 1
        }
    );
    assert_eq!(
        send(3, 2).unwrap_err(),
        TransactionError::SetBack {
            token: TWO,
            last: 1,
            after: 2
        }
    );
    assert_eq!(
        send(2, 0).unwrap_err(),
        TransactionError::Overtaken {
            token: TWO,
            last: 1
        }
    );
    assert_eq!(
        send(2, 2).unwrap_err(),
        TransactionError::Number {
            number: 2,
            after: 2
        }
    );
    let fenced = act(&record, Token(3), LedgerAction::Leave).unwrap_err();
    assert_eq!(fenced, TransactionError::Fenced { token: Token(3) });
    let join = act(&record, TWO, model().join(&record, None)).unwrap_err();
    assert_eq!(join, TransactionError::TokenTaken { token: TWO });
}

#[test]
fn a_settlement_replaces_all_partitions_of_its_buckets_and_no_others() {
    let model = model();
    let bucket = Bucket::new(0, 1);
    let record = leased(&model, bucket);
    let good = model.settlement(&record, ONE, bucket);
    let refused = |change: fn(&mut Settlement)| {
        let mut settlement = good.clone();
        change(&mut settlement);
        settle(&record, &settlement).unwrap_err()
    };
    let (buckets, group) = (1, (Side::Lhs, 1));
    assert_eq!(
        refused(|s| drop(s.partitions.pop())),
        TransactionError::Partitions { buckets, group }
    );
    assert!(matches!(
        refused(|s| s.partitions.push(s.partitions[0].clone())),
        TransactionError::Partitions { .. }
    ));
    assert!(matches!(
        refused(|s| s.buckets.push(Bucket::new(2, 2))),
        TransactionError::NotLeased { .. }
    ));
    assert!(matches!(
        refused(|s| s.partitions[0].files.clear()),
        TransactionError::Files { found: 0, .. }
    ));
    assert!(matches!(
        refused(|s| s.partitions[0].from.generation = 3),
        TransactionError::Fork { .. }
    ));
    let same = refused(|s| s.partitions[0].files[0].id = s.partitions[1].files[0].id);
    assert!(
        matches!(same, TransactionError::FileName { count: 2, .. }),
        "{same}"
    );
    let others = refused(|s| s.partitions[0].files[0].id.writer = Some((TWO, 9)));
    assert!(
        matches!(others, TransactionError::FileName { count: 0, .. }),
        "{others}"
    );
    assert!(matches!(
        refused(|s| s.sums.train.loss = f64::NAN),
        TransactionError::NotFinite { .. }
    ));
    assert!(matches!(
        refused(|s| s.next = vec![Bucket::new(0, 9)]),
        TransactionError::NoBucket { .. }
    ));
    let held = act(&record, TWO, to_lease(&record, Bucket::new(1, 2))).unwrap_err();
    assert_eq!(
        held,
        TransactionError::Held {
            bucket: Bucket::new(1, 2),
            group: (Side::Lhs, 1),
            holder: ONE
        }
    );
}

#[test]
fn a_name_of_a_file_is_never_settled_again() {
    let model = model();
    let bucket = Bucket::new(0, 1);
    let record = leased(&model, bucket);
    let good = model.settlement(&record, ONE, bucket);
    let settled = settle(
        &record,
        &Settlement {
            next: vec![Bucket::new(2, 0)],
            ..good.clone()
        },
    )
    .unwrap();
    assert_eq!(settled.holder((Side::Lhs, 1)), None);
    assert_eq!(settled.holder((Side::Lhs, 0)), Some(ONE));
    let mut old_name = model.settlement(&settled, ONE, Bucket::new(2, 0));
    old_name.partitions[0].files = good.partitions[0].files.clone();
    assert!(matches!(
        settle(&settled, &old_name).unwrap_err(),
        TransactionError::FileName { last: 2, .. }
    ));
}

#[test]
fn in_the_first_pass_a_bucket_hangs_on_one_that_was_given_out() {
    let model = Model {
        tree_init: true,
        ..model()
    };
    let record = leased(&model, Bucket::new(0, 0));
    let bucket = Bucket::new(1, 2);
    assert_eq!(
        act(&record, TWO, to_lease(&record, bucket)).unwrap_err(),
        TransactionError::Tree { bucket }
    );
    assert!(
        record.free(TWO).is_empty(),
        "only the buckets of partition 0, which is held"
    );
    let given_up = act(&record, ONE, to_give_up(&record, vec![Bucket::new(0, 0)])).unwrap();
    act(&given_up, TWO, to_lease(&given_up, bucket)).unwrap();
    let trained = model.settlement(&record, ONE, Bucket::new(0, 0));
    let record = settle(&record, &trained).unwrap();
    act(&record, TWO, to_lease(&record, bucket)).unwrap_err();
    let record = act(&record, TWO, to_lease(&record, Bucket::new(0, 2))).unwrap();
    let record = act(&record, TWO, to_lease(&record, bucket)).unwrap();
    let first = to_give_up(&record, vec![Bucket::new(0, 2)]);
    assert!(matches!(
        act(&record, TWO, first).unwrap_err(),
        TransactionError::Tree { .. }
    ));
    act(&record, TWO, to_give_up(&record, vec![bucket])).unwrap();
}

#[test]
fn buckets_without_edges_are_done_and_connect() {
    let model = Model {
        tree_init: true,
        ..model()
    };
    let mut record = model.found(None, 7);
    record = act(&record, ONE, model.join(&record, None)).unwrap();
    let grid = (0..9).map(|index| model.grid.bucket(index));
    let empty: Vec<Bucket> = grid.filter(|bucket| bucket.lhs != bucket.rhs).collect();
    record = open(&record, &empty);
    for p in 0..3 {
        let bucket = Bucket::new(p, p);
        assert_eq!(record.free(ONE).first(), Some(&bucket));
        record = act(&record, ONE, to_lease(&record, bucket)).unwrap();
        record = settle(&record, &model.settlement(&record, ONE, bucket)).unwrap();
    }
    assert_eq!(record.phase(), Phase::PassDone);
}

/// Each action names what its decision was based on, and changes nothing once that has changed.
#[test]
fn what_was_decided_on_another_record_is_refused() {
    let model = Model {
        passes: 2,
        ..model()
    };
    let bucket = Bucket::new(0, 1);
    let record = leased(&model, bucket);
    let next = PassId {
        edge_chunk: 1,
        ..PassId::default()
    };
    let settlement = Settlement {
        pass: next,
        ..model.settlement(&record, ONE, bucket)
    };
    for of_next_pass in [
        LedgerAction::Lease {
            pass: next,
            bucket: Bucket::new(2, 2),
        },
        LedgerAction::GiveUp {
            pass: next,
            buckets: vec![bucket],
        },
        LedgerAction::Settle(Box::new(settlement)),
        LedgerAction::Advance { from: next },
        LedgerAction::Open {
            pass: next,
            plan: 1,
            empty: Vec::new(),
        },
        LedgerAction::Checkpoint {
            pass: next,
            newest: None,
        },
    ] {
        let refused = act(&record, ONE, of_next_pass).unwrap_err();
        assert!(
            matches!(refused, TransactionError::Pass { .. }),
            "{refused}"
        );
    }
    // A trainer that has written a transaction since it was considered silent is alive.
    let silent = SilentTrainer::of(&record, ONE).unwrap();
    let spoken = act(&record, ONE, to_give_up(&record, vec![bucket])).unwrap();
    let last = silent.last + 1;
    for refused in [
        act(&spoken, TWO, LedgerAction::Revoke(silent)),
        spoken.apply_command(OperatorCommand::EvictSilent(silent)),
    ] {
        let (token, seen) = (ONE, silent.last);
        assert_eq!(
            refused.unwrap_err(),
            TransactionError::Alive { token, last, seen }
        );
    }
    spoken
        .apply_command(OperatorCommand::EvictSilent(SilentTrainer {
            last,
            ..silent
        }))
        .unwrap();
    // A checkpoint follows the manifest that was the newest when it was decided, and a trainer joins the record that it
    // has checked.
    let begun = act(&record, ONE, to_checkpoint(&record)).unwrap();
    let cut = begun.checkpoint_in_progress().unwrap().1;
    let committed = act(&begun, ONE, LedgerAction::Committed(cut)).unwrap();
    let join = |newest, incarnation| {
        let LedgerAction::Join(mut join) = model.join(&record, None) else {
            unreachable!()
        };
        (join.newest, join.incarnation) = (newest, incarnation);
        act(&committed, Token(3), LedgerAction::Join(join))
    };
    for refused in [
        act(&committed, TWO, to_checkpoint(&record)),
        join(None, committed.incarnation),
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, TransactionError::Stale(_)), "{refused}");
    }
    let refused = join(Some(cut), Token(8)).unwrap_err();
    assert!(
        matches!(refused, TransactionError::Incarnation { .. }),
        "{refused}"
    );
    act(&committed, TWO, to_checkpoint(&committed)).unwrap();
    join(Some(cut), committed.incarnation).unwrap();
}
