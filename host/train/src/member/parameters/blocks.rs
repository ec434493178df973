//! How what trainers have in common is cut into blocks, and who owns one.
//!
//! A block is some rows of an array, or some columns of one row where a row alone is too long for a message. A table's
//! embeddings and Adagrad's sums are rows of one block: a number that grows whenever a row is trained tells then which rows
//! to look at, and the rest of a large table is not read.

use pbg_core::ledger::Token;
use pbg_core::seed::{self, Purpose};

use super::arrays::{Array, Arrays};
use super::message::{BlockRows, Shape};

/// Most bytes of a block's rows in a message, each with its number.
const BLOCK_BYTES: usize = 512 << 10;

/// Columns of consecutive rows of an array.
#[derive(Clone, Debug)]
struct Part {
    array: Array,
    /// The first row.
    row: usize,
    /// The first column.
    column: usize,
    /// Columns.
    width: usize,
}

/// Numbers that are exchanged together.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Its place among all.
    pub(super) index: usize,
    /// Rows, and numbers of each: those of all parts.
    pub(super) shape: Shape,
    parts: Vec<Part>,
    /// Whether the numbers of the last part change whenever a row is trained, but for what rounding swallows.
    tells: bool,
}

/// A row that a trainer changed.
#[derive(Clone, Debug)]
pub(super) struct Changed {
    /// Which.
    pub(super) row: usize,
    /// Its values now.
    pub(super) now: Vec<f32>,
    /// What was added since they were seen last.
    pub(super) added: Vec<f32>,
}

/// The values of a block at one time. Those of a part lie side by side, so that one part can be compared alone.
#[derive(Clone, Debug)]
pub(super) struct Values(Vec<f32>);

impl Block {
    /// The values as they are now.
    pub(super) fn read(&self, arrays: &Arrays) -> Values {
        let mut values = vec![0.0; self.shape.rows * self.shape.width];
        for (part, at) in self.parts_at() {
            let out = &mut values[at..][..self.shape.rows * part.width];
            arrays.read(&part.array, part.row, part.column, part.width, out);
        }
        Values(values)
    }

    /// The rows that changed since `seen`. Unless it is `thorough`, rows of a table may be missing whose change was too
    /// small for their Adagrad's sum.
    pub(super) fn changed(&self, arrays: &Arrays, seen: &Values, thorough: bool) -> Vec<Changed> {
        let look = match thorough || !self.tells {
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

    fn difference(&self, arrays: &Arrays, seen: &Values, row: usize) -> Changed {
        let now = self.read_row(arrays, row);
        let before = seen.row(self, row);
        let added = now.iter().zip(&before).map(|(now, before)| now - before);
        Changed {
            row,
            added: added.collect(),
            now,
        }
    }

    fn read_row(&self, arrays: &Arrays, row: usize) -> Vec<f32> {
        let mut values = vec![0.0; self.shape.width];
        let mut rest = &mut values[..];
        for part in &self.parts {
            let (out, behind) = rest.split_at_mut(part.width);
            arrays.read(&part.array, part.row + row, part.column, part.width, out);
            rest = behind;
        }
        values
    }

    /// Changes a row, while no worker does.
    pub(super) fn change(&self, arrays: &Arrays, row: usize, change: impl FnOnce(&mut [f32])) {
        let mut values = self.read_row(arrays, row);
        change(&mut values);
        let mut rest = &values[..];
        for part in &self.parts {
            let (new, behind) = rest.split_at(part.width);
            arrays.write(&part.array, part.row + row, part.column, new);
            rest = behind;
        }
    }

    /// The parts, and where each begins in [`Values`].
    fn parts_at(&self) -> impl Iterator<Item = (&Part, usize)> {
        let mut next = 0;
        self.parts.iter().map(move |part| {
            let at = next;
            next += self.shape.rows * part.width;
            (part, at)
        })
    }
}

impl Values {
    /// A row of `block`, whose values these are.
    pub(super) fn row(&self, block: &Block, row: usize) -> Vec<f32> {
        let parts = block.parts_at();
        parts
            .flat_map(|(part, at)| &self.0[at + row * part.width..][..part.width])
            .copied()
            .collect()
    }

    /// Replaces a row.
    pub(super) fn set_row(&mut self, block: &Block, row: usize, values: &[f32]) {
        let mut rest = values;
        for (part, at) in block.parts_at() {
            let (new, behind) = rest.split_at(part.width);
            self.0[at + row * part.width..][..part.width].copy_from_slice(new);
            rest = behind;
        }
    }

    /// All rows by their numbers.
    pub(super) fn numbered(&self, block: &Block) -> BlockRows {
        let rows = 0..block.shape.rows;
        rows.map(|row| (row as u32, self.row(block, row))).collect()
    }
}

/// The blocks of `arrays`: the same for every trainer.
pub(super) fn cut(arrays: &Arrays) -> Vec<Block> {
    let mut blocks = Vec::new();
    for joint in arrays.joint() {
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

/// How many rows of `width` numbers a block has room for.
fn rows_of_a_block(width: usize) -> usize {
    BLOCK_BYTES / (4 * width + 4)
}

fn cut_rows(arrays: &Arrays, joint: &[Array], rows: usize, step: usize, blocks: &mut Vec<Block>) {
    let width = |array: &Array| arrays.shape(array).width;
    for row in (0..rows).step_by(step) {
        let part = |array: &Array| Part {
            array: *array,
            row,
            column: 0,
            width: width(array),
        };
        blocks.push(Block {
            index: blocks.len(),
            shape: Shape {
                rows: step.min(rows - row),
                width: joint.iter().map(width).sum(),
            },
            parts: joint.iter().map(part).collect(),
            tells: joint.len() > 1,
        });
    }
}

/// Blocks of a few columns of one row each, where a message has no room for a row.
fn cut_columns(arrays: &Arrays, array: &Array, blocks: &mut Vec<Block>) {
    let Shape { rows, width } = arrays.shape(array);
    let most = BLOCK_BYTES / 4 - 1;
    for row in 0..rows {
        for column in (0..width).step_by(most) {
            let width = most.min(width - column);
            blocks.push(Block {
                index: blocks.len(),
                shape: Shape { rows: 1, width },
                parts: vec![Part {
                    array: *array,
                    row,
                    column,
                    width,
                }],
                tells: false,
            });
        }
    }
}

/// The owner of shard `index`: the trainer with the highest hash of both (rendezvous hashing, Thaler and Ravishankar 1998).
/// One that comes or goes changes the owner of its share of the shards only.
pub(super) fn owner<'a>(tokens: impl Iterator<Item = &'a Token>, index: usize) -> Option<Token> {
    let hash = |token: &&Token| {
        let bytes = [token.0.to_le_bytes(), (index as u64).to_le_bytes()];
        (
            seed::of_text(0, Purpose::Order, bytes.as_flattened()),
            **token,
        )
    };
    tokens.max_by_key(hash).copied()
}

/// The owner of every shard, computed anew when somebody comes or goes.
#[derive(Default)]
pub(super) struct Owners {
    tokens: Vec<Token>,
    of: Vec<Option<Token>>,
}

impl Owners {
    /// The owners of `shards` shards among `tokens`.
    pub(super) fn update(&mut self, tokens: Vec<Token>, shards: usize) {
        if tokens != self.tokens || self.of.len() != shards {
            self.of = (0..shards).map(|i| owner(tokens.iter(), i)).collect();
            self.tokens = tokens;
        }
    }

    /// The owner of shard `index`; none if nobody is there.
    pub(super) fn of(&self, index: usize) -> Option<Token> {
        self.of.get(index).copied().flatten()
    }
}

#[cfg(test)]
mod tests;
