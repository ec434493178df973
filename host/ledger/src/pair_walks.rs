//! Walks of several trainers through a pass, for buffers of two partitions.
//!
//! With two partitions in its buffer, a trainer loads one partition for each pair that it trains if it keeps the other
//! one. It loads two if neither partition that it could keep has anything left to train, or only with partitions that
//! others hold. Whether that happens shows only at the end of a pass, when it is too late: a greedy choice by the
//! contents of the buffer loads two partitions for one pair in ten. So each trainer has a walk, and the walks of all
//! trainers are drawn together. A walk is a sequence of pairs, each of which keeps a partition of the previous one. All
//! walks together contain every pair once, and a partition that a walk newly loads was in no other walk in the step
//! before. So a trainer that is up to one step late delays no other.
//!
//! A pass thus costs one load for each pair and one more for each trainer, however long its buckets take, as long as
//! the trainers keep in step. With many partitions, it is rare to draw complete walks without a pair that keeps
//! nothing, which costs an additional load. Of the walks drawn, those with the fewest such pairs are used.
//!
//! If trainers do not keep in step, or if one has joined, left or taken another bucket, the walks are no longer
//! [valid](Walks::advice), and the choice is greedy again.
//!
//! Walks follow from the digest of the plan, the number of trainers and the buckets without edges, so every trainer
//! computes the same walks.

mod draft;
mod pairs;

use draft::WalkDraft;
pub(super) use pairs::PartitionPair;
use pairs::{Pairs, pair_of};
use pbg_core::graph::Bucket;
use pbg_core::seed::{self, StreamPurpose};

use super::{LedgerRecord, Token, init_tree};

/// With at least this many partitions for each trainer, trainers hardly ever wait, and the content of a trainer's
/// buffer decides.
pub(super) const MIN_PARTITIONS_PER_TRAINER: usize = 3;

/// Most pairs examined in the search for walks that always keep a partition, and again in the search for other walks if
/// there are none. That takes some hundredths of a second.
const MOST_LOOKS: u64 = 2_000_000;
/// Most attempts in each of these searches. Few partitions have few walks: what is not found by then hardly exists.
const MOST_ATTEMPTS: u32 = 500;
/// At most one pair in this many may keep nothing of the previous one. With more such pairs, walks would gain little.
const KEEPING: usize = 20;

/// Greatest lag of a trainer behind another one, in half pairs. Other trainers would have to wait for one that lags
/// further.
const LAG: u32 = 3;
/// Like [`LAG`], for a pass that grows from one bucket: the time at which the first bucket is settled, so that others
/// can begin, depends on how long its files take to write.
const LATE_LAG: u32 = 5;

/// One walk for each trainer, in the order in which they begin.
#[derive(Debug)]
pub(super) struct PairWalks {
    pub(super) walks: Vec<Vec<PartitionPair>>,
    /// Number of pairs of the first trainer after which each trainer begins its own walk; not 0 in a pass that grows
    /// from one bucket.
    pub(super) delays: Vec<usize>,
    /// Walk that trains the buckets of a single partition, by partition.
    single_owner: Vec<usize>,
}

impl PairWalks {
    /// Returns the walks of the current trainers, or `None` if there are too few partitions for them or no walks were
    /// found.
    pub(super) fn of(record: &LedgerRecord) -> Option<Self> {
        let trainers = record.trainers.len();
        let pairs = Pairs::of(record);
        if trainers < 2 || pairs.groups < MIN_PARTITIONS_PER_TRAINER * trainers {
            return None;
        }
        let plan = record.work.plan?;
        let late = late(trainers, init_tree::rule_holds(record));
        let mut rng = seed::stream(plan, StreamPurpose::Walk, &[trainers as u64]);
        let mut best: Option<WalkDraft<'_>> = None;
        for may_jump in [false, true] {
            let (mut looks, mut attempts) = (MOST_LOOKS, MOST_ATTEMPTS);
            while looks > 0
                && attempts > 0
                && best.as_ref().is_none_or(|best| best.double_loads > 0)
            {
                attempts -= 1;
                let mut draft = WalkDraft::new(&pairs, &late);
                let most = match &best {
                    Some(best) => best.double_loads - 1,
                    None if may_jump => draft.left / KEEPING,
                    None => 0,
                };
                if draft.walk(most, &mut rng, &mut looks) {
                    best = Some(draft);
                }
            }
        }
        let walks = best?.into_walks();
        let alone = alone(&walks, &late, pairs.groups);
        Some(Self {
            walks,
            delays: late,
            single_owner: alone,
        })
    }

    /// Returns the recommended buckets among those that are `free` for `token`, so that all trainers continue their
    /// walks; an empty list means that the trainer should wait. Returns `None` if the walks are no longer valid; then
    /// any bucket is as good. A trainer that begins takes the first walk that no trainer has begun. Its index is stored
    /// in `taken` once a bucket of it is leased.
    ///
    /// The walks are valid as long as in each of them only a prefix of its pairs has begun, and no trainer lags too far
    /// behind another ([`LAG`]).
    pub(super) fn advice(
        &self,
        record: &LedgerRecord,
        token: Token,
        free: &[Bucket],
        taken: &mut Option<usize>,
    ) -> Option<Vec<Bucket>> {
        let pairs = Pairs::of(record);
        let has_begun =
            |walk: &Vec<PartitionPair>| walk.first().is_none_or(|pair| pairs.has_begun(pair));
        let leases = record.trainers.get(&token)?.leases.iter();
        let leased: Vec<PartitionPair> = leases.filter_map(|b| pair_of(record, *b)).collect();
        let is_leased =
            |walk: &Vec<PartitionPair>| walk.first().is_some_and(|pair| leased.contains(pair));
        *taken = taken.or_else(|| self.walks.iter().position(is_leased));
        let own = taken.or_else(|| self.walks.iter().position(|walk| !has_begun(walk)))?;
        if !self.are_valid(&pairs) {
            return None;
        }
        // While a trainer waits for partitions to begin with, buckets of a single partition are left for later.
        let somebody_waits = self.is_late() && !self.walks.iter().all(has_begun);
        let mut same = record.needing_only_held(token, free);
        same.retain(|bucket| {
            let mut needs = record.grid().partitions_of(*bucket);
            let single = needs.next().filter(|_| needs.next().is_none());
            let single = single.and_then(|group| record.grid().group_index(group));
            single.is_none_or(|at| self.single_owner[at] == own && !somebody_waits)
        });
        if !same.is_empty() {
            return Some(same);
        }
        let of = |keep: &dyn Fn(Option<PartitionPair>) -> bool| -> Vec<Bucket> {
            let kept = |b: &Bucket| keep(pair_of(record, *b));
            free.iter().copied().filter(kept).collect()
        };
        if let Some(next) = self.walks[own]
            .iter()
            .find(|pair| pairs.get(**pair).to_do > 0)
        {
            return Some(of(&|pair| pair == Some(*next)));
        }
        let to_begin =
            |walk: &Vec<PartitionPair>| walk.iter().filter(|p| !pairs.has_begun(p)).count();
        match self.walks.iter().all(|walk| to_begin(walk) <= 1) {
            // The others are about to begin their last pairs, each with a partition that it already has.
            true => Some(of(&|pair| pair.is_none())),
            // A trainer that has finished its walk takes pairs from the walks of others, which makes them invalid.
            false => None,
        }
    }

    fn is_late(&self) -> bool {
        self.delays.iter().any(|late| *late > 0)
    }

    fn are_valid(&self, pairs: &Pairs) -> bool {
        let is_prefix = |walk: &Vec<PartitionPair>| {
            let mut rest = walk.iter().skip_while(|pair| pairs.has_begun(pair));
            !rest.any(|pair| pairs.has_begun(pair))
        };
        if !self.walks.iter().all(is_prefix) {
            return false;
        }
        let width = pairs.width();
        let (mut first, mut last) = (0, u32::MAX);
        for (walk, late) in self.walks.iter().zip(&self.delays) {
            let taken: u32 = walk.iter().map(|pair| pairs.get(*pair).taken).sum();
            let place = taken + *late as u32 * width;
            if taken > 0 {
                first = first.max(place);
            }
            if walk.last().is_some_and(|pair| !pairs.has_begun(pair)) {
                last = last.min(place);
            }
        }
        let lag = first.saturating_sub(last);
        lag <= if self.is_late() { LATE_LAG } else { LAG } * width / 2
    }
}

/// Returns the delay of each walk in steps. If all walks grow from one bucket, each trainer that has trained a pair
/// lets another one begin: 1, 2, 4 trainers and so on.
fn late(trainers: usize, grows: bool) -> Vec<usize> {
    let step = |trainer: usize| (usize::BITS - trainer.leading_zeros()) as usize;
    let trainers = 0..trainers;
    trainers.map(|t| if grows { step(t) } else { 0 }).collect()
}

/// Assigns the buckets of each single partition to a walk that visits it, so that the walks get equally many and
/// trainers keep in step.
fn alone(walks: &[Vec<PartitionPair>], late: &[usize], groups: usize) -> Vec<usize> {
    let mut visits: Vec<(usize, usize, usize)> = Vec::new();
    for (number, walk) in walks.iter().enumerate() {
        for partition in 0..groups {
            let first = walk.iter().position(|pair| pair.contains(&partition));
            visits.extend(first.map(|step| (step + late[number], number, partition)));
        }
    }
    visits.sort_unstable();
    let mut alone: Vec<Option<usize>> = vec![None; groups];
    let mut counts = vec![0_usize; walks.len()];
    for (_, walk, partition) in &visits {
        let is_least = counts.iter().min() == Some(&counts[*walk]);
        if alone[*partition].is_none() && is_least {
            alone[*partition] = Some(*walk);
            counts[*walk] += 1;
        }
    }
    // Partitions that are left over go to their first visitor.
    for (_, walk, partition) in visits {
        alone[partition].get_or_insert(walk);
    }
    alone.into_iter().map(Option::unwrap_or_default).collect()
}
