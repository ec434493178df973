//! Third step: replaces the names of edges with their numbers.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;

use super::super::ImportError;
use super::super::assign::DROPPED;
use super::super::job::ImportJob;
use super::super::spill::{Spill, field};
use super::number::Numbering;
use super::shard::{numbers_path, record};
use pbg_files::{self as files, ChecksummedFile, FileError};

/// Readers of the numbers of all shards, each read once from beginning to end.
pub(super) struct NumberReaders {
    shards: Vec<Stream>,
    shifts: Vec<Shift>,
}

struct Stream {
    path: PathBuf,
    reader: BufReader<File>,
}

/// Offset that is added to the numbers of new entities of a type.
struct Shift {
    /// Number of the first new entity of the type in each shard's numbering.
    first: u32,
    /// For each shard, the number of new entities in the preceding shards.
    before: Vec<u32>,
}

impl NumberReaders {
    /// Opens the numbers of all shards.
    pub(super) fn open(job: &ImportJob<'_>, numbered: &Numbering) -> Result<Self, ImportError> {
        let each = job.memory.shard_buffer();
        let open = |shard| {
            let path = numbers_path(job.folder, shard);
            let reader = BufReader::with_capacity(each, files::open(&path)?);
            Ok(Stream { path, reader })
        };
        let shift = |(index, names): (usize, &super::super::types::TypeNames)| Shift {
            first: names.known_total() as u32,
            before: numbered.before(index).map(|n| n as u32).collect(),
        };
        let shards = (0..job.shards).map(open);
        Ok(Self {
            shards: shards.collect::<Result<_, FileError>>()?,
            shifts: job.types.names.iter().enumerate().map(shift).collect(),
        })
    }

    /// Returns the next number of a shard, which belongs to a name of the type with this index.
    fn next(&mut self, shard: u8, of_type: u32) -> Result<u32, FileError> {
        let Stream { path, reader } = &mut self.shards[usize::from(shard)];
        let mut bytes = [0; 4];
        let read = reader.read_exact(&mut bytes);
        read.map_err(|e| FileError::new("read", path, e))?;
        let number = u32::from_le_bytes(bytes);
        let shift = &self.shifts[of_type as usize];
        if number == DROPPED || number < shift.first {
            return Ok(number);
        }
        Ok(number + shift.before[usize::from(shard)])
    }
}

/// Replaces the names of the edges of `unnamed` with their numbers. The sets of an import must be joined in the order
/// in which they were read.
pub(super) fn join(
    job: &ImportJob<'_>,
    unnamed: Spill,
    numbers: &mut NumberReaders,
    progress: &mut dyn FnMut(u64) -> Result<(), ImportError>,
) -> Result<Spill, ImportError> {
    /// Edges per chunk.
    const ROWS: u64 = 1 << 14;
    let sides = job.relations.sides();
    let path = job.folder.join(format!("edges_{}.numbered", unnamed.set));
    let mut file = ChecksummedFile::create(&path)?;
    let size = record(unnamed.has_weight);
    let mut records = Vec::new();
    let mut first = 0;
    while first < unnamed.edges {
        let rows = (unnamed.edges - first).min(ROWS);
        records.resize(rows as usize * size, 0);
        unnamed.read_at(first * size as u64, &mut records)?;
        for record in records.chunks_exact(size) {
            let relation = field(&record[2..], 0);
            let (lhs_type, rhs_type) = sides[relation as usize];
            let lhs = numbers.next(record[0], lhs_type)?;
            let rhs = numbers.next(record[1], rhs_type)?;
            file.put(&lhs.to_le_bytes())?;
            file.put(&relation.to_le_bytes())?;
            file.put(&rhs.to_le_bytes())?;
            file.put(&record[6..])?;
        }
        first += rows;
        progress(first)?;
    }
    file.finish(false)?;
    let (edges, has_weight) = (unnamed.edges, unnamed.has_weight);
    Ok(Spill::open(&path, &unnamed.set, edges, has_weight)?)
}

/// Removes the files of numbers.
pub(super) fn forget_numbers(job: &ImportJob<'_>) -> Result<(), FileError> {
    (0..job.shards).try_for_each(|shard| files::remove(&numbers_path(job.folder, shard)))
}
