//! The text of a ranking in the register: its size, and the damage that is refused when it is read.

use pbg_core::event::RankTotals;

use super::super::*;
use super::ranking::{lease, ranking};
use super::rankings::totals;
use super::refusals::{ONE, TWO};

/// Most bytes of the record that a ranking may take.
pub(super) const MOST_BYTES: usize = 96 << 10;

#[test]
fn parts_of_a_ranking_that_do_not_agree_are_named() {
    for (change, named) in [
        (
            (|r| r.ranking.as_mut().unwrap().epochs = 2) as fn(&mut LedgerRecord),
            "a ranking after 2 epochs, which is not due",
        ),
        (|r| r.stopping = true, "which is not due"),
        (
            |r| r.ranking.as_mut().unwrap().version = 2,
            "checkpoint 2 is ranked",
        ),
        (
            |r| r.ranking.as_mut().unwrap().blocks.clear(),
            "has 0 blocks",
        ),
        (
            |r| r.ranking.as_mut().unwrap().blocks = vec![None; 300],
            "has 300 blocks",
        ),
        (
            |r| r.ranking.as_mut().unwrap().blocks[0] = Some(totals(0)),
            "block 0 of the ranking is leased twice, already ranked",
        ),
        (
            |r| r.trainers.get_mut(&TWO).unwrap().block = Some(0),
            "block 0 of the ranking is leased",
        ),
        (
            |r| r.trainers.get_mut(&TWO).unwrap().block = Some(9),
            "block 9 of the ranking is leased",
        ),
        (|r| r.ranking = None, "but there is no ranking"),
        (
            |r| {
                let mut wrong = totals(1);
                wrong[1].count = u64::MAX;
                r.ranking.as_mut().unwrap().blocks[1] = Some(wrong);
            },
            "sums over ranks are impossible",
        ),
        (
            |r| {
                r.validated = Some(ValidationResult {
                    epochs: 2,
                    ranks: Default::default(),
                });
            },
            "the ranks after 2 epochs are impossible",
        ),
        (|r| r.checkpoints.before_pass = 7, "checkpoint 7 began"),
        (
            |r| r.terms.validation.as_mut().unwrap().interval = 0,
            "validation settings are invalid",
        ),
        (
            |r| r.terms.validation.as_mut().unwrap().rules.lr_decay = Some(2.0),
            "validation settings are invalid",
        ),
    ] {
        let mut record = lease(&ranking(), ONE, 0).unwrap();
        change(&mut record);
        let text = record.check().unwrap_err().to_string();
        assert!(text.contains(named), "{text}");
    }
}

#[test]
fn a_ranking_is_read_as_it_was_written_and_is_small() {
    let mut record = lease(&ranking(), ONE, 0).unwrap();
    let blocks = &mut record.ranking.as_mut().unwrap().blocks;
    let count = 1 << 47;
    let side = RankTotals {
        count,
        rank: count as f64 * 123_456.703_125,
        mrr: count as f64 / 3.0,
        hits: [count - 3, count - 2, count - 1, count],
        auc: count as f64 / 7.0,
    };
    blocks.resize(MAX_BLOCKS as usize, Some([side, side]));
    record.check().unwrap();
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<LedgerRecord>(&text).unwrap(), record);
    assert!(text.len() < MOST_BYTES, "{} bytes", text.len());
}
