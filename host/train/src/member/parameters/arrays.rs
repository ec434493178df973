//! The numbers that trainers have in common, wherever they lie: operators and global embeddings, and the tables of entity
//! types with one partition. Each array has one of Adagrad's sums beside it.

use std::sync::Arc;

use pbg_kernels::params::Params;
use pbg_kernels::rows::SharedRows;
use pbg_kernels::table::Table;

use super::message::Shape;

/// Which array. The second number says whether it is the values or Adagrad's sums.
#[derive(Clone, Copy, Debug)]
pub(super) enum Array {
    /// Of a tensor of the parameters.
    Tensor(usize, ArrayPart),
    /// Of a table.
    Table(usize, ArrayPart),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ArrayPart {
    Values,
    Adagrad,
}

/// All arrays.
pub(crate) struct Arrays {
    params: Arc<Params>,
    tables: Vec<Arc<Table>>,
}

impl Arrays {
    /// Those of `params`, and of `tables` in the order that all trainers have.
    pub(crate) fn new(params: Arc<Params>, tables: Vec<Arc<Table>>) -> Self {
        Self { params, tables }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.params.tensors().is_empty() && self.tables.is_empty()
    }

    /// The arrays, those together whose rows change together. A parameter has an accumulator for each number, which would
    /// tell nothing that the numbers themselves do not.
    pub(super) fn joint(&self) -> Vec<Vec<Array>> {
        let tensors = (0..self.params.tensors().len()).flat_map(|tensor| {
            [ArrayPart::Values, ArrayPart::Adagrad].map(|kind| vec![Array::Tensor(tensor, kind)])
        });
        let tables = (0..self.tables.len()).map(|table| {
            let both = [ArrayPart::Values, ArrayPart::Adagrad];
            both.map(|kind| Array::Table(table, kind)).to_vec()
        });
        tensors.chain(tables).collect()
    }

    fn rows(&self, array: &Array) -> &SharedRows {
        match *array {
            Array::Tensor(tensor, ArrayPart::Values) => &self.params.tensors()[tensor].values,
            Array::Tensor(tensor, ArrayPart::Adagrad) => &self.params.tensors()[tensor].adagrad,
            Array::Table(table, ArrayPart::Values) => &self.tables[table].embeddings,
            Array::Table(table, ArrayPart::Adagrad) => &self.tables[table].adagrad,
        }
    }

    /// Rows of an array, and numbers of each.
    pub(super) fn shape(&self, array: &Array) -> Shape {
        let rows = self.rows(array);
        Shape {
            rows: rows.rows(),
            width: rows.width(),
        }
    }

    /// Copies `width` columns of consecutive rows, as many as fill `out`. Workers may change them meanwhile.
    pub(super) fn read(
        &self,
        array: &Array,
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
    pub(super) fn write(&self, array: &Array, row: usize, column: usize, values: &[f32]) {
        self.rows(array).write_columns(row, column, values);
    }
}
