//! Partitions in files and tables in memory: allocation, conversion and the check of their shapes.

use pbg_checkpoint::{PartitionData, PartitionRows};
use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::{EmbeddingFormat, Optimizer};
use pbg_gemm::pages;
use pbg_rows::shared_rows::SharedRows;
use pbg_rows::table::{FeatureBags, Table};

use crate::error::{CheckpointMismatch, RunError};
use crate::layout::TypeLayout;

/// Greatest size of the header of a partition's file, which names two tensors.
const MAX_HEADER: u64 = 1 << 20;

/// Allocates memory for a partition.
pub fn allocate_partition(layout: &TypeLayout, partition: u32) -> PartitionData {
    let rows = layout.rows[partition as usize] as usize;
    PartitionData {
        rows,
        dim: layout.dimension,
        embeddings: pages::with_capacity(rows * layout.dimension),
        optimizer: layout.optimizer,
        state: pages::with_capacity(rows * layout.optimizer.state_width(layout.dimension)),
    }
}

/// Makes a table of the data of a partition, after checking its shape.
pub fn table(
    layout: &TypeLayout,
    partition: u32,
    data: PartitionData,
    features: Option<FeatureBags>,
) -> Result<Table, RunError> {
    check_shape(layout, partition, &data)?;
    let state = (data.optimizer, data.state);
    let mut table = Table::with_optimizer(data.embeddings, state, data.dim);
    table.features = features;
    table.frozen = layout.frozen;
    Ok(table)
}

/// Calls `write` with the current values of a table, rounded if it is stored rounded. Other threads may read it
/// meanwhile.
pub fn with_rows<T>(
    layout: &TypeLayout,
    table: &Table,
    rounding: Option<StochasticRounding>,
    write: impl FnOnce(&PartitionRows<'_>) -> T,
) -> T {
    write(&PartitionRows {
        rows: table.embeddings.rows(),
        dim: layout.dimension,
        embeddings: &|row, out| table.embeddings.read_rows(row, out),
        optimizer: layout.optimizer,
        state: &|row, out| table.state.read_rows(row, out),
        rounding,
    })
}

/// Calls `write` with a partition that is not in a table, rounded if it is stored rounded.
pub fn with_data<T>(
    layout: &TypeLayout,
    data: &PartitionData,
    write: impl FnOnce(&PartitionRows<'_>) -> T,
) -> T {
    // The values are rounded already, so the seed has no effect.
    let rounding = (layout.storage == EmbeddingFormat::Bf16).then(|| StochasticRounding::new(0));
    let width = data.optimizer.state_width(data.dim);
    write(&PartitionRows {
        rows: data.rows,
        dim: data.dim,
        embeddings: &|row, out| {
            out.copy_from_slice(&data.embeddings[row * data.dim..][..out.len()])
        },
        optimizer: data.optimizer,
        state: &|row, out| {
            out.copy_from_slice(&data.state[row * width..][..out.len()]);
        },
        rounding,
    })
}

/// Copies a table in main memory, reusing the memory of `over` if there is one. Features are shared.
pub fn copy_of(table: &Table, over: Option<Table>) -> Table {
    let (embeddings, state) = over.map_or_else(Default::default, |over| {
        (Some(over.embeddings), Some(over.state))
    });
    let dimension = table.embeddings.width();
    let embeddings = values_of(&table.embeddings, embeddings);
    let state = (table.optimizer, values_of(&table.state, state));
    let mut copy = Table::with_optimizer(embeddings, state, dimension);
    copy.features = table.features.clone();
    copy.frozen = table.frozen;
    copy
}

/// Copies all `rows`, reusing the memory of `over` if there is one.
fn values_of(rows: &SharedRows, over: Option<SharedRows>) -> Vec<f32> {
    let len = rows.rows() * rows.width();
    let mut values = over.map_or_else(|| pages::with_capacity(len), SharedRows::into_vec);
    // Only fresh memory is initialized by this.
    values.resize(len, 0.0);
    rows.read_rows(0, &mut values);
    values
}

/// Checks that a partition's file of `bytes` bytes can have the expected shape, before memory is taken for its content.
///
/// # Errors
/// When it is larger than any file of the partition.
pub fn check_file_size(
    layout: &TypeLayout,
    partition: u32,
    bytes: u64,
) -> Result<(), CheckpointMismatch> {
    let rows = layout.rows[partition as usize];
    // Embeddings, and the state of the optimizer that has most.
    let widest = Optimizer::Adam.state_width(layout.dimension);
    let of_row = 4 * (layout.dimension + widest) as u64;
    let most = rows.saturating_mul(of_row).saturating_add(MAX_HEADER);
    match bytes <= most {
        true => Ok(()),
        false => Err(CheckpointMismatch::FileSize {
            entity_type: layout.name.clone(),
            partition,
            bytes,
            most,
        }),
    }
}

/// Checks that a partition has the expected shape.
pub fn check_shape(
    layout: &TypeLayout,
    partition: u32,
    data: &PartitionData,
) -> Result<(), CheckpointMismatch> {
    let rows = layout.rows[partition as usize];
    if data.rows as u64 == rows && data.dim == layout.dimension {
        return Ok(());
    }
    Err(CheckpointMismatch::Rows {
        entity_type: layout.name.clone(),
        partition,
        stored: [data.rows as u64, data.dim as u64],
        expected: [rows, layout.dimension as u64],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_large_for_its_partition_is_refused() {
        let layout = TypeLayout {
            name: "e".to_owned(),
            dimension: 10,
            rows: vec![100],
            storage: EmbeddingFormat::F32,
            optimizer: Optimizer::RowAdagrad,
            frozen: false,
            on_lhs: true,
            on_rhs: true,
        };
        let whole = 4 * 100 * (10 + 21) + 1000;
        check_file_size(&layout, 0, whole).unwrap();
        let refused = check_file_size(&layout, 0, 1 << 40).unwrap_err();
        assert!(
            refused.to_string().contains("1099511627776 bytes"),
            "{refused}"
        );
    }
}
