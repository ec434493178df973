//! What trainers of a distributed run wait for, in words.

use std::collections::{BTreeMap, BTreeSet};

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_ledger::{LedgerRecord, Token, WaitReason};
use serde::Serialize;

/// What a trainer waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct WaitStatus {
    /// Description, as the end of "waits for".
    pub(crate) what: String,
    /// Trainers that it waits for.
    pub(crate) trainers: Vec<Token>,
}

impl WaitStatus {
    /// Returns what `token` waits for, according to `record`.
    pub(crate) fn of(record: &LedgerRecord, token: Token) -> Option<Self> {
        let names = Names(record);
        let (what, trainers) = match record.wait_reason(token)? {
            WaitReason::Start => ("the start of the run".to_owned(), Vec::new()),
            WaitReason::Turn => (
                "its turn: other trainers need the free buckets first".to_owned(),
                Vec::new(),
            ),
            WaitReason::Partitions(held) => (names.partitions(&held), tokens(&held)),
            WaitReason::FirstBuckets(leased) => (
                format!("the first {}", names.buckets(&leased)),
                tokens(&leased),
            ),
            WaitReason::LastBuckets(leased) => (
                format!("the last {}", names.buckets(&leased)),
                tokens(&leased),
            ),
            WaitReason::Checkpoint(writer) => (
                format!("the checkpoint of {}", names.of(writer)),
                vec![writer],
            ),
            WaitReason::Blocks(rankers) => {
                let all: Vec<String> = rankers.iter().map(|token| names.of(*token)).collect();
                (format!("the ranks of {}", listed(&all, ", ")), rankers)
            }
        };
        Some(Self { what, trainers })
    }
}

/// Most names that a description lists.
const MOST_LISTED: usize = 8;

/// Joins names, of which it counts those after the first few.
fn listed(names: &[String], separator: &str) -> String {
    let (first, others) = names.split_at(names.len().min(MOST_LISTED));
    let first = first.join(separator);
    match others.len() {
        0 => first,
        others => format!("{first} and {others} more"),
    }
}

fn tokens<T>(held: &[(T, Token)]) -> Vec<Token> {
    let all: BTreeSet<Token> = held.iter().map(|(_, token)| *token).collect();
    all.into_iter().collect()
}

/// Names of the trainers of a record.
struct Names<'r>(&'r LedgerRecord);

impl Names<'_> {
    fn of(&self, token: Token) -> String {
        let trainer = self.0.trainers().get(&token);
        trainer.map_or_else(|| token.to_string(), |trainer| trainer.name.clone())
    }

    /// Describes partitions, in groups by the trainers that hold them.
    fn partitions(&self, held: &[(SidePartition, Token)]) -> String {
        let is_shared = self.0.grid().shared;
        let name = |(side, partition): SidePartition| match (is_shared, side) {
            (true, _) => partition.to_string(),
            (_, Side::Lhs) => format!("{partition} (left)"),
            (_, Side::Rhs) => format!("{partition} (right)"),
        };
        let one = |what: &[String]| match what {
            [one] => format!("partition {one}"),
            several => format!("partitions {}", listed(several, ", ")),
        };
        self.grouped(held, &name, &one)
    }

    /// Describes buckets, in groups by the trainers that train them.
    fn buckets(&self, leased: &[(Bucket, Token)]) -> String {
        let one = |what: &[String]| match what {
            [one] => format!("bucket {one}"),
            several => format!("buckets {}", listed(several, " ")),
        };
        self.grouped(leased, &|bucket: Bucket| bucket.to_string(), &one)
    }

    fn grouped<T: Copy>(
        &self,
        held: &[(T, Token)],
        name: &dyn Fn(T) -> String,
        one: &dyn Fn(&[String]) -> String,
    ) -> String {
        let mut of: BTreeMap<Token, Vec<String>> = BTreeMap::new();
        for (what, token) in held {
            of.entry(*token).or_default().push(name(*what));
        }
        let groups = of.iter();
        let groups = groups.map(|(token, what)| format!("{} of {}", one(what), self.of(*token)));
        listed(&groups.collect::<Vec<_>>(), ", ")
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::schedule::PassId;
    use pbg_ledger::{Genesis, Grid, Join, LedgerAction, RunTerms, TrainedState, Transaction};

    use super::*;

    fn apply(record: &LedgerRecord, token: u64, action: LedgerAction) -> LedgerRecord {
        let token = Token(token);
        let after = record
            .trainers()
            .get(&token)
            .map_or(0, |trainer| trainer.last);
        let number = after + 1;
        let transaction = Transaction {
            token,
            number,
            after,
            action,
        };
        record.apply(&transaction).unwrap()
    }

    #[test]
    fn long_lists_are_cut() {
        let names: Vec<String> = (0..10).map(|number| number.to_string()).collect();
        assert_eq!(listed(&names[..8], " "), "0 1 2 3 4 5 6 7");
        assert_eq!(listed(&names, " "), "0 1 2 3 4 5 6 7 and 2 more");
    }

    #[test]
    fn a_trainer_is_told_whose_partitions_it_waits_for() {
        let terms = RunTerms::of_one_pass(Grid {
            lhs: 2,
            rhs: 2,
            shared: true,
            tables: [vec!["person".to_owned()], Vec::new()],
        });
        let mut record = LedgerRecord::create(Genesis {
            work: TrainedState::none(&terms.grid),
            terms: terms.clone(),
            run: Token(100),
            incarnation: Token(101),
            wanted: 2,
            base: None,
            servers: Default::default(),
        })
        .unwrap();
        let what = |record: &LedgerRecord, token| WaitStatus::of(record, Token(token));
        for (token, name) in [(1, "node-a"), (2, "node-b")] {
            let join = Join {
                terms: terms.clone(),
                name: name.to_owned(),
                rank: None,
                instead_of: None,
                incarnation: Token(101),
                newest: None,
            };
            record = apply(&record, token, LedgerAction::Join(Box::new(join)));
            let waits = what(&record, 1).map(|wait| wait.what);
            let expected = (token == 1).then(|| "the start of the run".to_owned());
            assert_eq!(waits, expected);
        }
        let pass = PassId::default();
        let open = LedgerAction::Open {
            pass,
            plan: 7,
            empty: Vec::new(),
        };
        record = apply(&record, 1, open);
        assert_eq!(what(&record, 2).unwrap().trainers, []);
        let bucket = Bucket::new(0, 1);
        record = apply(&record, 1, LedgerAction::Lease { pass, bucket });
        assert_eq!(what(&record, 1), None);
        let waits = what(&record, 2).unwrap();
        assert_eq!(waits.what, "partitions 0, 1 of node-a");
        assert_eq!(waits.trainers, [Token(1)]);
        for bucket in [Bucket::new(1, 0), Bucket::new(0, 0), Bucket::new(1, 1)] {
            record = apply(&record, 1, LedgerAction::Lease { pass, bucket });
        }
        let waits = what(&record, 2).unwrap();
        assert_eq!(
            waits.what,
            "the last buckets (0, 1) (1, 0) (0, 0) (1, 1) of node-a"
        );
    }
}
