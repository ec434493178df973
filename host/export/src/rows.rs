//! Matching of a type's rows with their names, both streamed: memory holds neither all names nor all rows.

use super::ExportError;
use super::embedding_file::EmbeddingFile;
use super::export::Export;
use pbg_checkpoint::PartitionData;
use pbg_dataset::manifest::EntityType;

/// Number of rows that are passed to the file together.
const STEP: usize = 4096;

/// Rows of a type on their way to a file.
pub(super) struct RowStream<'a> {
    export: &'a Export<'a>,
    entity_type: &'a str,
    info: &'a EntityType,
    file: Box<dyn EmbeddingFile + 'a>,
    partition: u32,
    data: PartitionData,
    /// Number of rows already written, of the current partition and of all partitions.
    written_in_partition: usize,
    done: u64,
    /// Names of the following rows, concatenated, and the end of each.
    names: String,
    ends: Vec<usize>,
}

impl<'a> RowStream<'a> {
    /// Starts with partition 0, whose content is `data`.
    pub(super) fn new(
        export: &'a Export<'a>,
        entity_type: &'a str,
        info: &'a EntityType,
        data: PartitionData,
        file: Box<dyn EmbeddingFile + 'a>,
    ) -> Self {
        Self {
            export,
            entity_type,
            info,
            file,
            partition: 0,
            data,
            written_in_partition: 0,
            done: 0,
            names: String::new(),
            ends: Vec::with_capacity(STEP),
        }
    }

    /// Adds the name of the next row, which is in this partition.
    pub(super) fn put(
        &mut self,
        partition: u32,
        name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), ExportError> {
        self.go_to(partition, progress)?;
        self.names.push_str(name);
        self.ends.push(self.names.len());
        if self.ends.len() == STEP {
            self.flush(progress)?;
        }
        Ok(())
    }

    /// Writes the remaining rows, and completes the file.
    pub(super) fn finish(mut self, progress: &mut dyn FnMut(u64)) -> Result<(), ExportError> {
        let last = self.info.num_partitions.saturating_sub(1);
        self.go_to(last, progress)?;
        self.flush(progress)?;
        self.file.finish()
    }

    /// Advances to this partition, reading each partition on the way.
    fn go_to(&mut self, partition: u32, progress: &mut dyn FnMut(u64)) -> Result<(), ExportError> {
        while self.partition < partition {
            self.flush(progress)?;
            self.partition += 1;
            self.written_in_partition = 0;
            let read = std::mem::take(&mut self.data);
            let next = self.partition;
            self.data = self
                .export
                .partition(self.entity_type, self.info, next, Some(read))?;
        }
        Ok(())
    }

    fn flush(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), ExportError> {
        let count = self.ends.len();
        if count == 0 {
            return Ok(());
        }
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let bounds = starts.zip(&self.ends);
        let names: Vec<&str> = bounds
            .map(|(start, &end)| &self.names[start..end])
            .collect();
        let first = self.written_in_partition * self.data.dim;
        let values = &self.data.embeddings[first..first + count * self.data.dim];
        self.file.put(&names, values)?;
        self.names.clear();
        self.ends.clear();
        self.written_in_partition += count;
        self.done += count as u64;
        progress(self.done);
        Ok(())
    }
}
