//! Invariants of every world, with the numbers of the design document.

use std::collections::BTreeMap;

use pbg_core::graph::SidePartition;
use pbg_core::schedule::PassId;
use stateright::Property;

use super::super::*;
use super::asked::{to_lease, to_revoke};
use super::rankings;
use super::world::{Content, Model, World};

pub(super) fn properties() -> Vec<Property<Model>> {
    vec![
        Property::always("1: a partition has one holder", one_holder),
        Property::always(
            "2, 4, 8: files hold what is done, once, and all of earlier passes",
            files_hold_what_is_done,
        ),
        Property::always(
            "3, 5: a step broke a chain of files, used a name twice or wrote unasked",
            no_step_broke,
        ),
        Property::always("6: files that are named exist", files_exist),
        Property::always("7: a manifest is a revision", manifests_are_revisions),
        Property::always("9: one trainer alone can go on", one_can_go_on),
        Property::always(
            "10: every block is ranked once",
            rankings::blocks_count_once,
        ),
        Property::always(
            "11: what is ranked is the epoch's end",
            rankings::is_of_epoch,
        ),
        Property::always("the record's parts agree", |_, world: &World| {
            world.register.iter().all(|record| record.check().is_ok())
        }),
        Property::always(
            "the first pass grows as a tree",
            |model: &Model, world: &World| {
                let in_first =
                    |record: &&std::sync::Arc<LedgerRecord>| record.work.pass == PassId::default();
                let first = world.register.iter().find(in_first);
                !model.tree_init || first.is_none_or(|record| init_tree::rule_holds(record))
            },
        ),
    ]
}

fn one_holder(model: &Model, world: &World) -> bool {
    let Some(record) = &world.register else {
        return true;
    };
    let mut holders = BTreeMap::new();
    record.trainers.iter().all(|(token, trainer)| {
        let mut groups = trainer
            .leases
            .iter()
            .flat_map(|bucket| model.grid.partitions_of(*bucket));
        groups.all(|group| *holders.entry(group).or_insert(*token) == *token)
    })
}

/// Returns a record that trainers may use: the register's, as long as it is valid.
pub(super) fn standing<'a>(model: &Model, world: &'a World) -> Option<&'a LedgerRecord> {
    let newest = world.newest().map(|manifest| manifest.cut);
    let record = world.register.as_deref();
    record.filter(|record| model.stands(record, newest))
}

/// Returns the expected content of the files of `work`: all buckets of earlier passes, and the done buckets of the
/// current one.
fn expected(model: &Model, work: &TrainedState, group: SidePartition) -> Content {
    let mut content = 0;
    for index in 0..model.grid.buckets() {
        let bucket = model.grid.bucket(index);
        if !model.grid.partitions_of(bucket).any(|need| need == group) {
            continue;
        }
        let ended = match work.pass.epoch {
            0 => work.pass.edge_chunk,
            _ => model.passes,
        };
        for pass in 0..ended {
            content |= 1 << (pass as usize * model.grid.buckets() + index);
        }
        if work.buckets.get(index) == Some(BucketState::Done) {
            content |= 1 << (ended as usize * model.grid.buckets() + index);
        }
    }
    content
}

fn content(world: &World, index: usize, partition: &PartitionVersion) -> Option<Content> {
    match partition.files.first() {
        None => Some(0),
        Some(file) => world.disk.get(&(index, file.id)).copied(),
    }
}

fn files_hold_what_is_done(model: &Model, world: &World) -> bool {
    let holds = |work: &TrainedState| {
        let partitions = model.grid.groups().zip(&work.partitions).enumerate();
        // Missing files are reported by another invariant.
        partitions.into_iter().all(|(index, (group, partition))| {
            let content = content(world, index, partition);
            content.is_none_or(|content| content == expected(model, work, group))
        })
    };
    standing(model, world).is_none_or(|record| holds(&record.work))
        && world.manifests.iter().all(|manifest| holds(&manifest.work))
}

fn no_step_broke(_: &Model, world: &World) -> bool {
    world.broken.is_none()
}

fn files_exist(model: &Model, world: &World) -> bool {
    let exist = |work: &TrainedState| {
        let mut partitions = work.partitions.iter().enumerate();
        partitions.all(|(index, partition)| content(world, index, partition).is_some())
    };
    standing(model, world).is_none_or(|record| exist(&record.work))
        && world
            .manifests
            .last()
            .is_none_or(|newest| exist(&newest.work))
}

fn manifests_are_revisions(_: &Model, world: &World) -> bool {
    world
        .manifests
        .iter()
        .all(|manifest| manifest.work == manifest.truth)
}

/// In every world, a trainer that joins and revokes all others can settle a bucket, advance to the next pass, or finds
/// everything done. Each of these steps brings the run closer to its end, and none takes it back. So a single live
/// trainer gets every bucket done if nothing disturbs it from some moment on.
fn one_can_go_on(model: &Model, world: &World) -> bool {
    let token = world.next_token();
    let record = match standing(model, world) {
        Some(record) => record.clone(),
        None => model.found(world.newest(), token.0 + 1),
    };
    go_on(model, record, token).is_ok()
}

/// Takes one step towards the end of the run.
pub(super) fn go_on(
    model: &Model,
    mut record: LedgerRecord,
    token: Token,
) -> Result<LedgerRecord, TransactionError> {
    let mut number = record.trainers.get(&token).map_or(0, |t| t.last);
    let mut act = |record: &LedgerRecord, action| {
        number += 1;
        record.apply(&Transaction {
            token,
            number,
            after: number - 1,
            action,
        })
    };
    if !record.trainers.contains_key(&token) {
        record = act(&record, model.join(&record, None))?;
    }
    let others: Vec<Token> = record
        .trainers
        .keys()
        .copied()
        .filter(|t| *t != token)
        .collect();
    for other in others {
        record = act(&record, to_revoke(&record, other))?;
    }
    let pass = record.work.pass;
    match record.phase() {
        Phase::Opening => act(
            &record,
            LedgerAction::Open {
                pass,
                plan: 1,
                empty: Vec::new(),
            },
        ),
        Phase::PassDone => act(&record, LedgerAction::Advance { from: pass }),
        Phase::Ranking => rankings::go_on(model, record, act),
        Phase::Training => {
            let none = TransactionError::Phase {
                phase: Phase::Training,
            };
            let bucket = *record.free(token).first().ok_or(none)?;
            record = act(&record, to_lease(&record, bucket))?;
            let settlement = model.settlement(&record, token, bucket);
            act(&record, LedgerAction::Settle(Box::new(settlement)))
        }
        _ => Ok(record),
    }
}

impl World {
    /// Checks a transaction that the register has accepted, independent of the ledger's own checks.
    pub(super) fn watch(
        &mut self,
        model: &Model,
        before: &LedgerRecord,
        token: &Token,
        action: &LedgerAction,
    ) {
        let LedgerAction::Settle(settlement) = action else {
            return;
        };
        if !before.trainers.contains_key(token) {
            self.broken = Some("a settlement of a trainer that takes no part");
        }
        for settled in &settlement.partitions {
            let index = model.grid.group_index(settled.group).unwrap();
            let is_named = before.work.partitions.iter().flat_map(|p| &p.files);
            let ids: Vec<FileId> = is_named.map(|file| file.id).collect();
            if before.work.partitions[index].stamp() != settled.from {
                self.broken = Some("a file was made from another one than the record names");
            }
            if settled.files.iter().any(|file| ids.contains(&file.id)) {
                self.broken = Some("a file's name is settled twice");
            }
        }
    }
}
