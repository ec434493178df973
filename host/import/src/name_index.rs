//! Hash table from the hashes of names to their numbers.
//!
//! A slot has the hash and the number in 8 bytes, so a look-up reads one cache line, and the first read of a look-up can be
//! made long before its result is needed. The names themselves are elsewhere.

/// Slots in use of 8, at most.
const LOAD: usize = 5;

/// Number of names by their 32-bit hash. Several names may have the same hash.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    /// A power of two of slots, or none: the hash in the upper half, the number plus 1 in the lower; 0 is a free slot. A
    /// name is in the first free slot from its home on.
    slots: Vec<u64>,
    names: usize,
}

impl NameIndex {
    /// Returns what is in the home of a hash; for [`NameIndex::first`]. It does not depend on earlier look-ups, so the
    /// cache misses of several calls overlap.
    pub(super) fn home(&self, hash: u32) -> u64 {
        match self.slots.is_empty() {
            true => 0,
            false => self.slots[self.place(hash)],
        }
    }

    /// Returns the first number with this hash, whose home has the content `home`.
    pub(super) fn first(&self, hash: u32, home: u64) -> Option<u32> {
        match home {
            0 => None,
            slot if hash_of(slot) == hash => Some(number_of(slot)),
            _ => self.find(hash, |_| true),
        }
    }

    /// Returns the first number with this hash for which `is_it` returns `true`.
    pub(super) fn find(&self, hash: u32, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = self.place(hash);
        // There is always a free slot.
        loop {
            match self.slots[at] {
                0 => return None,
                slot if hash_of(slot) == hash && is_it(number_of(slot)) => {
                    return Some(number_of(slot));
                }
                _ => at = (at + 1) & (self.slots.len() - 1),
            }
        }
    }

    /// Adds a number, less than `u32::MAX`, that is not there yet.
    pub(super) fn insert(&mut self, hash: u32, number: u32) {
        if 8 * (self.names + 1) > LOAD * self.slots.len() {
            self.grow();
        }
        self.names += 1;
        self.put(u64::from(hash) << 32 | u64::from(number + 1));
    }

    /// Returns the bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.slots.as_slice())
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(8);
        let before = std::mem::replace(&mut self.slots, vec![0; slots]);
        before
            .into_iter()
            .filter(|&slot| slot != 0)
            .for_each(|slot| self.put(slot));
    }

    fn put(&mut self, slot: u64) {
        let mut at = self.place(hash_of(slot));
        while self.slots[at] != 0 {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = slot;
    }

    /// Returns the home of a hash. The upper bits of the product depend on all bits of the hash.
    fn place(&self, hash: u32) -> usize {
        let spread = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (spread >> 32) as usize & (self.slots.len() - 1)
    }
}

fn hash_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn number_of(slot: u64) -> u32 {
    slot as u32 - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Hashes of a few values collide, and each number is found all the same.
        #[test]
        fn every_number_is_found_by_its_hash(hashes in prop::collection::vec(0_u32..40, 0..200)) {
            let mut index = NameIndex::default();
            for (number, &hash) in (0..).zip(&hashes) {
                prop_assert_eq!(index.find(hash, |found| found == number), None);
                index.insert(hash, number);
            }
            for (number, &hash) in (0..).zip(&hashes) {
                prop_assert_eq!(index.find(hash, |found| found == number), Some(number));
                let first = index.first(hash, index.home(hash));
                prop_assert!(hashes[first.unwrap() as usize] == hash);
            }
            prop_assert_eq!(index.first(41, index.home(41)), None);
        }
    }
}
