//! Rankings, transaction by transaction: their course, the refusals, and the conclusions from the ranks.

use pbg_core::event::RankTotals;
use pbg_core::graph::Bucket;
use pbg_core::plateau::{PlateauRules, ValidationState};

use super::super::*;
use super::asked::{ranking_id, to_checkpoint, to_lease, to_revoke};
use super::rankings::{totals, validation};
use super::refusals::{ONE, TWO, act, open, settle};
use super::world::{Budget, Model};

const BLOCKS: u32 = 3;

/// A model with one bucket, which two trainers validate.
fn model() -> Model {
    Model {
        blocks: BLOCKS,
        ..Model::new(1, 1, true, 0, Budget::default())
    }
}

/// Two trainers of a run of `epochs` epochs that applies `rules` to its validation.
fn joined(epochs: u32, interval: u32, rules: PlateauRules) -> LedgerRecord {
    let mut record = model().found(None, 7);
    record.terms.extent.epochs = epochs;
    record.terms.validation = Some(ValidationTerms {
        interval,
        rules,
        ..validation()
    });
    let terms = record.terms.clone();
    for token in [ONE, TWO] {
        let LedgerAction::Join(mut join) = model().join(&record, None) else {
            unreachable!()
        };
        join.terms = terms.clone();
        record = act(&record, token, LedgerAction::Join(join)).unwrap();
    }
    record
}

/// Trains an epoch.
fn trained(record: &LedgerRecord) -> LedgerRecord {
    let mut record = open(record, &[]);
    let bucket = Bucket::new(0, 0);
    record = act(&record, ONE, to_lease(&record, bucket)).unwrap();
    record = settle(&record, &model().settlement(&record, ONE, bucket)).unwrap();
    let from = record.work.pass;
    act(&record, ONE, LedgerAction::Advance { from }).unwrap()
}

fn committed(record: &LedgerRecord) -> LedgerRecord {
    let record = act(record, ONE, to_checkpoint(record)).unwrap();
    let cut = record.checkpoint_in_progress().unwrap().1;
    act(&record, ONE, LedgerAction::Committed(cut)).unwrap()
}

fn begin(record: &LedgerRecord, blocks: u32) -> Result<LedgerRecord, TransactionError> {
    let version = record.checkpoints.newest_version();
    let epochs = record.work.pass.epoch;
    act(
        record,
        ONE,
        LedgerAction::BeginRanking {
            epochs,
            version,
            blocks,
        },
    )
}

/// A record of a ranking that has begun, after an epoch was trained and committed.
pub(super) fn ranking() -> LedgerRecord {
    let record = committed(&trained(&joined(1, 1, PlateauRules::default())));
    begin(&record, BLOCKS).unwrap()
}

pub(super) fn lease(
    record: &LedgerRecord,
    token: Token,
    block: u32,
) -> Result<LedgerRecord, TransactionError> {
    let ranking = ranking_id(record);
    act(record, token, LedgerAction::LeaseBlock { ranking, block })
}

fn ranked(
    record: &LedgerRecord,
    token: Token,
    block: u32,
    totals: BlockTotals,
) -> Result<LedgerRecord, TransactionError> {
    let ranked = LedgerAction::Ranked {
        ranking: ranking_id(record),
        block,
        totals: Box::new(totals),
    };
    act(record, token, ranked)
}

fn end(record: &LedgerRecord) -> Result<LedgerRecord, TransactionError> {
    act(record, TWO, LedgerAction::EndRanking(ranking_id(record)))
}

/// Ranks one block with the mean reciprocal rank `mrr`, and ends the ranking.
fn validated(record: &LedgerRecord, mrr: f64) -> LedgerRecord {
    let mut record = begin(&committed(record), 1).unwrap();
    record = lease(&record, ONE, 0).unwrap();
    let side = RankTotals {
        count: 1,
        rank: 1.0 / mrr,
        mrr,
        ..RankTotals::default()
    };
    record = ranked(&record, ONE, 0, [side, side]).unwrap();
    record.check().unwrap();
    end(&record).unwrap()
}

#[test]
fn blocks_are_ranked_once_and_added_in_their_order() {
    let mut record = ranking();
    record.check().unwrap();
    assert_eq!(record.phase(), Phase::Ranking);
    for (token, block) in [(TWO, 2), (ONE, 0)] {
        record = lease(&record, token, block).unwrap();
    }
    assert_eq!(record.free_blocks(), [1]);
    record.check().unwrap();
    let taken = TransactionError::BlockTaken { block: 2 };
    record = ranked(&record, ONE, 0, totals(0)).unwrap();
    assert_eq!(lease(&record, ONE, 2).unwrap_err(), taken);
    record = ranked(&record, TWO, 2, totals(2)).unwrap();
    assert_eq!(lease(&record, ONE, 2).unwrap_err(), taken);
    assert_eq!(
        end(&record).unwrap_err(),
        TransactionError::NotRanked { left: 1 }
    );
    assert_eq!(record.outcome(), None);
    record = lease(&record, TWO, 1).unwrap();
    record = ranked(&record, TWO, 1, totals(1)).unwrap();
    record.check().unwrap();
    let (expected, plateau) = record.outcome().unwrap();
    record = end(&record).unwrap();
    record.check().unwrap();
    assert_eq!(record.validated(), Some(&expected));
    assert_eq!(record.work.progress.plateau, plateau);
    let ValidationResult { epochs, ranks } = expected;
    assert_eq!((epochs, ranks.count, ranks.mean_rank), (1, 0b111, 1.0));
    assert_eq!((plateau.seen, plateau.best_epoch), (1, 1));
    assert_eq!(record.phase(), Phase::Finished);
    assert!(matches!(
        end(&record).unwrap_err(),
        TransactionError::Phase { .. }
    ));
}

#[test]
fn a_block_is_its_holders_until_that_gives_it_up_or_is_gone() {
    let record = lease(&ranking(), ONE, 1).unwrap();
    let (token, block) = (TWO, 1);
    let others = TransactionError::BlockNotLeased { token, block };
    let give_up = LedgerAction::GiveUpBlock {
        ranking: ranking_id(&record),
        block,
    };
    assert_eq!(ranked(&record, TWO, 1, totals(1)).unwrap_err(), others);
    assert_eq!(act(&record, TWO, give_up.clone()).unwrap_err(), others);
    assert!(matches!(
        lease(&record, ONE, 0).unwrap_err(),
        TransactionError::TooMany { most: 1, .. }
    ));
    assert_eq!(
        lease(&record, TWO, 3).unwrap_err(),
        TransactionError::NoBlock { block: 3 }
    );
    for free in [
        act(&record, ONE, give_up),
        act(&record, TWO, to_revoke(&record, ONE)),
        act(&record, ONE, LedgerAction::Leave),
        record.apply_command(OperatorCommand::Evict(ONE)),
    ] {
        let free = free.unwrap();
        free.check().unwrap();
        assert_eq!(free.free_blocks(), [0, 1, 2]);
        lease(&free, TWO, 1).unwrap();
    }
    let mut wrong = totals(1);
    wrong[0].mrr = f64::NAN;
    assert_eq!(
        ranked(&record, ONE, 1, wrong).unwrap_err(),
        TransactionError::Totals { block: 1 }
    );
}

#[test]
fn only_the_checkpoint_of_the_end_of_the_epoch_is_ranked() {
    let mut record = committed(&joined(2, 1, PlateauRules::default()));
    assert!(matches!(
        begin(&record, BLOCKS).unwrap_err(),
        TransactionError::Phase { .. }
    ));
    record = trained(&record);
    assert_eq!(record.phase(), Phase::Ranking);
    let old = TransactionError::NotOfEpoch { version: 1 };
    assert_eq!(begin(&record, BLOCKS).unwrap_err(), old);
    let open = LedgerAction::Open {
        pass: record.work.pass,
        plan: 5,
        empty: Vec::new(),
    };
    let phase = Phase::Ranking;
    assert_eq!(
        act(&record, ONE, open).unwrap_err(),
        TransactionError::Phase { phase }
    );
    // The checkpoint has begun, but is not committed.
    let begun = act(&record, ONE, to_checkpoint(&record)).unwrap();
    assert!(matches!(
        begin(&begun, BLOCKS).unwrap_err(),
        TransactionError::NotOfEpoch { version: 2 }
    ));
    record = committed(&record);
    assert_eq!(
        begin(&record, 0).unwrap_err(),
        TransactionError::NoBlock { block: 0 }
    );
    assert!(matches!(
        begin(&record, MAX_BLOCKS + 1).unwrap_err(),
        TransactionError::TooMany { .. }
    ));
    record = begin(&record, BLOCKS).unwrap();
    assert_eq!(
        begin(&record, BLOCKS).unwrap_err(),
        TransactionError::Phase { phase }
    );
    let checkpoint = act(&record, TWO, to_checkpoint(&record)).unwrap_err();
    assert_eq!(checkpoint, TransactionError::Phase { phase });
    let lease = |change: fn(&mut RankingId)| {
        let mut ranking = ranking_id(&record);
        change(&mut ranking);
        act(&record, TWO, LedgerAction::LeaseBlock { ranking, block: 0 })
    };
    let later = lease(|ranking| ranking.epochs = 2).unwrap_err();
    assert!(matches!(later, TransactionError::Pass { .. }));
    let older = lease(|ranking| ranking.version = 1).unwrap_err();
    assert!(matches!(older, TransactionError::Ranking { .. }));
    lease(|_| ()).unwrap();
}

#[test]
fn what_the_run_does_next_follows_from_the_ranks() {
    let rules = PlateauRules {
        early_stop: Some(2),
        lr_decay: Some(0.5),
        lr_patience: 1,
    };
    let mut record = joined(9, 1, rules);
    let mut told = Vec::new();
    for mrr in [0.25, 0.5, 0.125, 0.25] {
        assert_eq!(record.phase(), Phase::Opening);
        record = validated(&trained(&record), mrr);
        record.check().unwrap();
        let ValidationState {
            best_epoch,
            lr_factor,
            ..
        } = record.work.progress.plateau;
        told.push((best_epoch, lr_factor, record.work.enough));
    }
    assert_eq!(
        told,
        [
            (1, 1.0, false),
            (2, 1.0, false),
            (2, 0.5, false),
            (2, 0.25, true)
        ]
    );
    assert_eq!(record.phase(), Phase::Finished);
}

#[test]
fn epochs_between_two_rankings_are_not_ranked() {
    let mut record = joined(4, 3, PlateauRules::default());
    for epoch in 1..=4 {
        record = trained(&record);
        let expected = match epoch {
            3 => Phase::Ranking,
            4 => Phase::Finished,
            _ => Phase::Opening,
        };
        assert_eq!(record.phase(), expected);
        if epoch == 3 {
            record = validated(&record, 0.5);
            assert_eq!(record.phase(), Phase::Opening);
        }
    }
}

#[test]
fn a_run_that_ends_on_request_drops_the_ranking_and_makes_it_anew() {
    let record = lease(&ranking(), ONE, 0).unwrap();
    let record = record.apply_command(OperatorCommand::Stop).unwrap();
    record.check().unwrap();
    assert_eq!(record.phase(), Phase::Stopping);
    assert!(record.ranking().is_none());
    let phase = Phase::Stopping;
    assert_eq!(
        ranked(&record, ONE, 0, totals(0)).unwrap_err(),
        TransactionError::Phase { phase }
    );
    let mut record = act(&record, ONE, LedgerAction::Leave).unwrap();
    record = act(&record, TWO, LedgerAction::Leave).unwrap();
    let terms = record.terms.clone();
    let LedgerAction::Join(mut join) = model().join(&record, None) else {
        unreachable!()
    };
    join.terms = terms;
    record = act(&record, ONE, LedgerAction::Join(join)).unwrap();
    assert_eq!(record.phase(), Phase::Ranking);
    begin(&record, BLOCKS).unwrap();
}

#[test]
fn who_goes_on_from_the_checkpoint_ranks_it() {
    let record = ranking();
    let founding = Genesis {
        terms: record.terms.clone(),
        run: record.run,
        incarnation: Token(8),
        wanted: 1,
        work: record.work.clone(),
        base: record.checkpoints.base,
        servers: Default::default(),
    };
    let again = LedgerRecord::create(founding).unwrap();
    assert_eq!(again.phase(), Phase::Gathering(1));
    let LedgerAction::Join(mut join) = model().join(&again, None) else {
        unreachable!()
    };
    join.terms = record.terms;
    let again = act(&again, ONE, LedgerAction::Join(join)).unwrap();
    assert_eq!(again.phase(), Phase::Ranking);
    let again = begin(&again, BLOCKS).unwrap();
    assert_eq!(again.free_blocks(), [0, 1, 2]);
}

#[test]
fn a_trainer_that_validates_otherwise_is_refused() {
    let refused = |change: fn(&mut RunTerms)| {
        let record = ranking();
        let LedgerAction::Join(mut join) = model().join(&record, None) else {
            unreachable!()
        };
        join.terms = record.terms.clone();
        change(&mut join.terms);
        act(&record, Token(3), LedgerAction::Join(join))
            .unwrap_err()
            .to_string()
    };
    let other =
        |terms: &mut RunTerms| terms.validation.as_mut().unwrap().rules.early_stop = Some(4);
    assert_eq!(
        refused(other),
        "`[validation]` is , interval 1, early_stop 4 here, but , interval 1 in the run"
    );
    assert!(refused(|terms| terms.validation = None).contains("is unset here"));
}
