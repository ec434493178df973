//! Recommends the next bucket to a trainer, so that the other trainers find buckets to train, too.
//!
//! Only one trainer can hold a partition. If there are not many more partitions than the trainers hold, a trainer that
//! takes any free bucket soon leaves a set of partitions whose buckets with each other are done. The next trainer then
//! has to wait until another one finishes a bucket, and so on. In a round-robin tournament, every round pairs all
//! partitions. So the buckets of each partition are trained in the order of the rounds of a tournament, and a trainer
//! that is early waits for the other partition. The wait is short, because all rounds take about the same time. If they
//! do not, a trainer that has waited too long takes any free bucket (`pbg-distributed` knows how long a bucket takes).
//!
//! The rule of the first pass ([`super::init_tree`]) leaves trainers without work while the tree has few partitions. So
//! until the tree has two partitions for each trainer, a bucket that adds a partition is recommended.
//!
//! If buffers hold two partitions and there are at least three partitions for each trainer, every trainer instead
//! follows a walk ([`super::pair_walks`]), so that each pair of partitions costs one load.
//!
//! These are recommendations: [`LedgerRecord::free`] decides which buckets can be leased. The rounds follow from the
//! digest of the plan, which all trainers know, and differ from pass to pass.

use std::cmp::Reverse;

use pbg_core::graph::{Bucket, Side};
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, StreamPurpose};

use super::init_tree::InitTree;
use super::pair_walks::{MIN_PARTITIONS_PER_TRAINER, PairWalks};
use super::{BucketState, Grid, LedgerRecord, Token};

/// With a buffer of this many partitions, at most one partition of a pair is already in the buffer.
const PAIR_BUFFER: u32 = 2;

/// Recommends the next bucket to a trainer. Caches what follows from the plan of a pass.
#[derive(Debug, Default)]
pub struct BucketAdvisor {
    planned: Option<Planned>,
    walks: Option<PairWalks>,
    /// Index of the trainer's walk.
    taken: Option<usize>,
}

/// Inputs of the walks: the pass, the digest of its plan, and the number of trainers.
type Planned = (PassId, Option<u64>, usize);

impl BucketAdvisor {
    /// Returns the recommended buckets among those that are `free` for `token`, whose buffer holds `buffer` partitions.
    /// If the result is empty, the trainer should wait until others have settled.
    #[must_use]
    pub fn in_turn(
        &mut self,
        record: &LedgerRecord,
        token: Token,
        free: &[Bucket],
        buffer: u32,
    ) -> Vec<Bucket> {
        if buffer > PAIR_BUFFER || record.has_few_partitions() {
            return record.in_turn(token, free);
        }
        let planned = (record.work.pass, record.work.plan, record.trainers.len());
        if self.planned != Some(planned) {
            *self = Self {
                planned: Some(planned),
                walks: PairWalks::of(record),
                taken: None,
            };
        }
        let taken = &mut self.taken;
        let advice = self.walks.as_ref();
        if let Some(advice) = advice.and_then(|walks| walks.advice(record, token, free, taken)) {
            return advice;
        }
        // If one of two mirrored buckets is left for later, both partitions have to be loaded once more.
        let mut same = record.needing_only_held(token, free);
        same.retain(|bucket| record.grid().partitions_of(*bucket).count() == 2);
        match same.is_empty() || record.trainers.len() < 2 {
            true => record.in_turn(token, free),
            false => same,
        }
    }
}

/// Rounds of a pass, as in a round-robin tournament. In each round, a partition occurs in one bucket at most, or in one
/// bucket and its mirror image.
pub(super) struct TournamentRounds<'a> {
    grid: &'a Grid,
    /// Positions of the partitions in the tournament, by side.
    places: [Vec<u32>; 2],
}

impl<'a> TournamentRounds<'a> {
    pub(super) fn of(record: &'a LedgerRecord) -> Self {
        let (grid, plan) = (record.grid(), record.work.plan.unwrap_or_default());
        let places = Side::BOTH.map(|side| {
            let drawn =
                |p: &u32| seed::derive(plan, StreamPurpose::Order, &[side as u64, (*p).into()]);
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

    /// Returns the round of a bucket that needs two partitions, or `None` for other buckets.
    pub(super) fn of_bucket(&self, bucket: Bucket) -> Option<u32> {
        if self.grid.partitions_of(bucket).count() < 2 {
            return None;
        }
        let place = |side: Side, p: u32| self.places[self.grid.owner(side) as usize][p as usize];
        let (a, b) = (place(Side::Lhs, bucket.lhs), place(Side::Rhs, bucket.rhs));
        if !self.grid.shared {
            return Some((a + b) % self.grid.lhs.max(self.grid.rhs));
        }
        // The circle method: the last position is fixed, the others rotate.
        let circle = self.grid.lhs.next_multiple_of(2) - 1;
        let round = match (a == circle, b == circle) {
            (true, _) => b,
            (_, true) => a,
            // Twice the round is the sum of the positions, modulo the size of the circle. The size is odd, so this
            // multiplication halves the sum.
            _ => (a + b) % circle * circle.div_ceil(2) % circle,
        };
        Some(round)
    }

    /// Returns the number of `buckets` in each round.
    fn count(&self, buckets: impl Iterator<Item = Bucket>) -> Vec<u32> {
        let mut counts = vec![0; self.grid.lhs.max(self.grid.rhs) as usize];
        for round in buckets.filter_map(|bucket| self.of_bucket(bucket)) {
            counts[round as usize] += 1;
        }
        counts
    }
}

impl LedgerRecord {
    /// Returns the recommended buckets among those that are `free` for `token`. If the result is empty, the trainer
    /// should wait until others have settled.
    #[must_use]
    pub fn in_turn(&self, token: Token, free: &[Bucket]) -> Vec<Bucket> {
        if self.trainers.len() < 2 {
            return free.to_vec();
        }
        let few = self.has_few_partitions();
        let rounds = TournamentRounds::of(self);
        let growing = self.growing(token, free, &rounds, few);
        if !growing.is_empty() {
            return growing;
        }
        if !few {
            return free.to_vec();
        }
        let next = self.next_in_rounds(token, free, &rounds);
        // If no other trainer is training, nothing would end the wait.
        let others_train = || {
            let mut trainers = self.trainers.iter();
            trainers.any(|(other, trainer)| *other != token && !trainer.leases.is_empty())
        };
        match next.is_empty() && !others_train() {
            true => free.to_vec(),
            false => next,
        }
    }

    /// Whether there are so few partitions that trainers taking any free bucket would soon leave nothing for others.
    fn has_few_partitions(&self) -> bool {
        self.grid().groups().count() < MIN_PARTITIONS_PER_TRAINER * self.trainers.len()
    }

    /// Returns those of the `free` buckets that need only partitions that `token` holds.
    pub(super) fn needing_only_held(&self, token: Token, free: &[Bucket]) -> Vec<Bucket> {
        let grid = self.grid();
        let own = self.trainers.get(&token).into_iter();
        let leases = own.flat_map(|trainer| &trainer.leases);
        let held = grid.partitions_of_all(leases);
        let is_held = |bucket: &Bucket| {
            grid.partitions_of(*bucket)
                .all(|group| held.contains(&group))
        };
        free.iter().copied().filter(is_held).collect()
    }

    /// Returns the free buckets that add a partition to the tree, or none if the tree is large enough. If there are few
    /// partitions, the buckets are of a single round if possible, which leaves the other rounds complete.
    fn growing(
        &self,
        token: Token,
        free: &[Bucket],
        rounds: &TournamentRounds<'_>,
        few: bool,
    ) -> Vec<Bucket> {
        let Some(tree) = InitTree::of(self, Some(token)) else {
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
            let width = rounds.count(self.in_state(BucketState::ToDo).filter(grow));
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

    /// Returns the free buckets that need only partitions that `token` holds. If there are none, returns those in the
    /// next round of both of their partitions; and if there are none of these either, those of a single partition,
    /// which are in no round.
    fn next_in_rounds(
        &self,
        token: Token,
        free: &[Bucket],
        rounds: &TournamentRounds<'_>,
    ) -> Vec<Bucket> {
        let grid = self.grid();
        let of_free = |keep: &dyn Fn(&Bucket) -> bool| -> Vec<Bucket> {
            free.iter().copied().filter(keep).collect()
        };
        let nothing_new = self.needing_only_held(token, free);
        if !nothing_new.is_empty() {
            return nothing_new;
        }
        let mut next = vec![u32::MAX; self.work.partitions.len()];
        for bucket in self.in_state(BucketState::ToDo) {
            let Some(round) = rounds.of_bucket(bucket) else {
                continue;
            };
            for at in grid
                .partitions_of(bucket)
                .filter_map(|g| grid.group_index(g))
            {
                next[at] = next[at].min(round);
            }
        }
        let is_next = |bucket: &Bucket| {
            let mut needs = grid
                .partitions_of(*bucket)
                .filter_map(|g| grid.group_index(g));
            let round = rounds.of_bucket(*bucket);
            round.is_some_and(|round| needs.all(|at| next[at] == round))
        };
        let both = of_free(&is_next);
        match both.is_empty() {
            true => of_free(&|bucket| rounds.of_bucket(*bucket).is_none()),
            false => both,
        }
    }
}
