//! Random construction of the walks of all trainers together, step by step; see [`super`] for their definition.

use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::pairs::{Pairs, PartitionPair};

/// Greatest advantage in open pairs of a candidate over the pair that is chosen instead of it. The randomness makes
/// every new attempt a different one.
const NOISE: u32 = 3;

/// Walks that are partly drawn.
pub(super) struct WalkDraft<'a> {
    late: &'a [usize],
    groups: usize,
    /// Whether a pair is in no walk yet, by [`Pairs::at`] in either order.
    open: Vec<bool>,
    /// Number of open pairs of each partition.
    degrees: Vec<u32>,
    pub(super) left: usize,
    /// Pairs by trainer and step.
    steps: Vec<Vec<Option<PartitionPair>>>,
    /// Whether a partition was in an earlier step.
    seen: Vec<bool>,
    /// Number of pairs so far that keep nothing of the previous one.
    pub(super) double_loads: usize,
}

impl<'a> WalkDraft<'a> {
    pub(super) fn new(pairs: &Pairs, late: &'a [usize]) -> Self {
        let groups = pairs.groups;
        let mut draft = Self {
            late,
            groups,
            open: vec![false; groups * groups],
            degrees: vec![0; groups],
            left: 0,
            steps: vec![Vec::new(); late.len()],
            seen: vec![false; groups],
            double_loads: 0,
        };
        for a in 0..groups {
            for b in a + 1..groups {
                let of = pairs.get([a, b]);
                if of.to_do + of.taken > 0 {
                    draft.set([a, b], true);
                }
            }
        }
        draft
    }

    fn set(&mut self, [a, b]: PartitionPair, is_open: bool) {
        self.open[a * self.groups + b] = is_open;
        self.open[b * self.groups + a] = is_open;
        for partition in [a, b] {
            match is_open {
                true => self.degrees[partition] += 1,
                false => self.degrees[partition] -= 1,
            }
        }
        match is_open {
            true => self.left += 1,
            false => self.left -= 1,
        }
    }

    /// Draws walks in which at most `most_jumps` pairs keep nothing of the previous one ([`Self::jumps`]). Returns
    /// false if some pairs remain in no walk.
    pub(super) fn walk(
        &mut self,
        most_jumps: usize,
        rng: &mut Xoshiro256PlusPlus,
        looks: &mut u64,
    ) -> bool {
        let trainers = self.late.len();
        for step in 0.. {
            if self.left == 0 || *looks == 0 {
                break;
            }
            for turn in 0..trainers {
                // The last trainer to choose has the fewest pairs to choose from.
                let trainer = if step % 2 == 0 {
                    turn
                } else {
                    trainers - 1 - turn
                };
                let is_there = step >= self.late[trainer] && self.left > 0;
                let next = is_there.then(|| self.next(trainer, step, most_jumps, rng, looks));
                // In the last step, some of many trainers may have no pair left.
                if next == Some(None) && self.left >= (trainers / 4).max(1) {
                    return false;
                }
                let next = next.flatten();
                if let Some(pair) = next {
                    self.set(pair, false);
                }
                self.steps[trainer].push(next);
            }
            let taken = self.steps.iter().filter_map(|steps| steps[step]).flatten();
            for partition in taken.collect::<Vec<_>>() {
                self.seen[partition] = true;
            }
            if self.steps.iter().all(|steps| steps[step].is_none()) {
                return false;
            }
        }
        self.left == 0
    }

    pub(super) fn into_walks(self) -> Vec<Vec<PartitionPair>> {
        let walks = self.steps.into_iter().map(|s| s.into_iter().flatten());
        walks.map(Iterator::collect).collect()
    }

    /// Returns a pair that keeps a partition of the trainer's previous one, and whose other partition no trainer has
    /// had for a step. If there is none, returns a pair that keeps nothing, if [`Self::jumps`] allows.
    fn next(
        &mut self,
        trainer: usize,
        step: usize,
        most_jumps: usize,
        rng: &mut Xoshiro256PlusPlus,
        looks: &mut u64,
    ) -> Option<PartitionPair> {
        let before = step.checked_sub(1);
        let kept = before.and_then(|step| self.steps[trainer][step]);
        if kept.is_none() && step > self.late[trainer] {
            return None;
        }
        let is_taken = self.others(trainer, Some(step));
        let was_taken = self.others(trainer, before);
        let all = || (0..self.groups).collect();
        let free = |keep: usize, new: usize| !is_taken[keep] && !is_taken[new];
        let Some(kept) = kept else {
            // The first pair of a walk that begins late has one partition that was in an earlier step.
            let fits = |keep, new| free(keep, new) && (step == 0 || self.seen[keep]);
            return self.best(all(), fits, rng, looks);
        };
        let fits = |keep, new: usize| free(keep, new) && !was_taken[new];
        if let Some(pair) = self.best(kept.to_vec(), fits, rng, looks) {
            return Some(pair);
        }
        if self.double_loads == most_jumps {
            return None;
        }
        let fits = |a: usize, b| fits(a, b) && !was_taken[a];
        let pair = self.best(all(), fits, rng, looks)?;
        self.double_loads += 1;
        Some(pair)
    }

    /// Returns, by partition, whether another trainer has it in `step`.
    fn others(&self, trainer: usize, step: Option<usize>) -> Vec<bool> {
        let mut taken = vec![false; self.groups];
        let Some(step) = step else {
            return taken;
        };
        let others = self.steps.iter().enumerate().filter(|(o, _)| *o != trainer);
        let pairs = others.filter_map(|(_, steps)| steps.get(step).copied().flatten());
        for partition in pairs.flatten() {
            taken[partition] = true;
        }
        taken
    }

    /// Returns an open pair that fits and whose first partition is one of `from`. The choice is random, but prefers
    /// pairs whose partitions have many open pairs.
    fn best(
        &self,
        from: Vec<usize>,
        fits: impl Fn(usize, usize) -> bool,
        rng: &mut Xoshiro256PlusPlus,
        looks: &mut u64,
    ) -> Option<PartitionPair> {
        let mut best = None;
        for keep in from {
            for new in 0..self.groups {
                *looks = looks.saturating_sub(1);
                if !self.open[keep * self.groups + new] || !fits(keep, new) {
                    continue;
                }
                let left = self.degrees[keep] + self.degrees[new];
                let rank = 1000 * left + rng.random_range(0..1000 * NOISE);
                if best.is_none_or(|(of_best, _)| rank > of_best) {
                    best = Some((rank, [keep.min(new), keep.max(new)]));
                }
            }
        }
        best.map(|(_, pair)| pair)
    }
}
