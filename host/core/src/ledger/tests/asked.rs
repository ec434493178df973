//! Actions that are decided by the same record that they are applied to.

use super::super::*;
use crate::graph::Bucket;

pub(super) fn to_lease(record: &Record, bucket: Bucket) -> Action {
    let pass = record.work.pass;
    Action::Lease { pass, bucket }
}

pub(super) fn to_give_up(record: &Record, buckets: Vec<Bucket>) -> Action {
    let pass = record.work.pass;
    Action::GiveUp { pass, buckets }
}

pub(super) fn to_checkpoint(record: &Record) -> Action {
    Action::Checkpoint {
        pass: record.work.pass,
        newest: record.checkpoints.base,
    }
}

/// Revokes `token`, which has been silent since its last transaction in `record`.
pub(super) fn to_revoke(record: &Record, token: Token) -> Action {
    Action::Revoke(Silent::of(record, token).expect("it takes part"))
}

/// The ranking in progress.
pub(super) fn ranking_id(record: &Record) -> RankingId {
    let of_no_checkpoint = RankingId {
        epochs: record.work.pass.epoch,
        version: 0,
    };
    record
        .ranking
        .as_ref()
        .map_or(of_no_checkpoint, Ranking::id)
}
