//! Evaluation of a loss graph on one thread.

use std::sync::Arc;

use multiversion::multiversion;
use multiversion::target::target_cfg_f;
use pbg_core::loss::{FailedRows, named_values};
use pbg_core::strategy::{FaultCause, LossFormula, LossWorker, MASKED, ScoreBlock, StrategyError};

use super::steps::TileBuffers;
use super::{Shared, shape};
use crate::losses::program::{LossProgram, NegativeGradient, POSITIVE, SCORES};
use crate::losses::tile::{self, numbers};
use crate::losses::vectors::{Lane, ROWS, WIDTH};

/// A worker that evaluates a graph with its own buffers.
pub(super) struct GraphLossWorker {
    loss: Arc<Shared>,
    /// The graph with this worker's copy of its parameters.
    formula: LossFormula,
    /// Number of parameter changes when the copy was made; `u64::MAX` before the first copy.
    changes: u64,
    buffers: Buffers,
}

impl GraphLossWorker {
    pub(super) fn new(loss: Arc<Shared>) -> Self {
        Self {
            formula: LossFormula {
                derived: Arc::clone(&loss.derived),
                parameters: Vec::new(),
            },
            loss,
            changes: u64::MAX,
            buffers: Buffers::default(),
        }
    }

    fn update_parameters(&mut self) {
        let parameters = &self.loss.parameters;
        parameters.copy_changed(&mut self.changes, &mut self.formula.parameters);
    }
}

/// Buffers of [`LossWorker::evaluate`], which the next call reuses.
#[derive(Default)]
struct Buffers {
    tiles: Vec<Vec<Lane>>,
    vectors: Vec<[Lane; ROWS / WIDTH]>,
    /// Intermediate values of one row of a tile.
    scratch: Vec<Lane>,
    /// Sums of the rows that a step computes together with its tile, before those that the program uses are copied to
    /// vectors.
    sums: [Vec<f32>; 2],
}

impl Buffers {
    /// Grows the buffers to tiles of `rows` rows, each of `lanes` lanes.
    fn fit(&mut self, program: &LossProgram, lanes: usize, rows: usize) {
        self.tiles.resize_with(program.tiles, Vec::new);
        for tile in &mut self.tiles {
            if tile.len() < lanes * rows {
                tile.resize(lanes * rows, [0.0; WIDTH]);
            }
        }
        self.vectors
            .resize(program.vectors, [[0.0; WIDTH]; ROWS / WIDTH]);
        self.scratch.resize(lanes, [0.0; WIDTH]);
        for sums in &mut self.sums {
            sums.resize(ROWS, 0.0);
        }
    }

    /// Sets the vectors that hold the same number for all rows of a call: constants, parameters and the number of
    /// columns.
    fn set_numbers(&mut self, program: &LossProgram, parameters: &[f32], columns: usize) {
        let constants = program.constants.iter().copied();
        let parameters = program
            .parameters
            .iter()
            .map(|&(vector, index)| (vector, parameters[index]));
        let columns = program.columns.map(|vector| (vector, columns as f32));
        for (vector, value) in constants.chain(parameters).chain(columns) {
            self.vectors[vector] = [[value; WIDTH]; ROWS / WIDTH];
        }
    }

    /// Returns the scores of the negatives of the rows that were evaluated last, as they were before gradients replaced
    /// them.
    fn scores(&self, rows: usize, columns: usize, lanes: usize) -> Vec<f32> {
        let tile = self.tiles[SCORES].as_flattened();
        let rows = tile.chunks(lanes * WIDTH).take(rows);
        rows.flat_map(|row| &row[..columns]).copied().collect()
    }

    /// Returns the tiles and vectors as steps use them, for `rows` rows of `lanes` lanes each.
    #[inline(always)]
    fn tiles(&mut self, lanes: usize, rows: usize) -> TileBuffers<'_> {
        let [first, second] = &mut self.sums;
        TileBuffers {
            tiles: &mut self.tiles,
            vectors: &mut self.vectors,
            scratch: &mut self.scratch,
            sums: [first, second],
            lanes,
            rows,
        }
    }
}

impl Shared {
    /// Returns an error if the graph computed a value that is not finite from finite scores. `made` are the computed
    /// losses, gradients of positives and gradients of negatives. If scores are not finite, the graph is not at fault,
    /// because no loss of them is finite.
    fn check_finite(&self, rows: FailedRows<'_>, made: [&[f32]; 3]) -> Result<(), StrategyError> {
        let FailedRows {
            positive,
            negative,
            columns,
            parameters,
        } = rows;
        if !(all_finite(positive) && all_finite(negative)) {
            return Ok(());
        }
        let kinds = ["loss", "gradient of a positive", "gradient of a negative"];
        let mut found = kinds.into_iter().zip(made).filter_map(|(what, values)| {
            let at = values.iter().position(|value| !value.is_finite())?;
            Some((
                what,
                values[at],
                if what == kinds[2] { at / columns } else { at },
            ))
        });
        let Some((what, value, row)) = found.next() else {
            return Ok(());
        };
        let negatives = &negative[row * columns..][..columns];
        let present = negatives.iter().filter(|&&score| score != MASKED);
        let (least, most) = present.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, m), &score| {
            (l.min(score), m.max(score))
        });
        let error = StrategyError {
            strategy: self.id.clone(),
            function: "evaluate",
            reason: format!(
                "its formula gives {value} as {what} where the positive's score is {} and the \
                 scores of {columns} negatives range from {least} to {most}{}; losses and gradients must be \
                 finite for all finite scores",
                positive[row],
                self.describe_update(parameters)
            )
            .into(),
            cause: FaultCause::Strategy,
        };
        Err(match &self.keep {
            Some(keep) => keep(error, rows),
            None => error,
        })
    }

    /// Describes the values of the parameters for the error message. Empty if the loss has no `update` function.
    fn describe_update(&self, values: &[f32]) -> String {
        match self.schedule {
            Some(_) => format!(
                " and `update` has set {}",
                named_values(self.parameters.declared(), values)
            ),
            None => String::new(),
        }
    }
}

/// Returns whether all values are finite. Every gradient of a batch is checked, so this compares integers, with one
/// instruction per vector register: without the sign bit, the bits of infinity and NaN are larger integers than those
/// of all other floats.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn all_finite(values: &[f32]) -> bool {
    let bits = |value: &f32| value.to_bits() & !(1 << 31);
    values.iter().map(bits).fold(0, u32::max) < f32::INFINITY.to_bits()
}

impl LossWorker for GraphLossWorker {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        self.update_parameters();
        let Self {
            loss,
            formula,
            buffers,
            ..
        } = self;
        let (program, columns) = (&loss.program, scores.columns);
        let (lanes, rows) = shape(columns);
        buffers.fit(program, lanes, rows);
        buffers.set_numbers(program, &formula.parameters, columns);
        run_prologue(program, buffers, lanes);
        scores.in_blocks(rows, |mut block| {
            run_block(program, buffers, &mut block, lanes);
            let made = [&*block.loss, &*block.positive_gradient, &*block.negative];
            if made.into_iter().all(all_finite) {
                return Ok(());
            }
            let before = buffers.scores(block.rows(), columns, lanes);
            let rows = FailedRows {
                positive: block.positive,
                negative: &before,
                columns,
                parameters: &formula.parameters,
            };
            let result = loss.check_finite(rows, made);
            if result.is_err() {
                block.negative.copy_from_slice(&before);
            }
            result
        })
    }

    fn formula(&mut self) -> Option<&LossFormula> {
        self.update_parameters();
        Some(&self.formula)
    }
}

#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn run_prologue(program: &LossProgram, buffers: &mut Buffers, lanes: usize) {
    let mut tiles = buffers.tiles(lanes, ROWS);
    for step in &program.prologue {
        if target_cfg_f!(target_feature = "fma") {
            tiles.step::<true>(step);
        } else {
            tiles.step::<false>(step);
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn run_block(
    program: &LossProgram,
    buffers: &mut Buffers,
    block: &mut ScoreBlock<'_>,
    lanes: usize,
) {
    if target_cfg_f!(target_feature = "fma") {
        run_block_steps::<true>(program, buffers, block, lanes);
    } else {
        run_block_steps::<false>(program, buffers, block, lanes);
    }
}

#[inline(always)]
fn run_block_steps<const FMA: bool>(
    program: &LossProgram,
    buffers: &mut Buffers,
    block: &mut ScoreBlock<'_>,
    lanes: usize,
) {
    let (rows, columns) = (block.rows(), block.columns);
    let scores = &mut *block.negative;
    let mut tiles = buffers.tiles(lanes, rows);
    tiles.vector(POSITIVE).copy_from_slice(block.positive);
    tile::load(tiles.tile(SCORES), scores, columns, lanes);
    if let Some(out) = program.largest {
        tiles.largest_scores(out);
    }
    for step in &program.steps {
        tiles.step::<FMA>(step);
    }
    let Buffers { tiles, vectors, .. } = buffers;
    block
        .loss
        .copy_from_slice(numbers(vectors, program.loss, rows));
    let positive_gradient = numbers(vectors, program.positive, rows);
    block.positive_gradient.copy_from_slice(positive_gradient);
    let loaded = &tiles[SCORES][..rows * lanes];
    match program.negative {
        NegativeGradient::Tile(x) => {
            let one = [1.0; ROWS];
            tile::store(
                scores,
                columns,
                &tiles[x],
                loaded,
                lanes,
                &one[..rows],
                |x, _| x,
            );
        }
        NegativeGradient::Scaled(x, factor) => {
            let factor = numbers(vectors, factor, rows);
            tile::store(scores, columns, &tiles[x], loaded, lanes, factor, |x, f| {
                x * f
            });
        }
        NegativeGradient::Vector(vector) => {
            let value = numbers(vectors, vector, rows);
            tile::store(scores, columns, loaded, loaded, lanes, value, |_, v| v);
        }
    }
}
