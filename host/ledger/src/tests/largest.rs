//! The largest records that a register holds. What a trainer asks of one must be answered at once, since any trainer of
//! the run may have written it.

use pbg_core::graph::Bucket;

use super::super::*;
use super::refusals::act;
use super::world::{Budget, Model};

/// Largest record that a register takes, in bytes.
const MAX_BYTES: usize = 1 << 20;

/// Returns the record of a first pass over a grid in the order of a tree, all buckets of which are done except the last,
/// with as many trainers as there may be, none of which has a lease.
fn nearly_done(lhs: u32, rhs: u32) -> LedgerRecord {
    let grid = Grid {
        lhs,
        rhs,
        shared: false,
        tables: [Vec::new(), Vec::new()],
    };
    let last = grid.buckets() - 1;
    let mut work = TrainedState::none(&grid);
    for index in 0..last {
        work.buckets.set(index, BucketState::Done);
    }
    work.plan = Some(5);
    let model = Model::new(3, 3, true, 0, Budget::default());
    let founding = Genesis {
        terms: RunTerms {
            tree_init: true,
            ..RunTerms::of_one_pass(grid)
        },
        work,
        run: Token(0),
        incarnation: Token(7),
        wanted: 1,
        base: None,
        servers: Default::default(),
    };
    let mut record = LedgerRecord::create(founding).unwrap();
    for token in 0..MAX_TRAINERS as u64 {
        let LedgerAction::Join(mut join) = model.join(&record, None) else {
            unreachable!()
        };
        join.terms = record.terms.clone();
        record = act(&record, Token(token), LedgerAction::Join(join)).unwrap();
    }
    record.check().unwrap();
    assert!(serde_json::to_vec(&record).unwrap().len() < MAX_BYTES);
    record
}

#[test]
fn the_order_of_a_tree_is_kept_at_once_in_the_largest_grid() {
    let most = u32::try_from(MAX_BUCKETS).unwrap();
    for (lhs, rhs) in [(1, most), (most, 1), (512, 512)] {
        let record = nearly_done(lhs, rhs);
        let (one, last) = (Token(0), Bucket::new(lhs - 1, rhs - 1));
        assert_eq!(record.free(one), [last]);
        assert_eq!(record.in_turn(one, &[last]), [last]);
        let lease = super::asked::to_lease(&record, last);
        let leased = act(&record, one, lease).unwrap();
        assert!(leased.free(Token(1)).is_empty());
    }
}
