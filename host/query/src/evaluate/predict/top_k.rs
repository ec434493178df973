//! Selection of the best of many candidates in little memory.

use std::cmp::Ordering;

use pbg_dataset::EntityId;

/// Candidate with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScoredCandidate<I = EntityId> {
    pub(crate) score: f32,
    pub(crate) id: I,
}

impl<I: Ord> ScoredCandidate<I> {
    /// Orders by descending score, then by id. Scores are finite.
    fn order(&self, other: &Self) -> Ordering {
        let scores = other.score.partial_cmp(&self.score);
        scores
            .unwrap_or(Ordering::Equal)
            .then(self.id.cmp(&other.id))
    }
}

/// Best candidates of a question so far.
#[derive(Debug)]
pub(crate) struct TopK<I = EntityId> {
    count: usize,
    /// At most twice as many candidates as are kept.
    entries: Vec<ScoredCandidate<I>>,
    /// Worst of the best candidates. A candidate that is not better is dropped.
    threshold: Option<ScoredCandidate<I>>,
    left_out: u64,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScoredAnswer {
    pub(super) entity_type: usize,
    pub(super) left_out: u64,
    pub(super) best: Vec<(EntityId, f32)>,
}

impl<I: Copy + Ord> TopK<I> {
    /// Creates a selection that keeps `count` candidates.
    pub(crate) const fn new(count: usize) -> Self {
        Self {
            count,
            entries: Vec::new(),
            threshold: None,
            left_out: 0,
        }
    }

    /// Counts a candidate that is left out.
    pub(super) const fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Adds a candidate if it may be one of the best.
    #[inline]
    pub(crate) fn add(&mut self, new: ScoredCandidate<I>) {
        if self.threshold.is_some_and(|bar| new.order(&bar).is_ge()) {
            return;
        }
        if self.entries.capacity() == 0 {
            self.entries.reserve_exact(2 * self.count);
        }
        self.entries.push(new);
        if self.entries.len() >= 2 * self.count {
            self.shrink();
        }
    }

    /// Drops all candidates except the best.
    fn shrink(&mut self) {
        if self.entries.len() > self.count {
            let last = self.count - 1;
            self.entries
                .select_nth_unstable_by(last, ScoredCandidate::order);
            self.entries.truncate(self.count);
        }
        if self.entries.len() == self.count {
            self.threshold = self.entries.iter().copied().max_by(ScoredCandidate::order);
        }
    }

    /// Returns the score that a candidate needs; `None` if fewer candidates are kept than fit.
    pub(crate) fn threshold(&self) -> Option<f32> {
        self.threshold.as_ref().map(|bar| bar.score)
    }

    /// Returns the best candidates, best first.
    pub(crate) fn into_sorted(mut self) -> Vec<(I, f32)> {
        self.shrink();
        self.entries.sort_unstable_by(ScoredCandidate::order);
        let best = self.entries.iter().map(|entry| (entry.id, entry.score));
        best.collect()
    }
}

impl TopK {
    /// Returns the answer, among entities of type `entity_type`.
    pub(super) fn finish(self, entity_type: usize) -> ScoredAnswer {
        ScoredAnswer {
            entity_type,
            left_out: self.left_out,
            best: self.into_sorted(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// For any order of the candidates, the best ones are the first of the sorted list of all.
        #[test]
        fn the_best_are_the_first_of_all(
            scores in prop::collection::vec(-4_i8..4, 0..200),
            count in 1_usize..30,
            step in 1_usize..50,
        ) {
            let all: Vec<ScoredCandidate> = (0_u32..).zip(&scores).map(|(at, &score)| ScoredCandidate {
                score: f32::from(score) / 2.0,
                id: EntityId { partition: at % 3, offset: at },
            }).collect();
            let mut best = TopK::new(count);
            // Adds the candidates in strides of `step`, since threads add blocks in any order.
            for first in 0..step {
                all.iter().skip(first).step_by(step).for_each(|&one| best.add(one));
                prop_assert!(best.entries.len() <= 2 * count);
            }
            let mut expected = all;
            expected.sort_by(ScoredCandidate::order);
            expected.truncate(count);
            let expected: Vec<_> = expected.iter().map(|one| (one.id, one.score)).collect();
            prop_assert_eq!(best.finish(0).best, expected);
        }
    }
}
