//! The interface between the buffer and the storage of tables that are not in memory.

use pbg_model::error::RunError;
use pbg_model::layout::TableKey;

/// Storage that tables are loaded from, and written to when they leave the buffer or are committed. Called by one
/// thread.
pub trait TableStore: Send + Sync + 'static {
    /// One partition of one entity type, with its optimizer state.
    type Table: Send + Sync + 'static;
    /// Content of a commit besides its tables.
    type Cut: Send + 'static;

    /// Reads a table as it was last written, or creates its initial state.
    ///
    /// # Errors
    /// When the table cannot be read or is damaged.
    fn load(&self, key: TableKey) -> Result<Self::Table, RunError>;

    /// Writes a table, as part of the next commit that begins.
    ///
    /// # Errors
    /// When the table cannot be written.
    fn save(&self, key: TableKey, table: &Self::Table) -> Result<(), RunError>;

    /// Begins a commit of everything saved so far.
    ///
    /// # Errors
    /// When an earlier write failed.
    fn begin(&self, cut: Self::Cut) -> Result<(), RunError>;

    /// Writes a table as part of the commit that has begun.
    ///
    /// # Errors
    /// When the table cannot be written.
    fn add(&self, key: TableKey, table: &Self::Table) -> Result<(), RunError>;

    /// Does a piece of the remaining work of the commit that has begun. Returns its version once it is current.
    ///
    /// # Errors
    /// When a file cannot be written.
    fn continue_commit(&self) -> Result<Option<u64>, RunError>;

    /// Copies a table, so that the copy can be trained while the original is written. The copy may reuse the memory of
    /// `over`, a table of any shape.
    fn copy(&self, table: &Self::Table, over: Option<Self::Table>) -> Self::Table;

    /// Whether tables are trained on a device instead of in main memory. Then the main memory that a commit writes from
    /// does not change while the tables are trained.
    fn trains_on_device(&self) -> bool {
        false
    }

    /// Downloads a table from its device to main memory. Called for each table of a commit when the commit begins.
    ///
    /// # Errors
    /// When the device fails.
    fn download(&self, _table: &Self::Table) -> Result<(), RunError> {
        Ok(())
    }

    /// Whether writes are counted at commits: other trainers read the committed partitions, so that every commit is
    /// traffic of the plan.
    fn writes_count_at_commit(&self) -> bool {
        false
    }

    /// Whether the fixed tables are shared with other trainers. Then commits do not contain them, and the buffer trains
    /// the loaded tables themselves instead of copies.
    fn shares_fixed(&self) -> bool {
        false
    }
}
