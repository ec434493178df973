//! Tables that a single trainer ranks with between buckets.

use pbg_model::error::RunError;
use pbg_model::layout::TableKey;
use pbg_query::evaluate::{LastTable, TableSource};
use pbg_rows::table::Table;

use crate::buffer::PartitionBuffer;
use crate::disk_tables::DiskTables;

/// Tables of a run between buckets: the current ones in its buffer, and the others from its checkpoint.
pub(crate) struct BufferTables<'a> {
    buffer: &'a PartitionBuffer<DiskTables>,
    held: LastTable,
}

impl<'a> BufferTables<'a> {
    pub(crate) fn new(buffer: &'a PartitionBuffer<DiskTables>) -> Self {
        Self {
            buffer,
            held: LastTable::default(),
        }
    }
}

impl TableSource for BufferTables<'_> {
    fn table(&mut self, key: TableKey) -> Result<&Table, RunError> {
        if let Some(table) = self.buffer.table(key) {
            table.download()?;
            return Ok(table);
        }
        self.held.or_read(key, || self.buffer.store().read(key))
    }
}
