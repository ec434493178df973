//! The sums of the blocks that a trainer owns.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pbg_core::ledger::Token;

use super::blocks::Block;
use super::message::{Question, Reply, Rows};
use crate::member::ledger::Settlements;

/// The blocks that a trainer owns.
pub(super) struct Owner {
    sums: Vec<Mutex<Option<Sums>>>,
    widths: Vec<usize>,
}

/// A block's sum of what all trainers have added.
struct Sums {
    values: Vec<f32>,
    /// Grows with every message that changed something.
    version: u64,
    /// The version in which each row changed last.
    changed: Vec<u64>,
    from: BTreeMap<Token, Contribution>,
}

/// What a trainer has added.
#[derive(Default)]
struct Contribution {
    /// Number of its last message: one that comes again counts once.
    number: u64,
    /// What it added and has not settled, by the settlements that had begun then: it goes when the trainer's part is
    /// ended, since its buckets are trained again.
    unsettled: BTreeMap<u64, Rows>,
}

impl Owner {
    pub(super) fn new(blocks: &[Block]) -> Self {
        Self {
            sums: blocks.iter().map(|_| Mutex::default()).collect(),
            widths: blocks.iter().map(|block| block.width).collect(),
        }
    }

    /// Whether block `index` is owned already.
    pub(super) fn has(&self, index: usize) -> bool {
        self.lock(index).is_some()
    }

    /// Owns block `index` from now on, whose sum so far is `values`.
    pub(super) fn begin(&self, index: usize, values: Vec<f32>) {
        let rows = values.len() / self.widths[index].max(1);
        let sums = Sums {
            values,
            version: 1,
            changed: vec![1; rows],
            from: BTreeMap::new(),
        };
        self.lock(index).get_or_insert(sums);
    }

    /// Owns block `index` no more. Gives its sum, if it did.
    pub(super) fn end(&self, index: usize) -> Option<Vec<f32>> {
        self.lock(index).take().map(|sums| sums.values)
    }

    /// Adds what a trainer sent to a block that is owned; gives what it lacks. `takes_part` says who still does.
    pub(super) fn exchange(
        &self,
        question: Question,
        takes_part: impl Fn(&Token) -> bool,
    ) -> Reply {
        let Question::Exchange {
            from,
            block,
            version,
            number,
            settlements,
            rows,
        } = question
        else {
            return Reply::NotMine;
        };
        let width = self.widths[block as usize];
        let mut sums = self.lock(block as usize);
        let Some(sums) = &mut *sums else {
            return Reply::NotReady;
        };
        sums.drop_lost(takes_part, width);
        sums.add(from, number, settlements, &rows, width);
        Reply::Sums {
            version: sums.version,
            rows: sums.since(version, width),
        }
    }

    fn lock(&self, index: usize) -> std::sync::MutexGuard<'_, Option<Sums>> {
        self.sums[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sums {
    fn add(
        &mut self,
        from: Token,
        number: u64,
        settlements: Settlements,
        rows: &Rows,
        width: usize,
    ) {
        let contribution = self.from.entry(from).or_default();
        if number <= contribution.number {
            return;
        }
        contribution.number = number;
        let Settlements { begun, applied } = settlements;
        // What was added while `n` settlements had begun is in settlement `n + 1`.
        contribution.unsettled = contribution.unsettled.split_off(&applied);
        let unsettled = contribution.unsettled.entry(begun).or_default();
        for (row, added) in rows {
            let unsettled = unsettled.entry(*row);
            let unsettled = unsettled.or_insert_with(|| vec![0.0; width]);
            add(unsettled, added, 1.0);
        }
        self.change(rows, 1.0, width);
    }

    /// Takes back what trainers added that take part no more, and had not settled.
    fn drop_lost(&mut self, takes_part: impl Fn(&Token) -> bool, width: usize) {
        let lost: Vec<Token> = self
            .from
            .keys()
            .filter(|t| !takes_part(t))
            .copied()
            .collect();
        for token in lost {
            let contribution = self.from.remove(&token).unwrap_or_default();
            for rows in contribution.unsettled.values() {
                self.change(rows, -1.0, width);
            }
        }
    }

    fn change(&mut self, rows: &Rows, factor: f32, width: usize) {
        if rows.is_empty() {
            return;
        }
        self.version += 1;
        for (row, values) in rows {
            let at = *row as usize * width;
            add(&mut self.values[at..][..width], values, factor);
            self.changed[*row as usize] = self.version;
        }
    }

    /// The rows that changed behind `version`.
    fn since(&self, version: u64, width: usize) -> Rows {
        let rows = self.values.chunks_exact(width);
        let rows = (0..).zip(rows.zip(&self.changed));
        rows.filter(|(_, (_, changed))| **changed > version)
            .map(|(row, (values, _))| (row, values.to_vec()))
            .collect()
    }
}

fn add(to: &mut [f32], values: &[f32], factor: f32) {
    for (to, value) in to.iter_mut().zip(values) {
        *to += factor * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: fn(&Token) -> bool = |_| true;

    fn owner() -> Owner {
        let owner = Owner {
            sums: vec![Mutex::default()],
            widths: vec![2],
        };
        owner.begin(0, vec![1.0, 2.0, 3.0, 4.0]);
        owner
    }

    fn question(
        from: u64,
        number: u64,
        settlements: u64,
        version: u64,
        rows: &[(u32, [f32; 2])],
    ) -> Question {
        Question::Exchange {
            from: Token(from),
            block: 0,
            version,
            number,
            settlements: Settlements {
                begun: settlements,
                applied: settlements,
            },
            rows: rows.iter().map(|(row, v)| (*row, v.to_vec())).collect(),
        }
    }

    fn sums(reply: Reply) -> (u64, Vec<(u32, Vec<f32>)>) {
        match reply {
            Reply::Sums { version, rows } => (version, rows.into_iter().collect()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sums_add_up_and_only_what_changed_is_sent() {
        let owner = owner();
        let (version, all) = sums(owner.exchange(question(1, 1, 0, 0, &[]), ALL));
        assert_eq!(all, [(0, vec![1.0, 2.0]), (1, vec![3.0, 4.0])]);
        let (version, rows) =
            sums(owner.exchange(question(1, 2, 0, version, &[(1, [0.5, 0.0])]), ALL));
        assert_eq!(rows, [(1, vec![3.5, 4.0])]);
        let (_, rows) = sums(owner.exchange(question(2, 1, 0, version, &[(1, [1.0, 1.0])]), ALL));
        assert_eq!(rows, [(1, vec![4.5, 5.0])]);
        let (_, none) = sums(owner.exchange(question(1, 3, 0, 99, &[]), ALL));
        assert!(none.is_empty());
        assert_eq!(owner.end(0), Some(vec![1.0, 2.0, 4.5, 5.0]));
        assert!(!owner.has(0));
    }

    #[test]
    fn a_repeated_message_counts_once() {
        let owner = owner();
        for _ in 0..3 {
            let reply = owner.exchange(question(1, 1, 0, 0, &[(0, [1.0, 1.0])]), ALL);
            assert_eq!(sums(reply).1[0], (0, vec![2.0, 3.0]));
        }
    }

    #[test]
    fn what_a_lost_trainer_had_not_settled_is_taken_back() {
        let owner = owner();
        owner.exchange(question(1, 1, 0, 0, &[(0, [1.0, 0.0])]), ALL);
        // Behind a settlement, what was before it stays.
        owner.exchange(
            question(1, 2, 1, 0, &[(0, [4.0, 0.0]), (1, [8.0, 0.0])]),
            ALL,
        );
        let reply = owner.exchange(question(2, 1, 0, 0, &[]), |token| *token == Token(2));
        assert_eq!(sums(reply).1, [(0, vec![2.0, 2.0]), (1, vec![3.0, 4.0])]);
    }
}
