//! Names and their provisional numbers, shared by the workers.

use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::ImportError;

const SHARD_BITS: u32 = 6;
/// Enough that a handful of workers rarely wait for each other.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;

/// A set of names; each has a number that tells its shard and its place there.
pub(super) struct Interner {
    shards: Vec<Mutex<Shard>>,
    hasher: FixedState,
}

/// The names of one shard.
#[derive(Default)]
pub(super) struct Shard {
    index: HashTable<u32>,
    bytes: Vec<u8>,
    /// Where each name ends in `bytes`.
    ends: Vec<u32>,
    /// Occurrences of each name.
    counts: Vec<u32>,
}

impl Interner {
    pub(super) fn new() -> Self {
        // Which shard a name is in shows nowhere, so the seed may be one that no input foresees.
        let seed = std::hash::RandomState::new().hash_one(0);
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self { shards, hasher: FixedState::with_seed(seed) }
    }

    pub(super) fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    /// The shard of a name with this hash. The table inside uses the other end of the hash.
    pub(super) fn shard_of(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    pub(super) fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a name, without counting an occurrence.
    pub(super) fn add(&self, name: &[u8]) -> Result<u32, ImportError> {
        let hash = self.hash(name);
        let shard = Self::shard_of(hash);
        let local = self.lock(shard).intern(name, hash, &self.hasher)?;
        Ok(number(shard, local))
    }

    /// The number of a name and one more occurrence of it, with its shard locked.
    pub(super) fn count_in(
        &self,
        locked: &mut Shard,
        shard: usize,
        name: &[u8],
        hash: u64,
    ) -> Result<u32, ImportError> {
        let local = locked.intern(name, hash, &self.hasher)?;
        let count = &mut locked.counts[local as usize];
        *count = count.saturating_add(1);
        Ok(number(shard, local))
    }

    /// The number of a name and one more occurrence of it.
    pub(super) fn count_one(&self, name: &[u8]) -> Result<u32, ImportError> {
        let hash = self.hash(name);
        let shard = Self::shard_of(hash);
        self.count_in(&mut self.lock(shard), shard, name, hash)
    }

    pub(super) fn find(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hash(name);
        let shard = Self::shard_of(hash);
        let locked = self.lock(shard);
        let local = locked.index.find(hash, |&at| locked.name(at) == name)?;
        Some(number(shard, *local))
    }

    pub(super) fn len(&self) -> usize {
        (0..SHARDS).map(|shard| self.lock(shard).ends.len()).sum()
    }

    pub(super) fn name(&self, id: u32) -> String {
        let (shard, local) = parts(id);
        String::from_utf8_lossy(self.lock(shard).name(local)).into_owned()
    }

    pub(super) fn count(&self, id: u32) -> u32 {
        let (shard, local) = parts(id);
        self.lock(shard).counts[local as usize]
    }

    /// Calls `with` for every name: number, bytes, occurrences.
    pub(super) fn for_each(&self, mut with: impl FnMut(u32, &[u8], u32)) {
        for shard in 0..SHARDS {
            let locked = self.lock(shard);
            for (local, &count) in locked.counts.iter().enumerate() {
                let local = local as u32;
                with(number(shard, local), locked.name(local), count);
            }
        }
    }

    /// One zeroed number per name.
    pub(super) fn map(&self, initial: u32) -> NameMap {
        let shard = |shard| vec![initial; self.lock(shard).ends.len()];
        NameMap { shards: (0..SHARDS).map(shard).collect() }
    }
}

impl Shard {
    fn intern(&mut self, name: &[u8], hash: u64, hasher: &FixedState) -> Result<u32, ImportError> {
        let Self { index, bytes, ends, counts } = self;
        let entry = index.entry(
            hash,
            |&at| slice(bytes, ends, at) == name,
            |&at| hasher.hash_one(slice(bytes, ends, at)),
        );
        match entry {
            Entry::Occupied(found) => Ok(*found.get()),
            Entry::Vacant(vacant) => {
                let local = ends.len() as u32;
                let end = u32::try_from(bytes.len() + name.len());
                let (Ok(end), true) = (end, local < u32::MAX >> SHARD_BITS) else {
                    let what = "there are more entity names than can be numbered".to_owned();
                    return Err(ImportError::TooMany { what });
                };
                vacant.insert(local);
                bytes.extend_from_slice(name);
                ends.push(end);
                counts.push(0);
                Ok(local)
            }
        }
    }

    fn name(&self, local: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, local)
    }
}

fn slice<'b>(bytes: &'b [u8], ends: &[u32], at: u32) -> &'b [u8] {
    let at = at as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] };
    &bytes[start as usize..ends[at] as usize]
}

fn number(shard: usize, local: u32) -> u32 {
    local << SHARD_BITS | shard as u32
}

fn parts(id: u32) -> (usize, u32) {
    (id as usize % SHARDS, id >> SHARD_BITS)
}

/// A number for every name.
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
