//! Assignment of entities to partitions and offsets.
//!
//! New entities are shuffled by a hash of seed and name, so that the result depends on nothing else, and distributed
//! over the partitions in contiguous ranges. Known entities keep their partitions and offsets.

use std::ops::AddAssign;

use pbg_core::seed::{self, StreamPurpose};

use super::ImportError;
use super::intern::{Interner, NameMap};
use super::job::ImportJob;
use super::types::TypeNames;

/// Id of a dropped name: returned by [`Assignment::find`] for names with too few edges.
pub(super) const DROPPED: u32 = u32::MAX;

/// Partitions and offsets of all entities of a type.
pub(super) struct Assignment {
    /// Global numbers of the entities of each partition.
    all: Ranges,
    numbers: IdKind,
}

/// Kind of the ids from which partitions and offsets are computed.
enum IdKind {
    /// Provisional numbers of names in memory.
    Provisional {
        /// All numbers in global order.
        order: Vec<u32>,
        globals: NameMap,
    },
    /// Numbers of names on disk: known entities first, in the global order of the previous dataset, then new entities
    /// in the order of their hashes.
    Ranks { known: Ranges, new: Ranges },
}

/// Consecutive numbers, divided into one range per partition.
struct Ranges {
    counts: Vec<u32>,
    starts: Vec<u32>,
}

impl Ranges {
    fn new(counts: Vec<u32>) -> Self {
        let starts = sums_before(counts.iter().copied()).collect();
        Self { counts, starts }
    }

    fn total(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// Returns the partition of a number and its position there.
    fn find(&self, number: u32) -> (u32, u32) {
        let partition = self.starts.partition_point(|&start| start <= number) - 1;
        (partition as u32, number - self.starts[partition])
    }
}

impl Assignment {
    /// Assigns the names of the entity type with this index.
    pub(super) fn new(job: &ImportJob<'_>, index: usize) -> Result<Self, ImportError> {
        let TypeNames {
            entity_type,
            interner,
            known,
            known_counts,
        } = &job.types.names[index];
        let (least, seed) = (job.options.entity_min_count, job.options.seed);
        place(interner, known, known_counts, least, seed, entity_type)
    }

    /// Assigns `new` entities of type `purpose`, already numbered by their hashes, to offsets after the known ones.
    pub(super) fn ranked(
        known_counts: &[u32],
        new: u64,
        purpose: &str,
    ) -> Result<Self, ImportError> {
        let known = known_counts.iter().map(|&n| u64::from(n)).sum::<u64>();
        as_number(known + new, purpose)?;
        let added = distribute(known_counts, new);
        let both = known_counts.iter().zip(&added);
        let counts = both.map(|(old, new)| old + new).collect();
        Ok(Self {
            all: Ranges::new(counts),
            numbers: IdKind::Ranks {
                known: Ranges::new(known_counts.to_vec()),
                new: Ranges::new(added),
            },
        })
    }

    /// Returns partition and offset of a name; ([`DROPPED`], [`DROPPED`]) if it was dropped.
    pub(super) fn find(&self, id: u32) -> (u32, u32) {
        match &self.numbers {
            _ if id == DROPPED => (DROPPED, DROPPED),
            IdKind::Provisional { globals, .. } => match globals.get(id) {
                DROPPED => (DROPPED, DROPPED),
                global => self.all.find(global),
            },
            IdKind::Ranks { known, new } => match id.checked_sub(known.total()) {
                None => known.find(id),
                Some(rank) => {
                    let (partition, before) = new.find(rank);
                    (partition, known.counts[partition as usize] + before)
                }
            },
        }
    }

    /// Returns the global number of a name; [`DROPPED`] if it was dropped.
    pub(super) fn global(&self, id: u32) -> u32 {
        match self.find(id) {
            (DROPPED, _) => DROPPED,
            (partition, offset) => self.all.starts[partition as usize] + offset,
        }
    }

    /// Returns the names in memory in global order.
    pub(super) fn order(&self) -> &[u32] {
        match &self.numbers {
            IdKind::Provisional { order, .. } => order,
            IdKind::Ranks { .. } => &[],
        }
    }

    /// Returns the number of new entities per partition, for names on disk.
    pub(super) fn added(&self) -> &[u32] {
        match &self.numbers {
            IdKind::Provisional { .. } => &[],
            IdKind::Ranks { new, .. } => &new.counts,
        }
    }

    /// Returns the number of entities per partition.
    pub(super) fn counts(&self) -> &[u32] {
        &self.all.counts
    }

    /// Returns the number of entities.
    pub(super) fn total(&self) -> u64 {
        self.counts().iter().map(|&count| u64::from(count)).sum()
    }
}

/// Returns the sum of the values before each value.
pub(super) fn sums_before<T: Copy + Default + AddAssign>(
    values: impl Iterator<Item = T>,
) -> impl Iterator<Item = T> {
    values.scan(T::default(), |sum, value| {
        let before = *sum;
        *sum += value;
        Some(before)
    })
}

/// Returns the seed of the hashes that shuffle the entities of a type.
pub(super) fn shuffling_seed(seed: u64, entity_type: &str) -> u64 {
    seed::of_text(seed, StreamPurpose::Assign, entity_type.as_bytes())
}

/// Returns the hash that determines the partition and offset of a new entity, given the seed of its type.
pub(super) fn shuffling_hash(seed: u64, name: &[u8]) -> u64 {
    seed::of_text(seed, StreamPurpose::Assign, name)
}

/// Converts the number of an entity of type `purpose` to 32 bits, or returns an error.
pub(super) fn as_number(number: u64, purpose: &str) -> Result<u32, ImportError> {
    let number32 = u32::try_from(number).ok().filter(|&n| n != DROPPED);
    number32.ok_or_else(|| {
        ImportError::TooMany(format!(
            "there are {number} entities of type `{purpose}`, more than 32-bit ids can number"
        ))
    })
}

/// Assigns names: the `known` ones (in global order, `known_counts` per partition) keep their partitions and offsets,
/// and the others with at least `min_count` occurrences follow them.
pub(super) fn place(
    names: &Interner,
    known: &[u32],
    known_counts: &[u32],
    min_count: u32,
    seed: u64,
    purpose: &str,
) -> Result<Assignment, ImportError> {
    let mut globals = names.map(DROPPED);
    for &id in known {
        globals.set(id, 0);
    }
    let new = shuffled(names, &globals, min_count, seed, purpose);
    let total = known.len() + new.len();
    as_number(total as u64, purpose)?;
    let added = distribute(known_counts, new.len() as u64);
    let mut order = Vec::with_capacity(total);
    let (mut known, mut new) = (known.iter(), new.iter());
    let mut counts = Vec::with_capacity(known_counts.len());
    for (&old, &add) in known_counts.iter().zip(&added) {
        order.extend(known.by_ref().take(old as usize));
        order.extend(new.by_ref().take(add as usize));
        counts.push(old + add);
    }
    for (global, &id) in order.iter().enumerate() {
        globals.set(id, global as u32);
    }
    Ok(Assignment {
        all: Ranges::new(counts),
        numbers: IdKind::Provisional { order, globals },
    })
}

/// Returns the names that are not known and frequent enough, sorted by hash, then by name.
fn shuffled(
    names: &Interner,
    known: &NameMap,
    min_count: u32,
    seed: u64,
    purpose: &str,
) -> Vec<u32> {
    let seed = shuffling_seed(seed, purpose);
    let names = names.read();
    // A name without an occurrence was only looked up.
    let is_new = |id, count| known.get(id) == DROPPED && count >= min_count.max(1);
    let new = names.iter().filter(|&(id, _, count)| is_new(id, count));
    let new = new.map(|(id, name, _)| (shuffling_hash(seed, name), id));
    let mut new: Vec<_> = new.collect();
    new.sort_unstable();
    // Equal hashes are adjacent; only among them does the name decide.
    for equal in new.chunk_by_mut(|a, b| a.0 == b.0) {
        equal.sort_unstable_by_key(|&(_, id)| names.name(id));
    }
    new.into_iter().map(|(_, id)| id).collect()
}

/// Returns how many of `new` entities each partition gets, so that the sizes become as equal as possible. If all
/// partitions are empty, partition p starts at ceil(p * new / partitions).
fn distribute(old: &[u32], new: u64) -> Vec<u32> {
    let partitions = old.len() as u64;
    if old.iter().all(|&count| count == 0) {
        let start = |p: u64| (p * new).div_ceil(partitions);
        let counts = (0..partitions).map(|p| (start(p + 1) - start(p)) as u32);
        return counts.collect();
    }
    // Highest level to which all smaller partitions can be filled.
    let needed = |level: u64| -> u64 {
        let missing = old.iter().map(|&n| level.saturating_sub(u64::from(n)));
        missing.sum()
    };
    let largest = old.iter().copied().max().unwrap_or(0);
    let (mut low, mut high) = (0, u64::from(largest) + new + 1);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if needed(middle) <= new {
            low = middle
        } else {
            high = middle
        }
    }
    let mut left = new - needed(low);
    let fill = |&count: &u32| {
        let count = u64::from(count);
        let mut add = low.saturating_sub(count);
        if count <= low && left > 0 {
            add += 1;
            left -= 1;
        }
        add as u32
    };
    old.iter().map(fill).collect()
}

impl ImportJob<'_> {
    /// Returns the seeds of the hashes that shuffle entities, by type.
    pub(super) fn shuffling_seeds(&self) -> Vec<u64> {
        let seed = |entity_type: &str| shuffling_seed(self.options.seed, entity_type);
        let types = self.types.names.iter();
        types.map(|names| seed(&names.entity_type)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_over_four() {
        assert_eq!(distribute(&[0; 4], 10), [3, 2, 3, 2]);
    }

    proptest! {
        #[test]
        fn everything_is_dealt_and_levelled(old in prop::collection::vec(0_u32..50, 1..9), new in 0_u64..200) {
            let added = distribute(&old, new);
            prop_assert_eq!(added.iter().map(|&n| u64::from(n)).sum::<u64>(), new);
            let sizes: Vec<u32> = old.iter().zip(&added).map(|(a, b)| a + b).collect();
            let smallest = sizes.iter().min().unwrap();
            // No partition got an entity while another would still have been smaller.
            for (size, add) in sizes.iter().zip(&added) {
                prop_assert!(*add == 0 || size - smallest <= 1);
            }
        }
    }
}
