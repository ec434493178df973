//! How parameters are cut into blocks, and who owns one.

use std::ops::Range;

use pbg_core::ledger::Token;
use pbg_core::seed::{self, Purpose};
use pbg_kernels::params::Params;
use pbg_kernels::rows::SharedRows;

use super::message::Rows;

/// Bytes of a block, unless a single row has more.
const BLOCK_BYTES: usize = 512 << 10;

/// Rows of an array that are exchanged together.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Its place among all.
    pub(super) index: usize,
    /// The array: values and accumulators of each tensor in turn.
    array: usize,
    /// Its rows.
    pub(super) rows: Range<usize>,
    /// Numbers of a row.
    pub(super) width: usize,
}

impl Block {
    /// What was added since `seen`, by row; rows that did not change are left out.
    pub(super) fn difference(&self, values: &[f32], seen: &[f32]) -> Rows {
        let rows = values.chunks_exact(self.width);
        let rows = (0..).zip(rows.zip(seen.chunks_exact(self.width)));
        rows.filter(|(_, (now, before))| now != before)
            .map(|(row, (now, before))| {
                let added = now.iter().zip(before).map(|(now, before)| now - before);
                (row, added.collect())
            })
            .collect()
    }
}

/// The blocks of a model: the same for every trainer.
#[derive(Clone, Debug)]
pub(super) struct Blocks(Vec<Block>);

impl Blocks {
    pub(super) fn new(params: &Params) -> Self {
        let mut blocks = Vec::new();
        for (array, rows) in arrays(params).enumerate() {
            let width = rows.width();
            let step = (BLOCK_BYTES / (4 * width.max(1))).max(1);
            for first in (0..rows.rows()).step_by(step) {
                blocks.push(Block {
                    index: blocks.len(),
                    array,
                    rows: first..rows.rows().min(first + step),
                    width,
                });
            }
        }
        Self(blocks)
    }

    pub(super) fn all(&self) -> &[Block] {
        &self.0
    }

    /// The values of a block as they are now.
    pub(super) fn read(&self, params: &Params, block: &Block) -> Vec<f32> {
        let mut values = vec![0.0; block.rows.len() * block.width];
        if let Some(rows) = arrays(params).nth(block.array) {
            rows.read_rows(block.rows.start, &mut values);
        }
        values
    }

    /// Changes a row of a block, while no worker does.
    pub(super) fn change(
        &self,
        params: &Params,
        block: &Block,
        row: usize,
        change: impl FnOnce(&mut [f32]),
    ) {
        let Some(rows) = arrays(params).nth(block.array) else {
            return;
        };
        let mut values = vec![0.0; block.width];
        rows.read_row(block.rows.start + row, &mut values);
        change(&mut values);
        rows.write_row(block.rows.start + row, &values);
    }
}

/// Bytes of the widest row of a model's parameters.
pub(crate) fn widest_row(params: &Params) -> usize {
    arrays(params)
        .map(|rows| 4 * rows.width())
        .max()
        .unwrap_or(0)
}

fn arrays(params: &Params) -> impl Iterator<Item = &SharedRows> {
    let tensors = params.tensors().iter();
    tensors.flat_map(|tensor| [&tensor.values, &tensor.adagrad])
}

/// The owner of block `index`: the trainer with the highest hash of both (rendezvous hashing, Thaler and Ravishankar 1998).
/// One that comes or goes changes the owner of its share of the blocks only.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_comes_takes_its_share_and_nobody_elses_changes() {
        let tokens: Vec<Token> = (1..=8).map(Token).collect();
        let before: Vec<_> = (0..800).map(|i| owner(tokens[..7].iter(), i)).collect();
        let after: Vec<_> = (0..800).map(|i| owner(tokens.iter(), i)).collect();
        let moved = before.iter().zip(&after).filter(|(a, b)| a != b);
        assert!(moved.clone().all(|(_, now)| *now == Some(tokens[7])));
        let moved = moved.count();
        assert!((50..150).contains(&moved), "{moved} of 800");
        assert_eq!(owner([].iter(), 0), None);
    }
}
