//! Checks of a node's operands, and the errors for those that do not fit.

use super::dimension::{Dim, TensorShape};
use super::error::ShapeError;
use super::graph::TensorName;
use crate::graph::Side;

/// The operands of one node.
pub(super) struct Operands<'a> {
    pub(super) node: TensorName,
    pub(super) shapes: &'a [&'a TensorShape],
}

impl Operands<'_> {
    pub(super) fn get(&self, index: usize) -> Option<&TensorShape> {
        self.shapes.get(index).copied()
    }

    pub(super) fn wrong(
        &self,
        index: usize,
        operand: &'static str,
        expected: String,
        reason: &'static str,
    ) -> ShapeError {
        let found = match self.get(index) {
            Some(shape) => shape.to_string(),
            None => "missing".to_owned(),
        };
        ShapeError {
            node: self.node,
            operand,
            expected,
            found,
            reason,
        }
    }

    /// Returns operand `index`, which must be rows of floats, with the number of floats of a row.
    pub(super) fn rows(
        &self,
        index: usize,
        operand: &'static str,
    ) -> Result<(&TensorShape, usize), ShapeError> {
        let rows = self
            .get(index)
            .and_then(|shape| shape.width().map(|w| (shape, w)));
        let rows = rows.filter(|(shape, width)| shape.0.len() > 1 && *width > 0);
        rows.ok_or_else(|| {
            let reason = "an embedding has at least one coordinate";
            self.wrong(index, operand, "rows of at least one float".into(), reason)
        })
    }

    /// Returns operand `index`, which must be rows of `width` floats.
    pub(super) fn rows_of(
        &self,
        index: usize,
        operand: &'static str,
        width: usize,
        reason: &'static str,
    ) -> Result<&TensorShape, ShapeError> {
        let (shape, found) = self.rows(index, operand)?;
        if found == width {
            return Ok(shape);
        }
        let expected = shape.with_width(width).to_string();
        Err(self.wrong(index, operand, expected, reason))
    }

    /// Checks that operand `index` has the shape `shape`.
    pub(super) fn exactly(
        &self,
        index: usize,
        operand: &'static str,
        shape: TensorShape,
        reason: &'static str,
    ) -> Result<(), ShapeError> {
        if self.get(index) == Some(&shape) {
            return Ok(());
        }
        Err(self.wrong(index, operand, shape.to_string(), reason))
    }

    /// Returns the shape of operand `index` as the shape of a result, or nothing if the operand is missing.
    pub(super) fn same(&self, index: usize) -> Vec<TensorShape> {
        self.get(index).cloned().into_iter().collect()
    }

    /// Returns the side of the table that is operand `index`, and the number of floats of its rows.
    pub(super) fn table(&self, index: usize) -> Result<(Side, usize), ShapeError> {
        let (table, width) = self.rows(index, "table")?;
        match table.0.first() {
            Some(&Dim::TableRows(side)) => Ok((side, width)),
            _ => {
                let expected = "[table rows, floats]".to_owned();
                Err(self.wrong(index, "table", expected, "entities are rows of a table"))
            }
        }
    }
}
