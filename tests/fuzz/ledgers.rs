//! Fuzzing of the record that a register delivers, and of everything that a trainer computes from one that it takes.

use std::time::Duration;

use pbg_core::event::RankTotals;
use pbg_core::graph::{Bucket, Side};
use pbg_core::plateau::PlateauRules;
use pbg_core::schedule::RunExtent;
use pbg_distributed::received;
use pbg_fuzz::{Dice, bytes, json};
use pbg_ledger::{
    BlockTotals, BucketAdvisor, BucketPolicy, FileId, Genesis, Grid, Join, LedgerAction,
    LedgerRecord, OperatorCommand, PartitionFile, PartitionServer, PassStep, RunTerms, ServerTerms,
    SettledPartition, Settlement, SilentTrainer, Token, TrainedState, Transaction, ValidationTerms,
    plan_digest,
};
use serde_json::Value;

use crate::{fuzz, turn};

fn terms(dice: &mut Dice) -> RunTerms {
    let (lhs, shared) = (dice.from(1, 6) as u32, dice.once_in(2));
    let mut terms = RunTerms::of_one_pass(Grid {
        lhs,
        rhs: if shared { lhs } else { dice.from(1, 5) as u32 },
        shared,
        tables: match shared || dice.once_in(3) {
            true => [vec!["person".to_owned()], Vec::new()],
            false => [
                vec!["person".to_owned()],
                vec!["thing".to_owned(), "place".to_owned()],
            ],
        },
    });
    terms.extent = RunExtent {
        epochs: 3,
        edge_sets: dice.from(1, 2) as u32,
        edge_chunks: dice.from(1, 2) as u32,
    };
    terms.tree_init = dice.once_in(3);
    terms.validation = dice.once_in(2).then(|| ValidationTerms {
        what: "valid".to_owned(),
        interval: 1,
        rules: PlateauRules {
            early_stop: Some(1),
            lr_decay: Some(0.5),
            lr_patience: 1,
        },
    });
    terms.servers = dice.once_in(3).then_some(ServerTerms {
        count: None,
        replicas: 1,
    });
    terms
}

/// Returns an action that a trainer could decide on, or one that is near it.
fn action(dice: &mut Dice, record: &LedgerRecord, token: Token) -> LedgerAction {
    let (pass, grid) = (record.work().pass, record.grid());
    let trainer = record.trainers().get(&token);
    let leases = trainer.map_or(&[][..], |trainer| &trainer.leases);
    let ranking = record.ranking();
    match dice.below(16) {
        0 => LedgerAction::Open {
            pass,
            plan: plan_digest(&[Bucket::new(0, 0)]),
            empty: Vec::new(),
        },
        1..4 => {
            let free = record.free(token);
            let bucket = match free.is_empty() {
                true => Bucket::new(dice.below(7) as u32, dice.below(7) as u32),
                false => *dice.pick(&free),
            };
            LedgerAction::Lease { pass, bucket }
        }
        4..8 => {
            let count = std::cell::Cell::new(trainer.map_or(0, |trainer| trainer.files));
            let file = |_: &String| {
                count.set(count.get().wrapping_add(1));
                PartitionFile {
                    id: FileId {
                        version: 1,
                        writer: Some((token, count.get())),
                    },
                    size: 7,
                    crc32: 7,
                }
            };
            let groups = grid.partitions_of_all(leases);
            let partitions = groups.into_iter().map(|group| SettledPartition {
                group,
                from: record.partition(group).cloned().unwrap_or_default().stamp(),
                files: grid.tables[group.0 as usize].iter().map(file).collect(),
            });
            LedgerAction::Settle(Box::new(Settlement {
                pass,
                buckets: leases.to_vec(),
                partitions: partitions.collect(),
                next: Vec::new(),
                told: dice.below(100) as u64,
                ..Settlement::default()
            }))
        }
        8 => LedgerAction::GiveUp {
            pass,
            buckets: leases.to_vec(),
        },
        9 => LedgerAction::Advance { from: pass },
        10 => LedgerAction::Checkpoint {
            pass,
            newest: record.checkpoints().base(),
        },
        11 => match record.checkpoint_in_progress() {
            Some((_, cut)) => LedgerAction::Committed(cut),
            None => LedgerAction::LeaveSaved,
        },
        12 => match dice.once_in(8) {
            true => LedgerAction::Leave,
            false => LedgerAction::BeginRanking {
                epochs: pass.epoch,
                version: record.checkpoints().base().map_or(0, |base| base.version),
                blocks: dice.from(1, 3) as u32,
            },
        },
        13 => match (record.free_blocks().first(), ranking) {
            (Some(&block), Some(ranking)) => LedgerAction::LeaseBlock {
                ranking: ranking.id(),
                block,
            },
            _ => LedgerAction::Advance { from: pass },
        },
        14 => match (trainer.and_then(|trainer| trainer.block), ranking) {
            (Some(block), Some(ranking)) => LedgerAction::Ranked {
                ranking: ranking.id(),
                block,
                totals: Box::new(BlockTotals::from([RankTotals::default(); 2])),
            },
            _ => LedgerAction::Advance { from: pass },
        },
        _ => match ranking {
            Some(ranking) => LedgerAction::EndRanking(ranking.id()),
            None => LedgerAction::Open {
                pass,
                plan: dice.bits(),
                empty: Vec::new(),
            },
        },
    }
}

fn joining(record: &LedgerRecord) -> LedgerAction {
    LedgerAction::Join(Box::new(Join {
        terms: record.terms().clone(),
        name: "node".to_owned(),
        rank: None,
        instead_of: None,
        incarnation: record.incarnation(),
        newest: record.checkpoints().base(),
    }))
}

/// Returns the transaction that `token` would submit after its last one.
fn next(record: &LedgerRecord, token: Token, action: LedgerAction) -> Transaction {
    let after = record.trainers().get(&token).map_or(0, |t| t.last);
    Transaction {
        token,
        number: after.wrapping_add(1),
        after,
        action,
    }
}

/// Returns a record in the middle of a run.
pub(crate) fn record(dice: &mut Dice) -> LedgerRecord {
    let terms = terms(dice);
    let mut record = LedgerRecord::create(Genesis {
        work: TrainedState::none(&terms.grid),
        terms,
        run: Token(100),
        incarnation: Token(101),
        wanted: dice.below(3) as u32,
        base: None,
        servers: Default::default(),
    })
    .unwrap();
    let server = PartitionServer {
        address: "10.0.0.5:7700".to_owned(),
        memory: 1 << 30,
    };
    let added = record.apply_command(OperatorCommand::AddServer(Token(50), server));
    record = added.unwrap_or(record);
    for token in 1..=dice.from(1, 4) as u64 {
        let token = Token(token);
        let joined = record.apply(&next(&record, token, joining(&record)));
        record = joined.unwrap_or(record);
    }
    for _ in 0..dice.below(120) {
        let token = Token(dice.from(1, 4) as u64);
        let action = action(dice, &record, token);
        let applied = record.apply(&next(&record, token, action));
        record = applied.unwrap_or(record);
    }
    record
}

/// Changes a record that may be read, and then computes everything from it that trainers do.
fn use_record(dice: &mut Dice, record: &LedgerRecord) {
    let mut advisor = BucketAdvisor::default();
    let mut policy = BucketPolicy::new(Some(dice.once_in(2)));
    let mut record = record.clone();
    let strangers = [Token(1), Token(2), Token(9)];
    let tokens: Vec<Token> = record.trainers().keys().copied().chain(strangers).collect();
    policy.begin_pass(record.work().pass, 2);
    for turn in 0..12 {
        let token = *dice.pick(&tokens);
        let free = record.free(token);
        let advised = advisor.in_turn(&record, token, &free, 2);
        assert!(advised.iter().all(|bucket| free.contains(bucket)));
        let _step = PassStep::of(&record, token, dice.once_in(2));
        let _step = policy.step(Duration::from_secs(turn), token, &record, dice.once_in(2));
        let _soon = policy.soon_resident(&record, &[]);
        record.matches_manifest(record.checkpoints().base()).ok();
        let id = FileId {
            version: 1,
            writer: Some((token, 1)),
        };
        let _is_garbage = record.is_garbage((Side::Lhs, 0), 0, id);
        assert!(record.work().released().buckets.len() == record.grid().buckets());
        let _outcome = record.outcome();
        let (actor, action) = match dice.once_in(4) {
            // A trainer draws another token whenever it joins.
            true => (Token(dice.bits()), joining(&record)),
            false => (token, action(dice, &record, token)),
        };
        let applied = match dice.below(6) {
            0 => record.apply_command(OperatorCommand::Evict(token)),
            1 => record.apply_command(OperatorCommand::EvictSilent(SilentTrainer {
                token,
                last: dice.below(3) as u64,
            })),
            2 => record.apply_command(OperatorCommand::RemoveServer(Token(50))),
            _ => record.apply(&next(&record, actor, action)),
        };
        if let Ok(next) = applied {
            // Otherwise a trainer could not write what it was allowed to do.
            let encoded = match received::encoded(&next) {
                Ok(encoded) => encoded,
                Err(error) => {
                    assert!(error.to_string().ends_with("is too large"), "{error}");
                    return;
                }
            };
            assert_eq!(*received::record(encoded).unwrap().unwrap(), next);
            record = next;
        }
    }
}

#[test]
fn ledger_records() {
    let turn = turn();
    fuzz(turn, "ledger_records", 500, 64 << 20, |dice, _| {
        let valid = serde_json::to_vec(&record(dice)).unwrap();
        let value = match dice.once_in(3) {
            true => {
                let other = serde_json::to_vec(&record(dice)).unwrap();
                bytes(dice, &valid, &other)
            }
            false => {
                let mut value: Value = serde_json::from_slice(&valid).unwrap();
                json(dice, &mut value);
                serde_json::to_vec(&value).unwrap()
            }
        };
        match received::record(value) {
            Ok(Some(record)) => {
                use_record(dice, &record);
                true
            }
            Ok(None) => false,
            Err(error) => error.to_string().is_empty(),
        }
    });
}
