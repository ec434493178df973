//! Places: which partition and offset every entity gets.
//!
//! New entities are shuffled by a hash of seed and name, so that the result depends on nothing
//! else, and dealt to the partitions in contiguous ranges; known ones stay where they are.

use pbg_core::seed::{self, Purpose};

use super::intern::{Interner, NameMap};
use super::{ImportError, ImportJob};

/// Left out: what [`Places::find`] gives for names in too few edges.
pub(super) const DROPPED: u32 = u32::MAX;

/// The places of all entities of a type.
pub(super) struct Places {
    /// Provisional ids in global order.
    pub(super) order: Vec<u32>,
    /// Entities per partition.
    pub(super) counts: Vec<u32>,
    /// Global number of the first entity of each partition.
    starts: Vec<u32>,
    /// Global numbers by provisional id.
    globals: NameMap,
}

impl Places {
    /// Places the names of the entity type with this index.
    pub(super) fn new(job: &ImportJob<'_>, index: usize) -> Result<Self, ImportError> {
        let names = &job.types.names[index];
        let min_count = job.options.entity_min_count;
        let seed = job.options.seed;
        let of_type = &names.entity_type;
        place(
            &names.interner,
            &names.known,
            &names.known_counts,
            min_count,
            seed,
            of_type,
        )
    }

    /// Partition and offset of a name; [`DROPPED`] twice if it was left out.
    pub(super) fn find(&self, id: u32) -> (u32, u32) {
        let global = self.globals.get(id);
        if global == DROPPED {
            return (DROPPED, DROPPED);
        }
        let partition = self.starts.partition_point(|&start| start <= global) - 1;
        (partition as u32, global - self.starts[partition])
    }

    /// Global number of a name; [`DROPPED`] if it was left out.
    pub(super) fn global(&self, id: u32) -> u32 {
        self.globals.get(id)
    }
}

/// Places names: those `known` (in global order, `counts` per partition) where they are, the
/// others with at least `min_count` occurrences behind them.
pub(super) fn place(
    names: &Interner,
    known: &[u32],
    known_counts: &[u32],
    min_count: u32,
    seed: u64,
    purpose: &str,
) -> Result<Places, ImportError> {
    let mut globals = names.map(DROPPED);
    for &id in known {
        globals.set(id, 0);
    }
    let new = shuffled(names, &globals, min_count, seed, purpose);
    let total = known.len() + new.len();
    if total >= DROPPED as usize {
        let what =
            format!("there are {total} entities of type `{purpose}`, more than can be numbered");
        return Err(ImportError::TooMany { what });
    }
    let added = deal(known_counts, new.len() as u64);
    let mut order = Vec::with_capacity(total);
    let (mut known, mut new) = (known.iter(), new.iter());
    let mut starts = Vec::with_capacity(known_counts.len());
    let mut counts = Vec::with_capacity(known_counts.len());
    for (&old, &add) in known_counts.iter().zip(&added) {
        starts.push(order.len() as u32);
        order.extend(known.by_ref().take(old as usize));
        order.extend(new.by_ref().take(add as usize));
        counts.push(old + add);
    }
    for (global, &id) in order.iter().enumerate() {
        globals.set(id, global as u32);
    }
    Ok(Places {
        order,
        counts,
        starts,
        globals,
    })
}

/// The names that are not known and frequent enough, by hash, then by name.
fn shuffled(
    names: &Interner,
    known: &NameMap,
    min_count: u32,
    seed: u64,
    purpose: &str,
) -> Vec<u32> {
    let seed = seed::of_text(seed, Purpose::Assign, purpose.as_bytes());
    let names = names.read();
    // A name without an occurrence was only looked for.
    let is_new = |id, count| known.get(id) == DROPPED && count >= min_count.max(1);
    let new = names.iter().filter(|&(id, _, count)| is_new(id, count));
    let mut new: Vec<_> = new
        .map(|(id, name, _)| (seed::of_text(seed, Purpose::Assign, name), id))
        .collect();
    new.sort_unstable();
    // Equal hashes are next to each other; only among them do the names decide.
    for equal in new.chunk_by_mut(|a, b| a.0 == b.0) {
        equal.sort_unstable_by_key(|&(_, id)| names.name(id));
    }
    new.into_iter().map(|(_, id)| id).collect()
}

/// How many of `new` entities each partition gets, so that the sizes become as equal as can be.
/// Without old ones, partition p starts at ceil(p * new / partitions).
fn deal(old: &[u32], new: u64) -> Vec<u32> {
    let partitions = old.len() as u64;
    if old.iter().all(|&count| count == 0) {
        let start = |p: u64| (p * new).div_ceil(partitions);
        return (0..partitions)
            .map(|p| (start(p + 1) - start(p)) as u32)
            .collect();
    }
    // The highest level to which all lower partitions can be filled.
    let needed = |level: u64| -> u64 {
        old.iter()
            .map(|&n| level.saturating_sub(u64::from(n)))
            .sum()
    };
    let (mut low, mut high) = (
        0,
        u64::from(old.iter().copied().max().unwrap_or(0)) + new + 1,
    );
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ten_over_four() {
        assert_eq!(deal(&[0; 4], 10), [3, 2, 3, 2]);
    }

    proptest! {
        #[test]
        fn everything_is_dealt_and_levelled(old in prop::collection::vec(0_u32..50, 1..9), new in 0_u64..200) {
            let added = deal(&old, new);
            prop_assert_eq!(added.iter().map(|&n| u64::from(n)).sum::<u64>(), new);
            let sizes: Vec<u32> = old.iter().zip(&added).map(|(a, b)| a + b).collect();
            let smallest = sizes.iter().min().unwrap();
            // Nobody got one while another would still have been smaller.
            for (size, add) in sizes.iter().zip(&added) {
                prop_assert!(*add == 0 || size - smallest <= 1);
            }
        }
    }
}
