//! Second step: numbers the names of each shard.

use std::collections::BTreeMap;
use std::hash::BuildHasher;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use foldhash::fast::FixedState;

use super::super::ImportError;
use super::super::assign::{self, DROPPED};
use super::super::intern::{GROUP, Shard as Names};
use super::super::job::ImportJob;
use super::names::{self, BUFFER, NameFile};
use super::shard::{counted_path, known_path, names_path, new_path, numbers_path};
use pbg_files::{self as files, ChecksummedFile};

/// Counts of the names of one type, in one shard or in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct ShardCounts {
    /// Number of new entities.
    pub(in super::super) new: u64,
    /// Number of names with too few edges.
    pub(in super::super) dropped: u64,
    /// Number of known entities without an edge.
    pub(in super::super) absent: u64,
    /// Byte range of the new names in the shard's file of new names.
    pub(super) listed: Range<u64>,
}

/// Result of numbering, by shard and type.
pub(in super::super) struct Numbering {
    pub(super) shards: Vec<Vec<ShardCounts>>,
}

impl Numbering {
    /// Returns the counts of all names of the type with this index.
    pub(in super::super) fn total(&self, of_type: usize) -> ShardCounts {
        let mut total = ShardCounts::default();
        for shard in &self.shards {
            total.new += shard[of_type].new;
            total.dropped += shard[of_type].dropped;
            total.absent += shard[of_type].absent;
        }
        total
    }

    /// Returns, for each shard, the number of new entities of the type with this index in the preceding shards.
    pub(super) fn before(&self, of_type: usize) -> impl Iterator<Item = u64> + '_ {
        assign::sums_before(self.shards.iter().map(move |shard| shard[of_type].new))
    }
}

/// Numbers the names of all shards; shard s has `bytes[s]` bytes. `progress` is called on this thread with the number
/// of bytes processed, and an error that it returns ends the work.
pub(super) fn number(
    job: &ImportJob<'_>,
    bytes: &[u64],
    progress: &mut dyn FnMut(u64) -> Result<(), ImportError>,
) -> Result<Numbering, ImportError> {
    let next = AtomicUsize::new(0);
    let work = |done: Sender<(usize, Result<Vec<ShardCounts>, ImportError>)>| {
        let worker = ShardWorker::new(job);
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= job.shards || done.send((shard, worker.number(shard))).is_err() {
                return;
            }
        }
    };
    let mut shards = BTreeMap::new();
    std::thread::scope(|scope| {
        let (done_in, done_out) = channel();
        for _ in 0..job.memory.reading_threads() {
            let done = done_in.clone();
            scope.spawn(|| work(done));
        }
        drop(done_in);
        let mut numbered = 0;
        // Returning early drops the receiver, so each thread ends after its current shard.
        for (shard, result) in done_out {
            shards.insert(shard, result?);
            numbered += bytes[shard];
            progress(numbered)?;
        }
        Ok::<_, ImportError>(())
    })?;
    Ok(Numbering {
        shards: shards.into_values().collect(),
    })
}

/// Replaces each number of the file `counted` by its value in `numbers`, and writes the result to `to`.
fn translate(counted: &Path, numbers: &[u32], to: &Path) -> Result<(), ImportError> {
    let size = files::size(counted)?;
    let file = files::open(counted)?;
    let mut numbered = ChecksummedFile::with_buffer(to, BUFFER)?;
    let mut bytes = vec![0; BUFFER];
    let mut at = 0;
    while at < size {
        let some = &mut bytes[..(size - at).min(BUFFER as u64) as usize];
        files::read_exact_at(&file, counted, some, at)?;
        for number in some.as_chunks_mut::<4>().0 {
            let local = u32::from_le_bytes(*number);
            *number = numbers[local as usize].to_le_bytes();
        }
        numbered.put(some)?;
        at += some.len() as u64;
    }
    numbered.finish(false)?;
    Ok(())
}

/// Worker that numbers shards, on one thread.
struct ShardWorker<'a> {
    job: &'a ImportJob<'a>,
    hasher: FixedState,
    /// Seeds of the hashes that shuffle entities, by type.
    seeds: Vec<u64>,
    /// Memory limit in bytes for the names of a shard.
    limit: Option<u64>,
}

/// Keys of a shard (type and name), the known ones first.
#[derive(Default)]
struct NumberedShard {
    names: Names,
    /// Global numbers of the known names.
    known: Vec<u32>,
}

impl<'a> ShardWorker<'a> {
    fn new(job: &'a ImportJob<'a>) -> Self {
        // The result does not depend on the slot of a name, so the seed may be random, which protects against crafted
        // input.
        let seed = std::hash::RandomState::new().hash_one(0);
        Self {
            job,
            hasher: FixedState::with_seed(seed),
            seeds: job.shuffling_seeds(),
            limit: job.memory.shard_bytes(),
        }
    }

    fn number(&self, index: usize) -> Result<Vec<ShardCounts>, ImportError> {
        let folder = self.job.folder;
        let mut shard = self.known(&known_path(folder, index))?;
        let read = names_path(folder, index);
        let counted = counted_path(folder, index);
        self.count(&read, &mut shard, &counted)?;
        files::remove(&read)?;
        let (numbers, counts) = self.place(&shard, &new_path(folder, index))?;
        translate(&counted, &numbers, &numbers_path(folder, index))?;
        files::remove(&counted)?;
        Ok(counts)
    }

    /// Counts the names of the file `read`, and writes each occurrence's number within the shard to the file `counted`.
    fn count(
        &self,
        read: &Path,
        shard: &mut NumberedShard,
        counted: &Path,
    ) -> Result<(), ImportError> {
        let mut file = NameFile::open(read)?;
        let mut counted = ChecksummedFile::with_buffer(counted, BUFFER)?;
        let mut keys = Vec::with_capacity(GROUP);
        loop {
            let buffer = file.next_some(GROUP, &mut keys)?;
            if keys.is_empty() {
                counted.finish(false)?;
                return Ok(());
            }
            let mut hashes = [0; GROUP];
            for (hash, key) in hashes.iter_mut().zip(&keys) {
                *hash = self.hasher.hash_one(&buffer[key.clone()]);
            }
            let names = keys.iter().map(|key| &buffer[key.clone()]).zip(hashes);
            let mut locals = [0; GROUP];
            shard.names.count_some(names, &mut locals[..keys.len()])?;
            for local in &locals[..keys.len()] {
                counted.put(&local.to_le_bytes())?;
            }
            self.check(shard)?;
        }
    }

    /// Reads the entities of the earlier dataset that belong to this shard.
    fn known(&self, path: &Path) -> Result<NumberedShard, ImportError> {
        let mut shard = NumberedShard::default();
        if self.job.old.is_none() {
            return Ok(shard);
        }
        let mut file = NameFile::open(path)?;
        while let Some((name, global)) = file.next_with_number()? {
            shard.names.intern(name, self.hasher.hash_one(name))?;
            shard.known.push(global);
            self.check(&shard)?;
        }
        files::remove(path)?;
        Ok(shard)
    }

    fn check(&self, shard: &NumberedShard) -> Result<(), ImportError> {
        match self.limit {
            Some(limit) if shard.names.size().0 > limit => Err(ImportError::Memory(format!(
                "one of the {} shards of names takes more than {} MiB",
                self.job.shards,
                limit >> 20
            ))),
            _ => Ok(()),
        }
    }

    /// Computes the number of each name. Known entities have their global numbers; new ones follow all known ones of
    /// the type, in the order of the shuffling hash. Writes the new names in this order to the file at `path`.
    fn place(
        &self,
        shard: &NumberedShard,
        path: &Path,
    ) -> Result<(Vec<u32>, Vec<ShardCounts>), ImportError> {
        let types = &self.job.types.names;
        let least = self.job.options.entity_min_count.max(1);
        let mut counts = vec![ShardCounts::default(); types.len()];
        let mut numbers = shard.known.clone();
        numbers.resize(shard.names.len(), DROPPED);
        let mut new = Vec::new();
        for local in 0..shard.names.len() as u32 {
            let (of_type, name) = names::split(shard.names.name(local));
            let count = shard.names.count(local);
            if (local as usize) < shard.known.len() {
                counts[of_type].absent += u64::from(count == 0);
            } else if count < least {
                counts[of_type].dropped += 1;
            } else {
                let hash = assign::shuffling_hash(self.seeds[of_type], name);
                new.push((of_type, hash, local));
            }
        }
        // Among equal hashes, the names decide.
        new.sort_unstable_by(|a, b| {
            let name = |local| shard.names.name(local);
            let hashes = (a.0, a.1).cmp(&(b.0, b.1));
            hashes.then_with(|| name(a.2).cmp(name(b.2)))
        });
        let mut file = ChecksummedFile::with_buffer(path, BUFFER)?;
        for (of_type, _, local) in new {
            let found = &mut counts[of_type];
            let number = types[of_type].known_total() + found.new;
            numbers[local as usize] = assign::as_number(number, &types[of_type].entity_type)?;
            if found.new == 0 {
                found.listed.start = file.position();
            }
            names::put(&mut file, shard.names.name(local))?;
            found.listed.end = file.position();
            found.new += 1;
        }
        file.finish(false)?;
        Ok((numbers, counts))
    }
}
