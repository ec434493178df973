//! Remaining edges of a share, by relation.

use crate::{Draw, Share};

/// Number of remaining edges of a [`Share`], by relation.
///
/// Every operation takes time logarithmic in the number of relations: the counts are the leaves
/// of a binary indexed tree (Fenwick, "A new data structure for cumulative frequency tables",
/// Software: Practice and Experience 24(3), 1994).
///
/// ```
/// use pbg_plugin_sdk::{Draw, Left, Share};
/// let share = Share { counts: vec![5, 0, 2], batch_size: 4, seed: 7 };
/// let mut left = Left::new(&share);
/// assert_eq!(left.total(), 7);
/// assert_eq!(left.take(0), Draw { relation: 0, edges: 4 });
/// assert_eq!((left.total(), left.of(0)), (3, 1));
/// ```
#[derive(Clone, Debug)]
pub struct Left {
    counts: Vec<u64>,
    /// `sums[i]` covers the counts of the `i & -i` relations up to and including number `i - 1`.
    sums: Vec<u64>,
    total: u64,
    batch_size: u64,
}

impl Left {
    /// Starts with all edges of `share`.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Left, Share};
    /// let left = Left::new(&Share { counts: vec![], batch_size: 1, seed: 0 });
    /// assert_eq!(left.total(), 0);
    /// ```
    #[must_use]
    pub fn new(share: &Share) -> Self {
        let counts = share.counts.clone();
        let mut sums = vec![0; counts.len() + 1];
        sums[1..].copy_from_slice(&counts);
        for i in 1..sums.len() {
            let parent = i + lowest_bit(i);
            if parent < sums.len() {
                sums[parent] += sums[i];
            }
        }
        Self {
            total: counts.iter().sum(),
            counts,
            sums,
            batch_size: u64::from(share.batch_size.max(1)),
        }
    }

    /// Returns the number of remaining edges.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Left, Share};
    /// let left = Left::new(&Share { counts: vec![3, 4], batch_size: 1, seed: 0 });
    /// assert_eq!(left.total(), 7);
    /// ```
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of remaining edges of `relation`; 0 for one that does not exist.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Left, Share};
    /// let left = Left::new(&Share { counts: vec![3, 4], batch_size: 1, seed: 0 });
    /// assert_eq!((left.of(1), left.of(2)), (4, 0));
    /// ```
    #[must_use]
    pub fn of(&self, relation: u32) -> u64 {
        self.counts.get(relation as usize).copied().unwrap_or(0)
    }

    /// Returns the relations with remaining edges, in ascending order.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Left, Share};
    /// let left = Left::new(&Share { counts: vec![3, 0, 4], batch_size: 1, seed: 0 });
    /// assert_eq!(left.relations().collect::<Vec<_>>(), [0, 2]);
    /// ```
    pub fn relations(&self) -> impl Iterator<Item = u32> + '_ {
        let relations = (0_u32..).zip(&self.counts);
        relations
            .filter(|(_, edges)| **edges > 0)
            .map(|(relation, _)| relation)
    }

    /// Returns the relation of remaining edge `number`, counted from 0 by ascending relation; `None`
    /// if there are not so many edges. With a uniformly random `number` every edge is equally likely,
    /// so relations are drawn in proportion to their remaining edges.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Left, Share};
    /// let left = Left::new(&Share { counts: vec![3, 0, 4], batch_size: 1, seed: 0 });
    /// let relations: Vec<_> = [0, 2, 3, 6, 7].map(|number| left.relation_of(number)).to_vec();
    /// assert_eq!(relations, [Some(0), Some(0), Some(2), Some(2), None]);
    /// ```
    #[must_use]
    pub fn relation_of(&self, number: u64) -> Option<u32> {
        if number >= self.total {
            return None;
        }
        // Descend to the last position whose cumulative sum does not exceed the number.
        let (mut position, mut before) = (0, number);
        let mut step = self.sums.len().next_power_of_two() / 2;
        while step > 0 {
            let next = position + step;
            if next < self.sums.len() && self.sums[next] <= before {
                position = next;
                before -= self.sums[next];
            }
            step /= 2;
        }
        Some(position as u32)
    }

    /// Draws a batch of `relation`: a full batch, or all remaining edges of the relation.
    ///
    /// # Panics
    /// If the relation has no edges left.
    ///
    /// ```
    /// # use pbg_plugin_sdk::{Left, Share};
    /// let mut left = Left::new(&Share { counts: vec![3, 4], batch_size: 3, seed: 0 });
    /// assert_eq!(left.take(1).edges, 3);
    /// assert_eq!(left.take(1).edges, 1);
    /// ```
    pub fn take(&mut self, relation: u32) -> Draw {
        let edges = self.of(relation).min(self.batch_size);
        assert!(edges > 0, "relation {relation} has no edges left");
        self.counts[relation as usize] -= edges;
        self.total -= edges;
        let mut position = relation as usize + 1;
        while position < self.sums.len() {
            self.sums[position] -= edges;
            position += lowest_bit(position);
        }
        Draw {
            relation,
            edges: edges as u32,
        }
    }
}

fn lowest_bit(i: usize) -> usize {
    i & i.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn relations_are_found_as_by_counting(
            counts in proptest::collection::vec(0_u64..9, 0..40),
            batch_size in 1_u32..5,
            takes in proptest::collection::vec(any::<u32>(), 0..30),
        ) {
            let mut left = Left::new(&Share { counts: counts.clone(), batch_size, seed: 0 });
            let mut counts = counts;
            for take in takes {
                let total: u64 = counts.iter().sum();
                prop_assert_eq!(left.total(), total);
                prop_assert_eq!(left.relation_of(total), None);
                let edges: Vec<u32> = (0_u32..).zip(&counts)
                    .flat_map(|(relation, &edges)| (0..edges).map(move |_| relation))
                    .collect();
                for (number, &relation) in (0_u64..).zip(&edges) {
                    prop_assert_eq!(left.relation_of(number), Some(relation));
                }
                let Some(&relation) = edges.get(take as usize % edges.len().max(1)) else { break };
                let drawn = left.take(relation);
                let expected = counts[relation as usize].min(u64::from(batch_size));
                prop_assert_eq!(u64::from(drawn.edges), expected);
                counts[relation as usize] -= expected;
                prop_assert_eq!(left.of(relation), counts[relation as usize]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "relation 1 has no edges left")]
    fn what_is_not_there_cannot_be_taken() {
        Left::new(&Share {
            counts: vec![1, 0],
            batch_size: 1,
            seed: 0,
        })
        .take(1);
    }
}
