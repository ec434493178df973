//! Interner of names: provisional numbers for names, shared by the workers.

use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;

use super::ImportError;
use super::name_index::NameIndex;

const SHARD_BITS: u32 = 6;
/// Number of shards: enough that a few workers rarely wait for each other.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;

/// Maximum number of names that are looked up together.
pub(super) const GROUP: usize = 32;

/// Set of names. The number of a name encodes its shard and its position there.
pub(super) struct Interner {
    shards: Vec<Mutex<Shard>>,
    hasher: FixedState,
}

/// Names of one shard, numbered in the order in which they are added.
#[derive(Default)]
pub(super) struct Shard {
    index: NameIndex,
    bytes: Vec<u8>,
    /// End of each name in `bytes`.
    ends: Vec<u32>,
    /// Number of occurrences of each name.
    counts: Vec<u32>,
}

impl Interner {
    pub(super) fn new() -> Self {
        // The result does not depend on the shard of a name, so the seed may be random, which protects against crafted
        // input.
        let seed = std::hash::RandomState::new().hash_one(0);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            shards,
            hasher: FixedState::with_seed(seed),
        }
    }

    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// Returns the shard of a name with this hash. The table in the shard uses the lower half of the hash.
    pub(super) fn shard_of(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of a name, adding the name if it is new, without counting an occurrence.
    pub(super) fn add(&self, name: &[u8]) -> Result<u32, ImportError> {
        let hash = self.hash(name);
        let shard = Self::shard_of(hash);
        Ok(number(shard, self.lock(shard).intern(name, hash)?))
    }

    /// Returns the number of a name, and counts an occurrence.
    pub(super) fn count_one(&self, name: &[u8]) -> Result<u32, ImportError> {
        let (hash, mut id) = (self.hash(name), [0]);
        self.count_all(Self::shard_of(hash), &[0], &[hash], |_| name, &mut id)?;
        Ok(id[0])
    }

    /// Determines the numbers of the names of `members`, all in one shard, and counts an occurrence of each. `hashes`,
    /// `name_of` and `ids` are indexed by member.
    pub(super) fn count_all<'n>(
        &self,
        shard: usize,
        members: &[u32],
        hashes: &[u64],
        name_of: impl Fn(u32) -> &'n [u8],
        ids: &mut [u32],
    ) -> Result<(), ImportError> {
        let mut locked = self.lock(shard);
        for group in members.chunks(GROUP) {
            let names = group
                .iter()
                .map(|&member| (name_of(member), hashes[member as usize]));
            let mut locals = [0; GROUP];
            locked.count_some(names, &mut locals[..group.len()])?;
            for (&member, local) in group.iter().zip(locals) {
                ids[member as usize] = number(shard, local);
            }
        }
        Ok(())
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hash(name);
        let shard = Self::shard_of(hash);
        Some(number(shard, self.lock(shard).find(name, hash)?))
    }

    pub(super) fn len(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).ends.len()).sum()
    }

    /// Returns the memory in bytes that the names take, and the number of names.
    pub(super) fn size(&self) -> (u64, u64) {
        let sizes = (0..SHARDS).map(|shard| self.lock(shard).size());
        sizes.fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1))
    }

    /// Locks all shards for reading names.
    pub(super) fn read(&self) -> NameReader<'_> {
        NameReader {
            shards: (0..SHARDS).map(|shard| self.lock(shard)).collect(),
        }
    }

    /// Returns a map with one number per name, all `initial`.
    pub(super) fn map(&self, initial: u32) -> NameMap {
        let shard = |shard| vec![initial; self.lock(shard).ends.len()];
        NameMap {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }
}

impl Shard {
    /// Returns the number of a name with this hash, adding the name if it is new, without counting an occurrence.
    pub(super) fn intern(&mut self, name: &[u8], hash: u64) -> Result<u32, ImportError> {
        let Self {
            index,
            bytes,
            ends,
            counts,
        } = self;
        let short = hash as u32;
        let is_it = |local| &bytes[bounds(ends, local)] == name;
        if let Some(local) = index.find(short, is_it) {
            return Ok(local);
        }
        let local = ends.len() as u32;
        let end = u32::try_from(bytes.len() + name.len());
        let (Ok(end), true) = (end, local < u32::MAX >> SHARD_BITS) else {
            let what = "there are more entity names than can be numbered".to_owned();
            return Err(ImportError::TooMany(what));
        };
        index.insert(short, local);
        bytes.extend_from_slice(name);
        ends.push(end);
        counts.push(0);
        Ok(local)
    }

    /// Determines the numbers of at most [`GROUP`] names with their hashes, and counts an occurrence of each.
    pub(super) fn count_some<'n>(
        &mut self,
        names: impl Iterator<Item = (&'n [u8], u64)> + Clone,
        locals: &mut [u32],
    ) -> Result<(), ImportError> {
        // The steps are separate loops so that the cache misses of several names overlap.
        let (mut found, mut ranges) = ([None; GROUP], [(0, 0); GROUP]);
        let mut homes = [0; GROUP];
        for (home, (_, hash)) in homes.iter_mut().zip(names.clone()) {
            *home = self.index.home(hash as u32);
        }
        for ((found, home), (_, hash)) in found.iter_mut().zip(homes).zip(names.clone()) {
            // With few exceptions, the only name with this hash.
            *found = self.index.first(hash as u32, home);
        }
        for (range, found) in ranges.iter_mut().zip(found) {
            *range = found.map_or((0, 0), |local| self.range(local));
        }
        let found = found.into_iter().zip(ranges);
        for ((local, (name, hash)), (found, (start, end))) in
            locals.iter_mut().zip(names).zip(found)
        {
            *local = match found {
                Some(found) if &self.bytes[start..end] == name => found,
                _ => self.intern(name, hash)?,
            };
            let count = &mut self.counts[*local as usize];
            *count = count.saturating_add(1);
        }
        Ok(())
    }

    /// Returns the number of names.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the number of occurrences of a name.
    pub(super) fn count(&self, local: u32) -> u32 {
        self.counts[local as usize]
    }

    /// Returns the memory in bytes that the names take, and the number of names.
    pub(super) fn size(&self) -> (u64, u64) {
        let numbers = self.ends.capacity() + self.counts.capacity();
        let bytes = self.index.bytes() + self.bytes.capacity() + 4 * numbers;
        (bytes as u64, self.ends.len() as u64)
    }

    fn find(&self, name: &[u8], hash: u64) -> Option<u32> {
        self.index
            .find(hash as u32, |local| self.name(local) == name)
    }

    fn range(&self, local: u32) -> (usize, usize) {
        let Range { start, end } = bounds(&self.ends, local);
        (start, end)
    }

    /// Returns the name with this number.
    pub(super) fn name(&self, local: u32) -> &[u8] {
        &self.bytes[bounds(&self.ends, local)]
    }
}

fn bounds(ends: &[u32], at: u32) -> Range<usize> {
    let at = at as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] };
    start as usize..ends[at] as usize
}

/// Access to all names, with every shard locked.
pub(super) struct NameReader<'a> {
    shards: Vec<MutexGuard<'a, Shard>>,
}

impl NameReader<'_> {
    /// Returns the name with a number.
    pub(super) fn name(&self, id: u32) -> &str {
        let (shard, local) = parts(id);
        // Only UTF-8 text is interned.
        std::str::from_utf8(self.shards[shard].name(local)).unwrap_or_default()
    }

    /// Returns the number of its occurrences.
    pub(super) fn count(&self, id: u32) -> u32 {
        let (shard, local) = parts(id);
        self.shards[shard].counts[local as usize]
    }

    /// Iterates over numbers, names and occurrences of all names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &[u8], u32)> {
        self.shards.iter().enumerate().flat_map(|(shard, names)| {
            let one = move |(local, &count): (usize, &u32)| {
                let local = local as u32;
                (number(shard, local), names.name(local), count)
            };
            names.counts.iter().enumerate().map(one)
        })
    }
}

fn number(shard: usize, local: u32) -> u32 {
    local << SHARD_BITS | shard as u32
}

fn parts(id: u32) -> (usize, u32) {
    (id as usize % SHARDS, id >> SHARD_BITS)
}

/// Map from names to numbers.
pub(super) struct NameMap {
    shards: Vec<Vec<u32>>,
}

impl NameMap {
    pub(super) fn get(&self, id: u32) -> u32 {
        let (shard, local) = parts(id);
        self.shards[shard][local as usize]
    }

    pub(super) fn set(&mut self, id: u32, value: u32) {
        let (shard, local) = parts(id);
        self.shards[shard][local as usize] = value;
    }
}
