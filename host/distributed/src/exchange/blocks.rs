//! Division of the shared arrays into blocks, and the owner of each block.
//!
//! A block is some rows of an array, or some columns of a single row if the row alone exceeds the size of a message. A
//! table's embeddings and Adagrad sums are in the same block. A row's Adagrad sum grows whenever the row is trained, so
//! only the sums need to be compared to find the changed rows, and the rest of a large table is not read.

use pbg_ledger::Token;

use super::arrays::{ArrayId, SharedArrays};
use super::shard::BlockShape;

/// Largest size in bytes of a block's rows in a message, including the row numbers.
const BLOCK_BYTES: usize = 512 << 10;

/// Some columns of consecutive rows of an array.
#[derive(Clone, Debug)]
struct Part {
    array: ArrayId,
    /// Index of the first row.
    row: usize,
    /// Index of the first column.
    column: usize,
    /// Number of columns.
    width: usize,
}

/// A unit of exchange: rows of numbers that are sent in one message.
#[derive(Clone, Debug)]
pub(super) struct ParameterBlock {
    /// Index of the block among all blocks.
    pub(super) index: usize,
    /// Shape `[rows, width]`, where the width is the sum over all parts.
    pub(super) shape: BlockShape,
    parts: Vec<Part>,
    /// Whether the last part shows which rows changed: it changes whenever a row is trained, except for changes lost to
    /// rounding.
    last_part_shows_changes: bool,
}

/// A row that this trainer has changed.
#[derive(Clone, Debug)]
pub(super) struct ChangedRow {
    /// Index of the row.
    pub(super) row: usize,
    /// Current values.
    pub(super) now: Vec<f32>,
    /// Difference from the values last seen.
    pub(super) added: Vec<f32>,
}

/// The values of a block at one time. The values of each part are contiguous, so that one part can be compared alone.
#[derive(Clone, Debug)]
pub(super) struct BlockValues(Vec<f32>);

impl ParameterBlock {
    /// Reads the current values.
    pub(super) fn read(&self, arrays: &SharedArrays) -> BlockValues {
        let mut values = vec![0.0; self.shape.rows * self.shape.width];
        for (part, at) in self.parts_at() {
            let out = &mut values[at..][..self.shape.rows * part.width];
            arrays.read(&part.array, part.row, part.column, part.width, out);
        }
        BlockValues(values)
    }

    /// Returns the rows that changed since `seen`. Unless `thorough`, rows of a table may be missing whose change was
    /// too small to change their Adagrad sum.
    pub(super) fn changed(
        &self,
        arrays: &SharedArrays,
        seen: &BlockValues,
        thorough: bool,
    ) -> Vec<ChangedRow> {
        let look = match thorough || !self.last_part_shows_changes {
            true => &self.parts[..],
            false => &self.parts[self.parts.len() - 1..],
        };
        let mut is_changed = vec![false; self.shape.rows];
        let mut now = Vec::new();
        for (part, at) in self.parts_at().skip(self.parts.len() - look.len()) {
            now.resize(self.shape.rows * part.width, 0.0);
            arrays.read(&part.array, part.row, part.column, part.width, &mut now);
            let before = &seen.0[at..][..now.len()];
            let rows = now.chunks_exact(part.width);
            for (flag, (now, before)) in is_changed
                .iter_mut()
                .zip(rows.zip(before.chunks_exact(part.width)))
            {
                *flag |= now != before;
            }
        }
        let rows = (0..self.shape.rows).filter(|row| is_changed[*row]);
        rows.map(|row| self.difference(arrays, seen, row)).collect()
    }

    fn difference(&self, arrays: &SharedArrays, seen: &BlockValues, row: usize) -> ChangedRow {
        let now = self.read_row(arrays, row);
        let before = seen.row(self, row);
        let added = now.iter().zip(&before).map(|(now, before)| now - before);
        ChangedRow {
            row,
            added: added.collect(),
            now,
        }
    }

    fn read_row(&self, arrays: &SharedArrays, row: usize) -> Vec<f32> {
        let mut values = vec![0.0; self.shape.width];
        let mut rest = &mut values[..];
        for part in &self.parts {
            let (out, behind) = rest.split_at_mut(part.width);
            arrays.read(&part.array, part.row + row, part.column, part.width, out);
            rest = behind;
        }
        values
    }

    /// Changes a row. No worker may change it at the same time.
    pub(super) fn change(
        &self,
        arrays: &SharedArrays,
        row: usize,
        change: impl FnOnce(&mut [f32]),
    ) {
        let mut values = self.read_row(arrays, row);
        change(&mut values);
        let mut rest = &mut values[..];
        for part in &self.parts {
            let (new, behind) = rest.split_at_mut(part.width);
            // Adagrad takes the root of a sum, and differences of rounded sums, or those of a hostile trainer, could make
            // it negative.
            if part.array.is_adagrad() {
                new.iter_mut().for_each(|sum| *sum = sum.max(0.0));
            }
            arrays.write(&part.array, part.row + row, part.column, new);
            rest = behind;
        }
    }

    /// Returns the parts, each with its offset in [`BlockValues`].
    fn parts_at(&self) -> impl Iterator<Item = (&Part, usize)> {
        let mut next = 0;
        self.parts.iter().map(move |part| {
            let at = next;
            next += self.shape.rows * part.width;
            (part, at)
        })
    }
}

impl BlockValues {
    /// Returns a row. `block` must be the block of these values.
    pub(super) fn row(&self, block: &ParameterBlock, row: usize) -> Vec<f32> {
        let mut values = Vec::with_capacity(block.shape.width);
        for (part, at) in block.parts_at() {
            values.extend_from_slice(&self.0[at + row * part.width..][..part.width]);
        }
        values
    }

    /// Replaces a row.
    pub(super) fn set_row(&mut self, block: &ParameterBlock, row: usize, values: &[f32]) {
        let mut rest = values;
        for (part, at) in block.parts_at() {
            let (new, behind) = rest.split_at(part.width);
            self.0[at + row * part.width..][..part.width].copy_from_slice(new);
            rest = behind;
        }
    }

    /// Returns all rows, one after the other.
    pub(super) fn rows(&self, block: &ParameterBlock) -> Vec<f32> {
        let mut rows = vec![0.0; self.0.len()];
        let mut column = 0;
        for (part, at) in block.parts_at() {
            let of_part = self.0[at..].chunks_exact(part.width.max(1));
            let whole = rows.chunks_exact_mut(block.shape.width.max(1));
            for (row, values) in whole.zip(of_part) {
                row[column..][..part.width].copy_from_slice(values);
            }
            column += part.width;
        }
        rows
    }
}

/// Cuts `arrays` into blocks, which are the same on every trainer.
pub(super) fn cut_into_blocks(arrays: &SharedArrays) -> Vec<ParameterBlock> {
    let mut blocks = Vec::new();
    for joint in arrays.exchange_groups() {
        let width: usize = joint.iter().map(|array| arrays.shape(array).width).sum();
        let rows = joint.first().map_or(0, |array| arrays.shape(array).rows);
        match rows_of_a_block(width) {
            0 => joint
                .iter()
                .for_each(|array| cut_columns(arrays, array, &mut blocks)),
            step => cut_rows(arrays, &joint, rows, step, &mut blocks),
        }
    }
    blocks
}

/// Returns how many rows of `width` numbers fit into a block.
fn rows_of_a_block(width: usize) -> usize {
    BLOCK_BYTES / (4 * width + 4)
}

fn cut_rows(
    arrays: &SharedArrays,
    joint: &[ArrayId],
    rows: usize,
    step: usize,
    blocks: &mut Vec<ParameterBlock>,
) {
    let width = |array: &ArrayId| arrays.shape(array).width;
    for row in (0..rows).step_by(step) {
        let part = |array: &ArrayId| Part {
            array: *array,
            row,
            column: 0,
            width: width(array),
        };
        blocks.push(ParameterBlock {
            index: blocks.len(),
            shape: BlockShape {
                rows: step.min(rows - row),
                width: joint.iter().map(width).sum(),
            },
            parts: joint.iter().map(part).collect(),
            last_part_shows_changes: joint.len() > 1,
        });
    }
}

/// Cuts rows that are too long for a message into blocks of some columns of one row.
fn cut_columns(arrays: &SharedArrays, array: &ArrayId, blocks: &mut Vec<ParameterBlock>) {
    let BlockShape { rows, width } = arrays.shape(array);
    let most = BLOCK_BYTES / 4 - 1;
    for row in 0..rows {
        for column in (0..width).step_by(most) {
            let width = most.min(width - column);
            blocks.push(ParameterBlock {
                index: blocks.len(),
                shape: BlockShape { rows: 1, width },
                parts: vec![Part {
                    array: *array,
                    row,
                    column,
                    width,
                }],
                last_part_shows_changes: false,
            });
        }
    }
}

/// Returns the owner of shard `index` among the trainers with `tokens`.
pub(super) fn owner<'a>(tokens: impl Iterator<Item = &'a Token>, index: usize) -> Option<Token> {
    let key = (index as u64).to_le_bytes();
    tokens
        .max_by_key(|token| (token.rendezvous_hash(&key), **token))
        .copied()
}

/// The owner of every shard. Recomputed only when a trainer joins or leaves.
#[derive(Default)]
pub(super) struct Owners {
    tokens: Vec<Token>,
    of: Vec<Option<Token>>,
}

impl Owners {
    /// Computes the owners of `shards` shards among `tokens`, unless they are known.
    pub(super) fn update(&mut self, tokens: Vec<Token>, shards: usize) {
        if tokens != self.tokens || self.of.len() != shards {
            self.of = (0..shards).map(|i| owner(tokens.iter(), i)).collect();
            self.tokens = tokens;
        }
    }

    /// Returns the owner of shard `index`, or `None` if there are no trainers.
    pub(super) fn of(&self, index: usize) -> Option<Token> {
        self.of.get(index).copied().flatten()
    }
}

#[cfg(test)]
mod tests;
