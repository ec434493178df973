//! A run, transaction by transaction: it gathers its trainers, advances from pass to pass, commits and ends.

use pbg_core::graph::Bucket;
use pbg_core::schedule::PassId;

use super::super::*;
use super::asked::{to_checkpoint, to_lease, to_revoke};
use super::refusals::{ONE, TWO, act, model, open, opened, settle};
use super::world::{Budget, Model};

#[test]
fn a_run_gathers_ends_on_request_and_goes_on() {
    let model = model();
    let founding = Genesis {
        terms: model.terms(),
        run: Token(0),
        incarnation: Token(7),
        wanted: 2,
        work: TrainedState::none(&model.grid),
        base: None,
        servers: Default::default(),
    };
    let mut record = LedgerRecord::create(founding).unwrap();
    record = act(&record, ONE, model.join(&record, None)).unwrap();
    assert_eq!(record.phase(), Phase::Gathering(2));
    record = act(&record, TWO, model.join(&record, None)).unwrap();
    assert_eq!(record.phase(), Phase::Opening);
    record = open(&record, &[]);
    record = act(&record, ONE, to_lease(&record, Bucket::new(0, 0))).unwrap();
    record = record.apply_command(OperatorCommand::Stop).unwrap();
    record.apply_command(OperatorCommand::Stop).unwrap_err();
    assert!(record.free(TWO).is_empty());
    let phase = Phase::Stopping;
    assert_eq!(
        act(&record, TWO, to_lease(&record, Bucket::new(1, 1))).unwrap_err(),
        TransactionError::Phase { phase }
    );
    assert_eq!(
        act(&record, Token(3), model.join(&record, None)).unwrap_err(),
        TransactionError::Phase { phase }
    );
    let trained = model.settlement(&record, ONE, Bucket::new(0, 0));
    record = settle(&record, &trained).unwrap();
    record = act(&record, ONE, LedgerAction::Leave).unwrap();
    record = record.apply_command(OperatorCommand::Evict(TWO)).unwrap();
    assert_eq!(
        record
            .apply_command(OperatorCommand::Evict(TWO))
            .unwrap_err(),
        TransactionError::NoTrainer { token: TWO }
    );
    // A removed trainer cannot rejoin a run that was stopped meanwhile; a newly started trainer can join it.
    assert_eq!(
        act(&record, Token(3), model.join(&record, Some(TWO))).unwrap_err(),
        TransactionError::Phase { phase }
    );
    record = act(&record, Token(3), model.join(&record, None)).unwrap();
    assert_eq!(record.phase(), Phase::Training);
    assert_eq!(record.state(Bucket::new(0, 0)), Some(BucketState::Done));
}

#[test]
fn a_pass_is_left_once_and_from_where_it_is() {
    let model = Model {
        passes: 2,
        ..Model::new(1, 1, true, 0, Budget::default())
    };
    let mut record = model.found(None, 7);
    record = act(&record, ONE, model.join(&record, None)).unwrap();
    let advance = |edge_chunk| {
        let from = PassId {
            edge_chunk,
            ..PassId::default()
        };
        LedgerAction::Advance { from }
    };
    record = open(&record, &[]);
    let phase = Phase::Training;
    assert_eq!(
        act(&record, ONE, advance(0)).unwrap_err(),
        TransactionError::Phase { phase }
    );
    let bucket = Bucket::new(0, 0);
    record = act(&record, ONE, to_lease(&record, bucket)).unwrap();
    record = settle(&record, &model.settlement(&record, ONE, bucket)).unwrap();
    assert!(matches!(
        act(&record, ONE, advance(1)).unwrap_err(),
        TransactionError::Pass { .. }
    ));
    record = act(&record, ONE, advance(0)).unwrap();
    assert_eq!(record.phase(), Phase::Opening);
    assert_eq!(record.work.pass.edge_chunk, 1);
    record.check().unwrap();
}

#[test]
fn one_trainer_writes_a_checkpoint_and_anyone_may_end_it() {
    let first = opened(&model());
    let record = act(&first, ONE, to_checkpoint(&first)).unwrap();
    let (token, cut) = record.checkpoint_in_progress().unwrap();
    assert_eq!((token, cut.version), (ONE, 1));
    let busy = act(&record, TWO, to_checkpoint(&record)).unwrap_err();
    assert_eq!(
        busy,
        TransactionError::CheckpointUnderWay {
            token: ONE,
            version: 1
        }
    );
    let gone = act(&record, TWO, to_revoke(&record, ONE)).unwrap();
    assert_eq!(gone.checkpoint_in_progress(), None);
    let again = act(&gone, TWO, to_checkpoint(&gone)).unwrap();
    let second = again.checkpoint_in_progress().unwrap().1;
    assert_eq!(second.version, 2, "the first one may still be written");
    let first = act(&again, TWO, LedgerAction::Committed(cut)).unwrap();
    assert_eq!(first.checkpoints.base, Some(cut));
    assert_eq!(first.checkpoints.cuts, [second]);
    let both = act(&first, TWO, LedgerAction::Committed(second)).unwrap();
    assert_eq!(both.checkpoints.base, Some(second));
    assert_eq!(
        act(&both, TWO, LedgerAction::Committed(cut)).unwrap_err(),
        TransactionError::UnknownCut { cut }
    );
}

#[test]
fn plans_are_told_apart() {
    let plan: Vec<Bucket> = (0..9).map(|index| model().grid.bucket(index)).collect();
    let mut other = plan.clone();
    other.swap(3, 4);
    assert_ne!(plan_digest(&plan), plan_digest(&other));
    assert_eq!(plan_digest(&plan), plan_digest(&plan.clone()));
}

#[test]
fn the_last_one_leaves_when_everything_is_saved() {
    let model = model();
    let mut record = opened(&model);
    assert!(record.is_saved());
    record = act(&record, ONE, to_lease(&record, Bucket::new(0, 0))).unwrap();
    record = settle(&record, &model.settlement(&record, ONE, Bucket::new(0, 0))).unwrap();
    assert!(!record.is_saved());
    // The other trainer can still save the work.
    let left = act(&record, TWO, LedgerAction::LeaveSaved).unwrap();
    let denied = act(&left, ONE, LedgerAction::LeaveSaved).unwrap_err();
    assert_eq!(denied, TransactionError::NotSaved);
    record = act(&left, ONE, to_checkpoint(&left)).unwrap();
    let (_, cut) = record.checkpoint_in_progress().unwrap();
    assert!(cut.is_of(&record) && !cut.is_of(&left));
    assert!(!record.is_saved());
    record = act(&record, ONE, LedgerAction::Committed(cut)).unwrap();
    assert!(record.is_saved());
    let empty = act(&record, ONE, LedgerAction::LeaveSaved).unwrap();
    assert!(empty.trainers().is_empty());
    // Work settled while a checkpoint is written is not part of the checkpoint.
    record = act(&left, ONE, to_checkpoint(&left)).unwrap();
    let (_, cut) = record.checkpoint_in_progress().unwrap();
    record = act(&record, ONE, to_lease(&record, Bucket::new(1, 1))).unwrap();
    record = settle(&record, &model.settlement(&record, ONE, Bucket::new(1, 1))).unwrap();
    record = act(&record, ONE, LedgerAction::Committed(cut)).unwrap();
    assert!(!record.is_saved());
}

#[test]
fn what_is_told_counts_until_a_checkpoint_has_it() {
    let model = model();
    let mut record = opened(&model);
    let train = |record: &LedgerRecord, bucket, told| {
        let record = act(record, ONE, to_lease(record, bucket)).unwrap();
        let settlement = Settlement {
            told,
            ..model.settlement(&record, ONE, bucket)
        };
        settle(&record, &settlement).unwrap()
    };
    record = train(&record, Bucket::new(0, 0), 0);
    assert!(record.event_logs().is_empty());
    record = train(&record, Bucket::new(0, 1), 100);
    assert_eq!(record.event_logs()[&ONE].bytes, 100);
    record = act(&record, TWO, to_checkpoint(&record)).unwrap();
    let (_, cut) = record.checkpoint_in_progress().unwrap();
    // The entry remains as long as the trainer may write more events.
    let committed = act(&record, TWO, LedgerAction::Committed(cut)).unwrap();
    assert_eq!(committed.event_logs()[&ONE].bytes, 100);
    committed.check().unwrap();
    // Events of a trainer that has left, written after the checkpoint began, are left to the next checkpoint.
    let later = train(&record, Bucket::new(1, 1), 150);
    let left = act(&later, ONE, LedgerAction::Leave).unwrap();
    let committed = act(&left, TWO, LedgerAction::Committed(cut)).unwrap();
    assert_eq!(committed.event_logs()[&ONE].bytes, 150);
    let left = act(&record, ONE, LedgerAction::Leave).unwrap();
    let committed = act(&left, TWO, LedgerAction::Committed(cut)).unwrap();
    assert!(committed.event_logs().is_empty());
}
