//! Datasets that have grown since the newest checkpoint. The trainer that creates the record first adds the new rows to
//! the partition files, so that every file that the record names has them.

use pbg_checkpoint::{CheckpointManifest, SharedCheckpoint};
use pbg_core::event::Event;
use pbg_ledger::TrainedState;
use pbg_model::error::RunError;
use pbg_model::layout::Layout;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::tables;
use pbg_model::trained::UntrainedNames;
use pbg_train::new_rows::NewRows;

use super::ClusterTrainer;
use crate::conversion::grid;
use crate::random_token::random_token;

/// Returns the rows that the dataset has and the checkpoint of `manifest` lacks.
///
/// # Errors
/// When a dictionary is damaged.
pub(super) fn new_rows(
    resolved: &ResolvedConfig,
    manifest: &CheckpointManifest,
) -> Result<NewRows, RunError> {
    match &manifest.run.ids {
        Some(ids) => NewRows::since(ids, resolved),
        None => Ok(NewRows::default()),
    }
}

/// Rewrites the partitions of `work`, which comes from a checkpoint, with the rows that they lack.
///
/// The files are written under the token of no trainer, because a record names files of its trainers only after they
/// have settled them. If the record that names these files is not created, they are garbage.
///
/// # Errors
/// When a partition cannot be read or written.
pub(super) fn grow(
    new: &NewRows,
    layout: &Layout,
    files: &SharedCheckpoint,
    work: &mut TrainedState,
) -> Result<(), RunError> {
    if new.is_empty() {
        return Ok(());
    }
    let token = random_token()?;
    let files = SharedCheckpoint::open(files.path(), token)?;
    let grown = write(new, layout, &files, work);
    files.remove_presence(token)?;
    grown
}

fn write(
    new: &NewRows,
    layout: &Layout,
    files: &SharedCheckpoint,
    work: &mut TrainedState,
) -> Result<(), RunError> {
    for (group, partition) in grid(layout).groups().zip(&mut work.partitions) {
        for (key, file) in layout.group_tables(group).zip(&mut partition.files) {
            if new.count(key) == 0 {
                continue;
            }
            let of_type = &layout.types[key.0];
            tables::check_file_size(of_type, key.1, file.size)?;
            let mut data = tables::allocate_partition(of_type, key.1);
            files.read_partition_into(&of_type.name, key.1, file, &mut data)?;
            if new.append_if_missing(key, of_type, &mut data) {
                let version = file.id.version + 1;
                *file = tables::with_data(of_type, &data, |rows| {
                    files.write_partition(&of_type.name, key.1, version, rows)
                })?;
            }
        }
    }
    Ok(())
}

impl ClusterTrainer<'_> {
    /// Reports the differences from the checkpoint from which this trainer created the record.
    pub(super) fn announce_changes(&mut self) -> Result<(), RunError> {
        let admitted = self.admitted.take().unwrap_or_default();
        if let Some(earlier) = &admitted.earlier {
            let UntrainedNames { rows, relations } =
                UntrainedNames::of(earlier, &self.machine.resolved.ids()?);
            self.report(Event::Grown { rows, relations }, None);
        }
        if !admitted.changes.is_empty() {
            let changes = admitted.changes;
            self.report(Event::DataChanged { changes }, None);
        }
        Ok(())
    }
}
