//! Writing of dictionaries: known names from the previous dataset, new names in the order of their numbers.

use std::path::Path;

use super::super::ImportError;
use super::super::assign::Assignment;
use super::super::job::ImportJob;
use super::names::{self, NameFile};
use super::number::Numbering;
use super::shard::new_path;
use pbg_dataset::write::DictionaryFile;
use pbg_files::{FileError, FileSummary};

/// Writes the dictionary of the type with this index: for each partition its known entities, then its new ones. Returns
/// its summary, and the checksum of the names of each partition.
pub(in super::super) fn write_dictionary(
    job: &ImportJob<'_>,
    index: usize,
    places: &Assignment,
    numbered: &Numbering,
    path: &Path,
) -> Result<(FileSummary, Vec<u32>), ImportError> {
    let mut file = DictionaryFile::create(path, places.counts())?;
    let mut new = NewNames::new(job.folder, numbered, index);
    let mut added = places.added().iter();
    // Partition whose known names are being written.
    let mut partition = 0;
    let entity_type = &job.types.names[index].entity_type;
    let of_type = |old: &&pbg_dataset::Dataset| old.manifest().entities.contains_key(entity_type);
    if let Some(old) = job.old.filter(of_type) {
        let mut result = Ok(());
        old.visit_entities(entity_type, &mut |at, name| {
            if result.is_err() {
                return;
            }
            while partition < at.partition && result.is_ok() {
                let count = added.next().copied().unwrap_or(0);
                result = new.take(count, &mut |name| file.push(name));
                partition += 1;
            }
            result = std::mem::replace(&mut result, Ok(())).and_then(|()| file.push(name));
        })?;
        result?;
    }
    for &count in added {
        new.take(count, &mut |name| file.push(name))?;
    }
    Ok(file.finish()?)
}

/// Iterator over the new names of one type, shard by shard.
struct NewNames<'a> {
    folder: &'a Path,
    numbered: &'a Numbering,
    of_type: usize,
    next_shard: usize,
    file: Option<NameFile>,
}

impl<'a> NewNames<'a> {
    /// Creates the iterator for the type with this index.
    fn new(folder: &'a Path, numbered: &'a Numbering, of_type: usize) -> Self {
        Self {
            folder,
            numbered,
            of_type,
            next_shard: 0,
            file: None,
        }
    }

    /// Calls `with` for the next `count` names.
    fn take(
        &mut self,
        count: u32,
        with: &mut dyn FnMut(&str) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let mut left = count;
        while left > 0 {
            let Some(file) = &mut self.file else {
                let Some(shard) = self.numbered.shards.get(self.next_shard) else {
                    return Ok(());
                };
                let path = new_path(self.folder, self.next_shard);
                let file = NameFile::open_range(&path, &shard[self.of_type].listed)?;
                self.file = Some(file);
                self.next_shard += 1;
                continue;
            };
            match file.next()? {
                // Only UTF-8 text was read.
                Some(key) => with(std::str::from_utf8(names::split(key).1).unwrap_or_default())?,
                None => {
                    self.file = None;
                    continue;
                }
            }
            left -= 1;
        }
        Ok(())
    }
}
