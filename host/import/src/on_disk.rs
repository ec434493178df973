//! Numbering of names that do not fit in memory, shard by shard, with the names in files.
//!
//! 1. While edges are read, the names of both sides are appended to one of up to [`MOST`] files, chosen by the upper
//!    bits of the hash that shuffles entities ([`scatter`], [`Shards`]). The spilled edge keeps only the two shard
//!    numbers, the relation and the weight.
//! 2. Each shard by itself fits in memory. Its names are counted and sorted by that hash, and a file with one number
//!    per occurrence is written ([`number`]). Shards are ranges of the hash, so their concatenation has the order of an
//!    import in memory.
//! 3. Each edge takes the next number from the files of its two shards ([`join`]). Occurrences are in the order of the
//!    edges, so nothing has to be sorted.
//!
//! The dataset is byte for byte the same as with names in memory.

mod dictionary;
mod divided_names;
mod join;
mod names;
mod number;
mod scatter;
mod shard;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

pub(super) use dictionary::write_dictionary;
pub(super) use divided_names::DividedNames;
pub(super) use number::Numbering;
pub(super) use scatter::ShardDivider;
pub(super) use shard::{MOST, shards};
use shard::{folder, known_path, names_path, shard_of};

use super::job::ImportJob;
use super::progress::report_progress;
use super::report::SkippedLines;
use super::spill::Spill;
use super::{ImportError, ImportProgress, assign};
use pbg_dataset::Dataset;
use pbg_files::{self as files, ChecksummedFile};

/// Files of the names that were read, by shard, in the order of the edges.
pub(super) struct Shards {
    files: Vec<ChecksummedFile>,
}

impl Shards {
    pub(super) fn create(job: &ImportJob<'_>) -> Result<Self, ImportError> {
        let files = create(job, names_path)?;
        Ok(Self { files })
    }

    /// Appends the names of a block.
    pub(super) fn put(&mut self, block: &DividedNames) -> Result<(), ImportError> {
        let mut start = 0;
        for (file, &end) in self.files.iter_mut().zip(&block.ends) {
            file.put(&block.names[start..end as usize])?;
            start = end as usize;
        }
        Ok(())
    }

    /// Completes the files. Returns their sizes in bytes by shard.
    pub(super) fn finish(self) -> Result<Vec<u64>, ImportError> {
        let finish = |file: ChecksummedFile| Ok(file.finish(false)?.size);
        self.files.into_iter().map(finish).collect()
    }
}

/// Distributes the entities of an earlier dataset over the shards, each with its global number.
pub(super) fn scatter_known(job: &ImportJob<'_>, old: &Dataset) -> Result<(), ImportError> {
    let mut files = create(job, known_path)?;
    let seeds = job.shuffling_seeds();
    for (index, names) in job.types.names.iter().enumerate() {
        let entity_type = &names.entity_type;
        if !old.manifest().entities.contains_key(entity_type) {
            continue;
        }
        let (mut global, mut result) = (0_u32, Ok(()));
        old.visit_entities(entity_type, &mut |_, name| {
            let name = name.as_bytes();
            let hash = assign::shuffling_hash(seeds[index], name);
            let file = &mut files[shard_of(hash, job.shards)];
            let head = names::head(index, name.len());
            let parts: [&[u8]; 3] = [&head, name, &global.to_le_bytes()];
            if result.is_ok() {
                result = parts.into_iter().try_for_each(|part| file.put(part));
            }
            global += 1;
        })?;
        result?;
    }
    for file in files {
        file.finish(false)?;
    }
    Ok(())
}

/// Numbers the names in `shards`, and replaces the names of the edges that were read with these numbers.
pub(super) fn number_all(
    job: &ImportJob<'_>,
    unnamed: Vec<(Spill, SkippedLines)>,
    shards: Shards,
    progress: &mut dyn FnMut(ImportProgress) -> ControlFlow<()>,
) -> Result<(Vec<(Spill, SkippedLines)>, Numbering), ImportError> {
    let sizes = shards.finish()?;
    let total_bytes = sizes.iter().sum();
    let numbered = number::number(job, &sizes, &mut |bytes| {
        report_progress(progress, ImportProgress::Numbering { bytes, total_bytes })
    })?;
    let mut numbers = join::NumberReaders::open(job, &numbered)?;
    let mut spills = Vec::with_capacity(unnamed.len());
    for (edges, skipped) in unnamed {
        let (set, total_edges) = (edges.set.clone(), edges.edges);
        let joined = join::join(job, edges, &mut numbers, &mut |edges| {
            let event = ImportProgress::Joining {
                set: set.clone(),
                edges,
                total_edges,
            };
            report_progress(progress, event)
        })?;
        spills.push((joined, skipped));
    }
    join::forget_numbers(job)?;
    Ok((spills, numbered))
}

/// Removes the remaining files after all dictionaries are written.
pub(super) fn forget(job: &ImportJob<'_>) -> Result<(), ImportError> {
    Ok(files::remove_folder(&folder(job.folder))?)
}

/// Creates a file for each shard.
fn create(
    job: &ImportJob<'_>,
    path: fn(&Path, usize) -> PathBuf,
) -> Result<Vec<ChecksummedFile>, ImportError> {
    files::create_folder(&folder(job.folder))?;
    let buffer = job.memory.shard_buffer();
    let paths = (0..job.shards).map(|shard| path(job.folder, shard));
    let files = paths.map(|path| Ok(ChecksummedFile::with_buffer(&path, buffer)?));
    files.collect()
}
