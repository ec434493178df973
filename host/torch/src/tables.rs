//! Tables that are resident on a device.

use std::any::Any;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pbg_rows::table::{ResidentRows, Table, TransferError};
use tch::{TchError, Tensor};

use super::device::TorchDevice;
use super::error::transfer_failed;
use super::one_thread::on_this_thread;
use super::stream::CopyStreamGuard;
use super::transfer;

/// A table's rows on a device, shared by the worker and the storage thread.
#[derive(Debug)]
pub(super) struct TorchRows(Mutex<TableRows>);

/// Embeddings and their accumulators.
#[derive(Debug)]
pub(super) struct TableRows {
    /// Embeddings, `[rows, dimension]`.
    pub(super) embeddings: Tensor,
    /// Accumulators, `[rows]`.
    pub(super) row_adagrad: Tensor,
    place: TorchDevice,
    /// Whether they have changed since they were last copied back.
    changed: bool,
}

impl TorchRows {
    /// Returns the rows of a table, if this crate created them.
    pub(super) fn of(resident: &dyn ResidentRows) -> Option<&Self> {
        let resident: &dyn Any = resident;
        resident.downcast_ref()
    }

    /// Copies the rows of `table` to `place`.
    pub(super) fn upload(table: &mut Table, place: TorchDevice) -> Result<Self, TchError> {
        let _beside_kernels = CopyStreamGuard::begin(place)?;
        let rows = table.embeddings.rows();
        let embeddings = transfer::upload(table.embeddings.get_mut(), rows, place)?;
        let row_adagrad =
            transfer::upload(table.state.get_mut(), rows, place)?.f_reshape([rows as i64])?;
        Ok(Self(Mutex::new(TableRows {
            embeddings,
            row_adagrad,
            place,
            changed: false,
        })))
    }

    /// Locks the rows, for the worker that trains them.
    pub(super) fn lock(&self) -> MutexGuard<'_, TableRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn download(&self, table: &Table) -> Result<(), TchError> {
        let mut rows = self.lock();
        if rows.changed {
            let _beside_kernels = CopyStreamGuard::begin(rows.place)?;
            transfer::download(&rows.embeddings, |first, values| {
                table.embeddings.write_rows(first, values);
            })?;
            transfer::download(&rows.row_adagrad, |first, values| {
                table.state.write_rows(first, values);
            })?;
            rows.changed = false;
        }
        Ok(())
    }
}

impl ResidentRows for TorchRows {
    fn download(&self, table: &Table) -> Result<(), TransferError> {
        on_this_thread();
        self.download(table).map_err(transfer_failed)
    }
}

impl TableRows {
    /// Copies the rows `ids` and their accumulators.
    pub(super) fn select(&self, ids: &Tensor) -> Result<(Tensor, Tensor), TchError> {
        Ok((
            self.embeddings.f_index_select(0, ids)?,
            self.row_adagrad.f_index_select(0, ids)?,
        ))
    }

    /// Returns embeddings and accumulators, for a kernel that changes them.
    pub(super) fn changing(&mut self) -> [&Tensor; 2] {
        self.changed = true;
        [&self.embeddings, &self.row_adagrad]
    }

    /// Overwrites the rows `ids`, which must all be different, and their accumulators.
    pub(super) fn replace(
        &mut self,
        ids: &Tensor,
        rows: &Tensor,
        row_adagrad: &Tensor,
    ) -> Result<(), TchError> {
        self.changed = true;
        let _same = self.embeddings.f_index_copy_(0, ids, rows)?;
        let _same = self.row_adagrad.f_index_copy_(0, ids, row_adagrad)?;
        Ok(())
    }
}
