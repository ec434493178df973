//! Actions that are decided by the same record that they are applied to.

use pbg_core::graph::Bucket;

use super::super::*;

pub(super) fn to_lease(record: &LedgerRecord, bucket: Bucket) -> LedgerAction {
    let pass = record.work.pass;
    LedgerAction::Lease { pass, bucket }
}

pub(super) fn to_give_up(record: &LedgerRecord, buckets: Vec<Bucket>) -> LedgerAction {
    let pass = record.work.pass;
    LedgerAction::GiveUp { pass, buckets }
}

pub(super) fn to_checkpoint(record: &LedgerRecord) -> LedgerAction {
    LedgerAction::Checkpoint {
        pass: record.work.pass,
        newest: record.checkpoints.base,
    }
}

/// Revokes `token`, which has been silent since its last transaction in `record`.
pub(super) fn to_revoke(record: &LedgerRecord, token: Token) -> LedgerAction {
    LedgerAction::Revoke(SilentTrainer::of(record, token).expect("it takes part"))
}

/// The ranking in progress.
pub(super) fn ranking_id(record: &LedgerRecord) -> RankingId {
    let of_no_checkpoint = RankingId {
        epochs: record.work.pass.epoch,
        version: 0,
    };
    record
        .ranking
        .as_ref()
        .map_or(of_no_checkpoint, ValidationRanking::id)
}
