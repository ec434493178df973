//! The arrays of numbers that all trainers have copies of: operators, global embeddings, and the tables of entity types
//! with one partition. Each array of values has an array of Adagrad sums.

use std::sync::Arc;

use pbg_rows::params::Params;
use pbg_rows::shared_rows::SharedRows;
use pbg_rows::table::Table;

use super::shard::BlockShape;

/// Identifies an array: a tensor or table by its index, and whether its values or its Adagrad sums are meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum ArrayId {
    /// An array of a tensor of the parameters.
    Tensor(usize, ArrayPart),
    /// An array of a table.
    Table(usize, ArrayPart),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ArrayPart {
    Values,
    Adagrad,
}

impl ArrayId {
    /// Whether the array has sums of squares.
    pub(super) fn is_adagrad(self) -> bool {
        let (Self::Tensor(_, part) | Self::Table(_, part)) = self;
        matches!(part, ArrayPart::Adagrad)
    }
}

/// All shared arrays of a trainer.
pub(crate) struct SharedArrays {
    params: Arc<Params>,
    tables: Vec<Arc<Table>>,
}

impl SharedArrays {
    /// Creates the arrays of `params` and of `tables`, which must be in the same order on all trainers.
    pub(crate) fn new(params: Arc<Params>, tables: Vec<Arc<Table>>) -> Self {
        Self { params, tables }
    }

    /// Whether there are no arrays.
    pub(crate) fn is_empty(&self) -> bool {
        self.params.tensors().is_empty() && self.tables.is_empty()
    }

    /// Returns the arrays in groups whose rows are exchanged together. A table's embeddings and Adagrad sums form one
    /// group. A tensor's do not: it has an Adagrad sum for each number, so comparing the sums is no cheaper than
    /// comparing the values.
    pub(super) fn exchange_groups(&self) -> Vec<Vec<ArrayId>> {
        let tensors = (0..self.params.tensors().len()).flat_map(|tensor| {
            [ArrayPart::Values, ArrayPart::Adagrad].map(|kind| vec![ArrayId::Tensor(tensor, kind)])
        });
        let tables = (0..self.tables.len()).map(|table| {
            let both = [ArrayPart::Values, ArrayPart::Adagrad];
            both.map(|kind| ArrayId::Table(table, kind)).to_vec()
        });
        tensors.chain(tables).collect()
    }

    fn rows(&self, array: &ArrayId) -> &SharedRows {
        match *array {
            ArrayId::Tensor(tensor, ArrayPart::Values) => &self.params.tensors()[tensor].values,
            ArrayId::Tensor(tensor, ArrayPart::Adagrad) => &self.params.tensors()[tensor].adagrad,
            ArrayId::Table(table, ArrayPart::Values) => &self.tables[table].embeddings,
            ArrayId::Table(table, ArrayPart::Adagrad) => &self.tables[table].state,
        }
    }

    /// Returns the shape `[rows, width]` of an array.
    pub(super) fn shape(&self, array: &ArrayId) -> BlockShape {
        let rows = self.rows(array);
        BlockShape {
            rows: rows.rows(),
            width: rows.width(),
        }
    }

    /// Copies `width` columns of consecutive rows, as many rows as fill `out`. Workers may change the rows meanwhile.
    pub(super) fn read(
        &self,
        array: &ArrayId,
        row: usize,
        column: usize,
        width: usize,
        out: &mut [f32],
    ) {
        let rows = self.rows(array);
        if width == rows.width() {
            return rows.read_rows(row, out);
        }
        for (row, out) in (row..).zip(out.chunks_exact_mut(width)) {
            rows.read_columns(row, column, out);
        }
    }

    /// Overwrites columns of a row.
    pub(super) fn write(&self, array: &ArrayId, row: usize, column: usize, values: &[f32]) {
        self.rows(array).write_columns(row, column, values);
    }
}
