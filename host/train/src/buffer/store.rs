//! What the buffer asks of whatever holds the tables that are not in memory.

use crate::error::RunError;
use crate::layout::TableKey;

/// Where tables come from and go to when they leave the buffer or are committed. One thread calls it.
pub trait TableStore: Send + Sync + 'static {
    /// One partition of one entity type, with its optimizer state.
    type Table: Send + Sync + 'static;
    /// What a commit says besides its tables.
    type Cut: Send + 'static;

    /// Reads a table as it was last written, or makes its initial state.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    fn load(&self, key: TableKey) -> Result<Self::Table, RunError>;

    /// Writes a table. It belongs to the next commit that begins.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&self, key: TableKey, table: &Self::Table) -> Result<(), RunError>;

    /// Begins a commit of everything saved so far.
    ///
    /// # Errors
    /// When a write failed before.
    fn begin(&self, cut: Self::Cut) -> Result<(), RunError>;

    /// Writes a table that belongs to the commit that has begun.
    ///
    /// # Errors
    /// When it cannot be written.
    fn add(&self, key: TableKey, table: &Self::Table) -> Result<(), RunError>;

    /// Does a piece of what is left of the commit that has begun; its version once it is current.
    ///
    /// # Errors
    /// When something cannot be written.
    fn go_on(&self) -> Result<Option<u64>, RunError>;

    /// A copy to train while the table itself is written. It may take the memory of `over`, a table of any shape.
    fn copy(&self, table: &Self::Table, over: Option<Self::Table>) -> Self::Table;

    /// Whether tables are trained elsewhere than in main memory, on a device: what a commit writes from main memory
    /// stays as it is then while they are trained.
    fn trains_elsewhere(&self) -> bool {
        false
    }

    /// Brings a table's main memory up to date with where it is trained. A commit begins with it, for each of its tables.
    ///
    /// # Errors
    /// When the device fails.
    fn bring_home(&self, _table: &Self::Table) -> Result<(), RunError> {
        Ok(())
    }

    /// Whether commits hand partitions on to other trainers, so that what they write is traffic of the plan.
    fn hands_on(&self) -> bool {
        false
    }

    /// Whether others have the fixed tables too: commits are without them then, and the buffer trains the very tables that
    /// it loaded.
    fn shares_fixed(&self) -> bool {
        false
    }
}
