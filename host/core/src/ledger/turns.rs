//! Which of the free buckets a trainer had better take, so that the others find something to train, too.
//!
//! A partition is trained by one trainer at a time. Where there are not many more partitions than the trainers hold, who
//! takes whatever is free soon leaves partitions over that have been trained with each other already, and their trainer
//! waits for the end of a bucket of somebody else; and so does the next one. In a round-robin tournament every round
//! pairs all partitions. So each partition meets the others in the order of the rounds of one, and who is early waits
//! for the partner. That costs little, because all rounds take about as long, and where they do not, whoever waits too
//! long takes what is free (`pbg-train` knows how long a bucket takes).
//!
//! The rule of the first pass ([`super::tree`]) leaves trainers without work as long as the tree has few partitions. So
//! until it has two for each of them, a bucket is taken that brings a new one.
//!
//! With two partitions in the buffer of each, and at least three for each trainer, every trainer follows a walk instead
//! ([`super::walks`]), so that each pair of partitions costs one load.
//!
//! All are advice: [`Record::free`] says what the ledger gives out. The rounds follow from the plan's digest, which all
//! trainers know, and are others in every pass.

use std::cmp::Reverse;

use super::tree::Tree;
use super::walks::Walks;
use super::{BucketState, Grid, Record, Token};
use crate::graph::{Bucket, Side, SidePartition};
use crate::schedule::PassId;
use crate::seed::{self, Purpose};

/// With so many partitions for each trainer and more, hardly anyone waits, and what is in a trainer's buffer decides.
pub(super) const PLENTY: usize = 3;
/// A buffer of so many partitions keeps one at most of those that a pair needs.
const NARROW: u32 = 2;

/// What tells a trainer whose turn is which bucket. It remembers what follows from the plan of a pass.
#[derive(Debug, Default)]
pub struct Guide {
    planned: Option<Planned>,
    walks: Option<Walks>,
    /// Which of them is the trainer's.
    taken: Option<usize>,
}

/// What walks follow from: the pass, the digest of its plan, and the number of trainers.
type Planned = (PassId, Option<u64>, usize);

impl Guide {
    /// Of the buckets that are `free` for `token`, with room for `buffer` partitions, those that it had better take.
    /// None: it had better wait until others have settled.
    #[must_use]
    pub fn in_turn(
        &mut self,
        record: &Record,
        token: Token,
        free: &[Bucket],
        buffer: u32,
    ) -> Vec<Bucket> {
        if buffer > NARROW || record.is_few() {
            return record.in_turn(token, free);
        }
        let planned = (record.work.pass, record.work.plan, record.trainers.len());
        if self.planned != Some(planned) {
            *self = Self {
                planned: Some(planned),
                walks: Walks::of(record),
                taken: None,
            };
        }
        let taken = &mut self.taken;
        let advice = self.walks.as_ref();
        if let Some(advice) = advice.and_then(|walks| walks.advice(record, token, free, taken)) {
            return advice;
        }
        // Of two mirrored buckets, one that is left for later costs both partitions once more.
        let mut same = record.nothing_new(token, free);
        same.retain(|bucket| record.grid().needs(*bucket).count() == 2);
        match same.is_empty() || record.trainers.len() < 2 {
            true => record.in_turn(token, free),
            false => same,
        }
    }
}

/// The rounds of a pass, in each of which a partition is in one bucket at most, or in one and its mirror image.
pub(super) struct Rounds<'a> {
    grid: &'a Grid,
    /// The places of partitions, by side.
    places: [Vec<u32>; 2],
}

impl<'a> Rounds<'a> {
    pub(super) fn of(record: &'a Record) -> Self {
        let (grid, plan) = (record.grid(), record.work.plan.unwrap_or_default());
        let places = Side::BOTH.map(|side| {
            let drawn = |p: &u32| seed::derive(plan, Purpose::Order, &[side as u64, (*p).into()]);
            let mut order: Vec<u32> = (0..grid.partitions(side)).collect();
            order.sort_unstable_by_key(drawn);
            let mut places = vec![0; order.len()];
            for (place, partition) in order.into_iter().enumerate() {
                places[partition as usize] = place as u32;
            }
            places
        });
        Self { grid, places }
    }

    /// The round of a bucket that needs two partitions; none for others.
    pub(super) fn of_bucket(&self, bucket: Bucket) -> Option<u32> {
        if self.grid.needs(bucket).count() < 2 {
            return None;
        }
        let place = |side: Side, p: u32| self.places[self.grid.owner(side) as usize][p as usize];
        let (a, b) = (place(Side::Lhs, bucket.lhs), place(Side::Rhs, bucket.rhs));
        if !self.grid.shared {
            return Some((a + b) % self.grid.lhs.max(self.grid.rhs));
        }
        // The circle method: the last place stays, the others go round it.
        let circle = self.grid.lhs.next_multiple_of(2) - 1;
        let round = match (a == circle, b == circle) {
            (true, _) => b,
            (_, true) => a,
            // Twice the round is the sum of the places; half of a number in the circle is this multiple of it.
            _ => (a + b) % circle * circle.div_ceil(2) % circle,
        };
        Some(round)
    }

    /// How many of `buckets` each round has.
    fn count(&self, buckets: impl Iterator<Item = Bucket>) -> Vec<u32> {
        let mut counts = vec![0; self.grid.lhs.max(self.grid.rhs) as usize];
        for round in buckets.filter_map(|bucket| self.of_bucket(bucket)) {
            counts[round as usize] += 1;
        }
        counts
    }
}

impl Record {
    /// Of the buckets that are `free` for `token` those that it had better take. None: it had better wait until others
    /// have settled.
    #[must_use]
    pub fn in_turn(&self, token: Token, free: &[Bucket]) -> Vec<Bucket> {
        if self.trainers.len() < 2 {
            return free.to_vec();
        }
        let few = self.is_few();
        let rounds = Rounds::of(self);
        let growing = self.growing(token, free, &rounds, few);
        if !growing.is_empty() {
            return growing;
        }
        if !few {
            return free.to_vec();
        }
        let next = self.next_in_rounds(token, free, &rounds);
        // Nobody could end the wait of one that is alone.
        let others_train = || {
            let mut trainers = self.trainers.iter();
            trainers.any(|(other, trainer)| *other != token && !trainer.leases.is_empty())
        };
        match next.is_empty() && !others_train() {
            true => free.to_vec(),
            false => next,
        }
    }

    /// Whether who takes what is free soon leaves nothing for others.
    fn is_few(&self) -> bool {
        self.grid().groups().count() < PLENTY * self.trainers.len()
    }

    /// Those of the `free` buckets that need nothing but what `token` holds.
    pub(super) fn nothing_new(&self, token: Token, free: &[Bucket]) -> Vec<Bucket> {
        let grid = self.grid();
        let own = self.trainers.get(&token).into_iter();
        let leases = own.flat_map(|trainer| &trainer.leases);
        let held: Vec<SidePartition> = leases.flat_map(|bucket| grid.needs(*bucket)).collect();
        let is_held = |bucket: &Bucket| grid.needs(*bucket).all(|group| held.contains(&group));
        free.iter().copied().filter(is_held).collect()
    }

    /// Buckets that bring a new partition into the tree; none where it has enough. Where partitions are few, they are of
    /// one round if possible: that leaves the others whole.
    fn growing(
        &self,
        token: Token,
        free: &[Bucket],
        rounds: &Rounds<'_>,
        few: bool,
    ) -> Vec<Bucket> {
        let Some(tree) = Tree::of(self, Some(token)) else {
            return Vec::new();
        };
        let all = self.grid().groups().count();
        let enough = if few { all } else { 2 * self.trainers.len() };
        if tree.groups() >= enough.min(all) {
            return Vec::new();
        }
        let grow = |bucket: &Bucket| tree.grows_by(*bucket);
        let mut growing: Vec<Bucket> = free.iter().copied().filter(grow).collect();
        if few {
            let taken = self
                .trainers
                .values()
                .flat_map(|t| t.leases.iter().copied());
            let taken = rounds.count(taken);
            let width = rounds.count(self.to_do().filter(grow));
            let rank = |bucket: &Bucket| {
                rounds.of_bucket(*bucket).map(|round| {
                    let at = round as usize;
                    (Reverse(taken[at]), Reverse(width[at]), round)
                })
            };
            let best = growing.iter().map(rank).min();
            growing.retain(|bucket| Some(rank(bucket)) == best);
        }
        growing
    }

    /// Buckets that need nothing but what `token` holds; if there are none, those that both of their partitions have
    /// next; and if there are none of these, those of a single partition, which are in no round.
    fn next_in_rounds(&self, token: Token, free: &[Bucket], rounds: &Rounds<'_>) -> Vec<Bucket> {
        let grid = self.grid();
        let of_free = |keep: &dyn Fn(&Bucket) -> bool| -> Vec<Bucket> {
            free.iter().copied().filter(keep).collect()
        };
        let nothing_new = self.nothing_new(token, free);
        if !nothing_new.is_empty() {
            return nothing_new;
        }
        let mut next = vec![u32::MAX; self.work.partitions.len()];
        for bucket in self.to_do() {
            let Some(round) = rounds.of_bucket(bucket) else {
                continue;
            };
            for at in grid.needs(bucket).filter_map(|g| grid.group_index(g)) {
                next[at] = next[at].min(round);
            }
        }
        let is_next = |bucket: &Bucket| {
            let mut needs = grid.needs(*bucket).filter_map(|g| grid.group_index(g));
            let round = rounds.of_bucket(*bucket);
            round.is_some_and(|round| needs.all(|at| next[at] == round))
        };
        let both = of_free(&is_next);
        match both.is_empty() {
            true => of_free(&|bucket| rounds.of_bucket(*bucket).is_none()),
            false => both,
        }
    }

    fn to_do(&self) -> impl Iterator<Item = Bucket> + '_ {
        let states = self.work.buckets.iter().enumerate();
        states
            .filter(|(_, state)| *state == BucketState::ToDo)
            .map(|(index, _)| self.grid().bucket(index))
    }
}
