//! Tables that are resident on a device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tch::{TchError, Tensor};

use super::place::Place;
use super::stream::Copying;
use super::transfer;
use crate::error::StepError;
use crate::table::Table;

/// A table's rows on a device. They are the table while they are there: what is in main memory is what
/// was there when they were carried last, in either direction.
#[derive(Debug)]
pub struct Resident(Mutex<Rows>);

/// Embeddings and their accumulators.
#[derive(Debug)]
pub(super) struct Rows {
    /// `[rows, dimension]`
    pub(super) embeddings: Tensor,
    /// `[rows]`
    pub(super) row_adagrad: Tensor,
    place: Place,
    /// Whether they changed since they were carried last.
    changed: bool,
}

impl Resident {
    /// The rows, for whoever trains them.
    pub(super) fn lock(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Makes the table resident on `place`.
    ///
    /// # Errors
    /// When libtorch fails: the device has too little memory, most likely.
    pub fn upload(&mut self, place: Place) -> Result<(), StepError> {
        let _beside_kernels = Copying::begin(place)?;
        let rows = self.embeddings.rows();
        let embeddings = transfer::upload(self.embeddings.get_mut(), rows, place)?;
        let row_adagrad =
            transfer::upload(self.row_adagrad.get_mut(), rows, place)?.f_reshape([rows as i64])?;
        self.resident = Some(Resident(Mutex::new(Rows {
            embeddings,
            row_adagrad,
            place,
            changed: false,
        })));
        Ok(())
    }

    /// Brings main memory up to date with the device, if the table is resident on one.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn download(&self) -> Result<(), StepError> {
        let Some(resident) = &self.resident else {
            return Ok(());
        };
        let mut rows = resident.lock();
        if rows.changed {
            let _beside_kernels = Copying::begin(rows.place)?;
            transfer::download(&rows.embeddings, |first, values| {
                self.embeddings.write_rows(first, values);
            })?;
            transfer::download(&rows.row_adagrad, |first, values| {
                self.row_adagrad.write_rows(first, values);
            })?;
            rows.changed = false;
        }
        Ok(())
    }
}

impl Rows {
    /// Copies of the rows `ids`, and of their accumulators.
    pub(super) fn select(&self, ids: &Tensor) -> Result<(Tensor, Tensor), TchError> {
        Ok((
            self.embeddings.f_index_select(0, ids)?,
            self.row_adagrad.f_index_select(0, ids)?,
        ))
    }

    /// Puts rows and accumulators in the places of the rows `ids`, which are all different.
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
