//! The text of the record in the register: its size, and the damage that is refused when it is read.

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::loss::LossState;
use pbg_core::schedule::PassId;

use super::super::*;
use super::asked::{to_checkpoint, to_lease};
use super::world::{Budget, Model};

/// Upper bound of the record's size in bytes.
const MOST_BYTES: usize = 256 * 1024;

fn act(
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

fn open(record: &LedgerRecord, token: Token) -> LedgerRecord {
    let pass = record.work.pass;
    act(
        record,
        token,
        LedgerAction::Open {
            pass,
            plan: u64::MAX,
            empty: Vec::new(),
        },
    )
    .unwrap()
}

fn file(token: Token, count: u64) -> PartitionFile {
    let id = FileId {
        version: 1 << 40,
        writer: Some((token, count)),
    };
    PartitionFile {
        id,
        size: u64::MAX,
        crc32: u32::MAX,
    }
}

/// A record of two trainers, one of which has settled (0, 1) and leased (0, 0), with a checkpoint in progress.
fn in_the_middle() -> LedgerRecord {
    let model = Model::new(3, 3, true, 0, Budget::default());
    let (one, two) = (Token(1), Token(2));
    let mut record = model.found(None, 7);
    record = act(&record, one, model.join(&record, None)).unwrap();
    record = act(&record, two, model.join(&record, None)).unwrap();
    record = open(&record, two);
    let bucket = Bucket::new(0, 1);
    record = act(&record, one, to_lease(&record, bucket)).unwrap();
    let settled = |(count, p)| {
        let group = (Side::Lhs, p);
        let from = PartitionVersion::default().stamp();
        SettledPartition {
            group,
            from,
            files: vec![file(one, count)],
        }
    };
    let settlement = Settlement {
        buckets: vec![bucket],
        partitions: [(1, 0), (2, 1)].map(settled).into(),
        next: vec![Bucket::new(0, 0)],
        ..Settlement::default()
    };
    record = act(&record, one, LedgerAction::Settle(Box::new(settlement))).unwrap();
    act(&record, two, to_checkpoint(&record)).unwrap()
}

#[test]
fn a_large_record_is_small_enough_for_the_register() {
    for (is_shared, tables) in [(true, 3), (false, 2)] {
        let mut model = Model::new(128, 128, is_shared, 0, Budget::default());
        let names = (0..tables).map(|t| format!("an entity type with a long name {t}"));
        model.grid.tables[0] = names.collect();
        if !is_shared {
            model.grid.tables[1] = model.grid.tables[0].clone();
        }
        let mut record = model.found(None, u64::MAX);
        let groups: Vec<SidePartition> = model.grid.groups().collect();
        for trainer in 0..64_u64 {
            let token = Token(u64::MAX - trainer);
            let LedgerAction::Join(mut join) = model.join(&record, None) else {
                unreachable!()
            };
            join.name = "n".repeat(MAX_NAME);
            join.rank = Some(u32::MAX - trainer as u32);
            record = act(&record, token, LedgerAction::Join(join)).unwrap();
            if trainer == 0 {
                record = open(&record, token);
            }
            let own = [2 * trainer as u32, 2 * trainer as u32 + 1];
            for bucket in own.iter().flat_map(|l| own.map(|r| Bucket::new(*l, r))) {
                record = act(&record, token, to_lease(&record, bucket)).unwrap();
            }
            let trainer = record.trainers.get_mut(&token).unwrap();
            (trainer.last, trainer.files) = (1 << 40, 1 << 40);
        }
        for (index, partition) in record.work.partitions.iter_mut().enumerate() {
            let token = Token(u64::MAX - u64::from(groups[index].1) / 2);
            let name = |table| file(token, (1 << 39) + (index * tables + table) as u64);
            (partition.generation, partition.files) = (1 << 40, (0..tables).map(name).collect());
        }
        record.work.progress.loss = Some(LossState {
            parameters: vec![-1.234_567_9e-10; 64],
            ..LossState::default()
        });
        for _ in 0..MAX_CUTS {
            record = act(&record, Token(u64::MAX), to_checkpoint(&record)).unwrap();
        }
        record.check().unwrap();
        let text = serde_json::to_string(&record).unwrap();
        // A ranking is added to this size.
        let most = MOST_BYTES - super::ranking_text::MOST_BYTES;
        assert!(text.len() < most, "{} bytes", text.len());
        assert_eq!(serde_json::from_str::<LedgerRecord>(&text).unwrap(), record);
    }
}

#[test]
fn what_is_written_is_read_as_it_was() {
    let record = in_the_middle();
    let text = serde_json::to_string(&record).unwrap();
    let back: LedgerRecord = serde_json::from_str(&text).unwrap();
    assert_eq!(back, record);
    back.check().unwrap();
}

#[test]
fn a_record_goes_on_from_a_manifest() {
    let record = in_the_middle();
    let cut = *record.checkpoints.cuts.last().unwrap();
    let founding = Genesis {
        terms: record.terms.clone(),
        run: record.run,
        incarnation: Token(8),
        wanted: 2,
        work: record.work.clone(),
        base: Some(cut),
        servers: Default::default(),
    };
    let again = LedgerRecord::create(founding).unwrap();
    assert_eq!(again.work, record.work.released());
    assert_eq!(
        again.state(Bucket::new(0, 0)),
        Some(BucketState::ToDo),
        "it was leased"
    );
    assert_eq!(again.state(Bucket::new(0, 1)), Some(BucketState::Done));
    assert_eq!(again.phase(), Phase::Gathering(2));
    assert_eq!(again.checkpoints.base, Some(cut));
    assert_eq!(again.matches_manifest(Some(cut)), Ok(()));
    assert_eq!(
        record.matches_manifest(Some(cut)),
        Ok(()),
        "it has begun that checkpoint"
    );
    let next = CheckpointCut {
        version: 2,
        begun: None,
    };
    assert_eq!(
        record.matches_manifest(Some(next)),
        Err(StaleRecord::Older { newest: next })
    );
    assert_eq!(
        again.matches_manifest(None),
        Err(StaleRecord::NoManifest { base: cut })
    );
    let earlier = CheckpointCut { version: 0, ..cut };
    assert_eq!(
        again.matches_manifest(Some(earlier)),
        Err(StaleRecord::NoManifest { base: cut })
    );
}

/// Returns the damage that a reader of a record reports after `change`.
fn damage(change: impl FnOnce(&mut LedgerRecord)) -> String {
    let mut record = in_the_middle();
    change(&mut record);
    record.check().unwrap_err().to_string()
}

#[test]
fn parts_that_do_not_agree_are_named() {
    for (change, named) in [
        (
            (|r| r.terms.protocol = 4) as fn(&mut LedgerRecord),
            "its protocol version is 4, but this program has version 3",
        ),
        (|r| r.terms.grid.lhs = 0, "0 x 3 partitions"),
        (|r| r.terms.grid.rhs = u32::MAX, "3 x 4294967295 partitions"),
        (|r| r.terms.grid.rhs = 4, "sides share their partitions"),
        (|r| r.terms.extent.edge_sets = 0, "0 edge sets"),
        (
            |r| r.work.buckets = BucketStates::to_do(8),
            "states of 8 buckets",
        ),
        (|r| r.work.partitions.truncate(2), "2 partitions"),
        (
            |r| {
                r.work.pass = PassId {
                    epoch: 9,
                    ..PassId::default()
                }
            },
            "outside",
        ),
        (|r| r.work.plan = None, "the pass has no plan"),
        (
            |r| r.work.progress.sums.seconds = f64::NAN,
            "a sum of the epoch is infinite or not a number",
        ),
        (
            |r| r.work.progress.plateau.lr_factor = -1.0,
            "its factor of learning rates is -1, not a number from 0 to 1",
        ),
        (
            |r| r.work.progress.plateau.lr_factor = f32::NAN,
            "its factor of learning rates is NaN",
        ),
        (
            |r| r.work.progress.plateau.seen = u32::MAX,
            "its number of epochs is too large",
        ),
        (
            |r| {
                r.work.progress.loss = Some(LossState {
                    step: 1 << 61,
                    ..LossState::default()
                });
            },
            "its number of batches or edges of the loss is too large",
        ),
        (
            |r| r.work.partitions[2].files = r.work.partitions[0].files.clone(),
            "is named twice",
        ),
        (
            |r| r.work.partitions[0].files.extend_from_within(..),
            "2 files for 1 tables",
        ),
        (
            |r| r.work.buckets.set(4, BucketState::Leased),
            "leased to nobody",
        ),
        (
            |r| r.checkpoints.cuts.extend_from_within(..),
            "out of order",
        ),
        (|r| r.incarnation = Token(9), "another history"),
    ] {
        let text = damage(change);
        assert!(text.contains(named), "{text}");
    }
}

#[test]
fn trainers_that_do_not_agree_are_named() {
    let bucket = Bucket::new(1, 1);
    let trainer = |record: &mut LedgerRecord, change: fn(&mut Trainer)| {
        change(record.trainers.get_mut(&Token(1)).unwrap());
    };
    assert!(damage(|r| trainer(r, |t| t.files = 1)).contains("has not settled its file 2"));
    assert!(damage(|r| trainer(r, |t| t.last = 0)).contains("has not joined"));
    assert!(damage(|r| trainer(r, |t| t.name = "n".repeat(65))).contains("65 bytes"));
    assert!(damage(|r| trainer(r, |t| t.leases.clear())).contains("leased to nobody"));
    let stolen = damage(|record| {
        record
            .trainers
            .get_mut(&Token(2))
            .unwrap()
            .leases
            .push(Bucket::new(0, 2));
        record.set(Bucket::new(0, 2), BucketState::Leased);
    });
    assert!(
        stolen.contains("hold partition 0 of the left side"),
        "{stolen}"
    );
    let twice = damage(|r| r.trainers.get_mut(&Token(2)).unwrap().leases.push(bucket));
    assert!(
        twice.contains("is not leased or is leased twice"),
        "{twice}"
    );
}

#[test]
fn text_that_is_no_record_is_refused() {
    let text = serde_json::to_string(&in_the_middle()).unwrap();
    for (from, to) in [
        ("\"run\":\"0000000000000000\"", "\"run\":\"0\""),
        (
            "\"run\":\"0000000000000000\"",
            "\"run\":\"+000000000000000\"",
        ),
        ("\"stopping\":false", "\"stopping\":false,\"more\":1"),
        ("\"revision\":", "\"revision\":-"),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        serde_json::from_str::<LedgerRecord>(&text.replacen(from, to, 1)).unwrap_err();
    }
    for length in (0..text.len()).step_by(7) {
        serde_json::from_str::<LedgerRecord>(&text[..length]).unwrap_err();
    }
}
