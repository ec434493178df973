//! Graph files: the checksums of all rows, then a record for each entity.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{GraphInfo, IndexError};
use pbg_files::{self as files, ChecksummedFile, FileError, FileSummary};

/// Writes a graph's file. Returns the checksum of the row checksums, and the summary of the file.
pub(super) fn put(
    path: &Path,
    degree: u32,
    links: &[Vec<u32>],
    sums: &[u32],
) -> Result<(u32, FileSummary), FileError> {
    let mut file = ChecksummedFile::create(path)?;
    for part in sums.chunks(1 << 12) {
        let bytes: Vec<u8> = part.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        file.put(&bytes)?;
    }
    let rows = file.end_section();
    let mut record = Vec::new();
    for list in links {
        record.clear();
        record.extend((list.len() as u32).to_le_bytes());
        record.extend(list.iter().flat_map(|id| id.to_le_bytes()));
        record.resize(4 * (degree as usize + 1), 0);
        record.extend(crc32fast::hash(&record).to_le_bytes());
        file.put(&record)?;
    }
    Ok((rows.crc32, file.finish(true)?))
}

/// Graph of a partition, whose links are read one entity at a time.
#[derive(Debug)]
pub struct GraphFile {
    pub(super) path: PathBuf,
    pub(super) file: Arc<File>,
    pub(super) info: GraphInfo,
}

impl GraphFile {
    /// Returns the manifest entry of the graph.
    #[must_use]
    pub const fn info(&self) -> &GraphInfo {
        &self.info
    }

    /// Reads the checksum of each row of the partition's table.
    ///
    /// # Errors
    /// When they cannot be read or are damaged.
    pub fn sums(&self) -> Result<Vec<u32>, IndexError> {
        let mut bytes = vec![0; 4 * self.info.rows as usize];
        files::read_exact_at(&self.file, &self.path, &mut bytes, 0)?;
        if crc32fast::hash(&bytes) != self.info.rows_crc32 {
            let what = "the checksum of its list of row checksums does not match";
            return Err(IndexError::damaged(&self.path, what));
        }
        let (sums, _) = bytes.as_chunks();
        Ok(sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect())
    }

    /// Reads the links of an entity into `out`, replacing its content. `bytes` is a reusable buffer.
    ///
    /// # Errors
    /// When they cannot be read or are damaged, or there is no such entity.
    pub fn links(
        &self,
        entity: u32,
        bytes: &mut Vec<u8>,
        out: &mut Vec<u32>,
    ) -> Result<(), IndexError> {
        let damaged = |what: &str| {
            let what = format!("the record of entity {entity}: {what}");
            IndexError::damaged(&self.path, what)
        };
        let (points, degree) = (self.info.points, self.info.degree);
        if entity >= points {
            return Err(damaged("it does not exist"));
        }
        let stride = GraphInfo::stride(degree);
        bytes.resize(stride as usize, 0);
        let at = 4 * u64::from(self.info.rows) + u64::from(entity) * stride;
        files::read_exact_at(&self.file, &self.path, bytes, at)?;
        let (words, _) = bytes.as_chunks();
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        let count = words.next().unwrap_or(0);
        out.clear();
        out.extend(words.by_ref().take(degree as usize));
        if words.next() != Some(crc32fast::hash(&bytes[..bytes.len() - 4])) {
            return Err(damaged("its checksum does not match its content"));
        }
        out.truncate(count as usize);
        if count > degree || out.iter().any(|&id| id >= points) {
            return Err(damaged("it has a link to an entity that does not exist"));
        }
        Ok(())
    }
}
