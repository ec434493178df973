//! A loss that is a graph, run on rows of scores.

mod schedule;
mod steps;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use multiversion::multiversion;
use multiversion::target::target_cfg_f;
use pbg_core::loss::{Derived, FailedRows, KeepRows, LossState, TracedLoss};
use pbg_core::strategy::{Cause, Formula, Loss, MASKED, StrategyError, StrategyId};

use super::program::{Gradient, POSITIVE, Program, SCORES};
use super::rows::{Lane, ROWS, WIDTH};
use super::tile::{self, numbers};
use schedule::Schedule;
use steps::Tiles;

/// Lanes of a tile, where a row has fewer: 16 KiB, so that a few tiles fit the first-level cache.
const TILE_LANES: usize = 256;

/// A [`Loss`] from a graph and its gradient. Buffers are kept from call to call, a set per worker.
pub struct Traced {
    id: StrategyId,
    derived: Arc<Derived>,
    program: Program,
    parameters: RwLock<Vec<f32>>,
    schedule: Option<Mutex<Schedule>>,
    keep: Option<KeepRows>,
    idle: Mutex<Vec<Buffers>>,
}

/// What one call works on.
#[derive(Default)]
struct Buffers {
    tiles: Vec<Vec<Lane>>,
    vectors: Vec<[Lane; ROWS / WIDTH]>,
    /// A row of a tile.
    scratch: Vec<Lane>,
    /// Sums on their way, or that nobody wants.
    sums: [Vec<f32>; 2],
}

impl Buffers {
    /// Tiles of `rows` rows of `lanes` lanes.
    #[inline(always)]
    fn tiles(&mut self, lanes: usize, rows: usize) -> Tiles<'_> {
        let [first, second] = &mut self.sums;
        Tiles {
            tiles: &mut self.tiles,
            vectors: &mut self.vectors,
            scratch: &mut self.scratch,
            sums: [first, second],
            lanes,
            rows,
        }
    }
}

/// A few rows.
struct Block<'a> {
    positive: &'a [f32],
    scores: &'a mut [f32],
    columns: usize,
    /// Lanes of a row.
    lanes: usize,
    positive_gradient: &'a mut [f32],
    loss: &'a mut [f32],
}

impl Traced {
    /// Derives the gradient and plans the execution.
    #[must_use]
    pub fn new(loss: TracedLoss) -> Self {
        let TracedLoss {
            id,
            graph,
            schedule,
            keep,
        } = loss;
        let values = graph.parameters().iter().map(|p| p.value).collect();
        let schedule = schedule.zip(graph.update_every());
        let derived = Arc::new(Derived::of(&graph));
        Self {
            id,
            program: Program::new(&derived),
            derived,
            parameters: RwLock::new(values),
            schedule: schedule.map(|(guest, every)| Mutex::new(Schedule::new(guest, every))),
            keep,
            idle: Mutex::default(),
        }
    }

    fn buffers(&self, lanes: usize, rows: usize) -> Buffers {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let mut buffers = idle.unwrap_or_default();
        buffers.tiles.resize_with(self.program.tiles, Vec::new);
        for tile in &mut buffers.tiles {
            if tile.len() < lanes * rows {
                tile.resize(lanes * rows, [0.0; WIDTH]);
            }
        }
        buffers
            .vectors
            .resize(self.program.vectors, [[0.0; WIDTH]; ROWS / WIDTH]);
        buffers.scratch.resize(lanes, [0.0; WIDTH]);
        for sums in &mut buffers.sums {
            sums.resize(ROWS, 0.0);
        }
        buffers
    }

    /// Whether it is the graph's doing that something of what it made of these rows is not finite:
    /// of scores that are not finite nobody can make a loss.
    fn judge(
        &self,
        positive: &[f32],
        negative: &[f32],
        columns: usize,
        made: [&[f32]; 3],
    ) -> Result<(), StrategyError> {
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
                "its formula gives {value} as {what} where the positive's score is {} and those \
                 of {columns} negatives lie from {least} to {most}; every number must be finite, \
                 whatever the scores",
                positive[row]
            )
            .into(),
            cause: Cause::Strategy,
        };
        let Some(keep) = &self.keep else {
            return Err(error);
        };
        let parameters = self.parameters.read();
        Err(keep(
            error,
            FailedRows {
                positive,
                negative,
                columns,
                parameters: &parameters.unwrap_or_else(PoisonError::into_inner),
            },
        ))
    }

    /// Numbers that are the same for all rows of a call.
    fn set_numbers(&self, buffers: &mut Buffers, columns: usize) {
        let parameters = self
            .parameters
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let constants = self.program.constants.iter().copied();
        let parameters = self
            .program
            .parameters
            .iter()
            .map(|&(vector, index)| (vector, parameters[index]));
        let columns = self.program.columns.map(|vector| (vector, columns as f32));
        for (vector, value) in constants.chain(parameters).chain(columns) {
            buffers.vectors[vector] = [[value; WIDTH]; ROWS / WIDTH];
        }
    }
}

fn all_finite(values: &[f32]) -> bool {
    values
        .iter()
        .fold(true, |all, value| all & value.is_finite())
}

/// Lanes of a row, and rows of a tile.
fn shape(columns: usize) -> (usize, usize) {
    let lanes = columns.div_ceil(WIDTH).max(1);
    (lanes, (TILE_LANES / lanes).clamp(1, ROWS))
}

impl Loss for Traced {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn evaluate(
        &self,
        positive: &[f32],
        negative: &mut [f32],
        columns: usize,
        positive_gradient: &mut [f32],
        loss: &mut [f32],
    ) -> Result<(), StrategyError> {
        let (lanes, rows) = shape(columns);
        let mut buffers = self.buffers(lanes, rows);
        self.set_numbers(&mut buffers, columns);
        let mut negative = negative;
        let blocks = positive
            .chunks(rows)
            .zip(positive_gradient.chunks_mut(rows))
            .zip(loss.chunks_mut(rows));
        run_prologue(&self.program, &mut buffers, lanes);
        for ((positive, positive_gradient), loss) in blocks {
            let (scores, rest) = negative.split_at_mut(positive.len() * columns);
            negative = rest;
            let block = Block {
                positive,
                scores: &mut *scores,
                columns,
                lanes,
                positive_gradient: &mut *positive_gradient,
                loss: &mut *loss,
            };
            run_block(&self.program, &mut buffers, block);
            if !(all_finite(loss) && all_finite(positive_gradient) && all_finite(scores)) {
                let tile = buffers.tiles[SCORES].as_flattened();
                let rows = tile.chunks(lanes * WIDTH).take(positive.len());
                let before: Vec<f32> = rows.flat_map(|row| &row[..columns]).copied().collect();
                self.judge(
                    positive,
                    &before,
                    columns,
                    [loss, positive_gradient, scores],
                )?;
            }
        }
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(buffers);
        Ok(())
    }

    fn formula(&self) -> Option<Formula> {
        let parameters = self.parameters.read();
        Some(Formula {
            derived: Arc::clone(&self.derived),
            parameters: parameters.unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }

    fn observe(&self, edges: usize, loss: f64) -> Result<(), StrategyError> {
        match &self.schedule {
            Some(schedule) => schedule
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .observe(&self.id, &self.parameters, edges, loss),
            None => Ok(()),
        }
    }

    fn state(&self) -> Option<LossState> {
        let schedule = self.schedule.as_ref()?;
        let schedule = schedule.lock().unwrap_or_else(PoisonError::into_inner);
        Some(schedule.state(&self.parameters))
    }

    fn restore(&self, state: &LossState) -> Result<(), String> {
        match &self.schedule {
            Some(schedule) => schedule
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .restore(&self.parameters, state),
            None => Err(format!("{} has no parameters that change", self.id)),
        }
    }

    fn worker_bytes(&self, columns: usize) -> usize {
        let (lanes, rows) = shape(columns);
        let tiles = self.program.tiles * lanes * rows * size_of::<Lane>();
        tiles + self.program.vectors * ROWS * size_of::<f32>()
    }
}

#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn run_prologue(program: &Program, buffers: &mut Buffers, lanes: usize) {
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
fn run_block(program: &Program, buffers: &mut Buffers, block: Block<'_>) {
    if target_cfg_f!(target_feature = "fma") {
        block_of::<true>(program, buffers, block);
    } else {
        block_of::<false>(program, buffers, block);
    }
}

#[inline(always)]
fn block_of<const FMA: bool>(program: &Program, buffers: &mut Buffers, block: Block<'_>) {
    let Block {
        positive,
        scores,
        columns,
        lanes,
        positive_gradient,
        loss,
    } = block;
    let rows = positive.len();
    let mut tiles = buffers.tiles(lanes, rows);
    tiles.vector(POSITIVE).copy_from_slice(positive);
    tile::load(tiles.tile(SCORES), scores, columns, lanes);
    if let Some(out) = program.largest {
        tiles.largest_scores(out);
    }
    for step in &program.steps {
        tiles.step::<FMA>(step);
    }
    let Buffers { tiles, vectors, .. } = buffers;
    loss.copy_from_slice(numbers(vectors, program.loss, rows));
    positive_gradient.copy_from_slice(numbers(vectors, program.positive, rows));
    let loaded = &tiles[SCORES][..rows * lanes];
    match program.negative {
        Gradient::Tile(x) => {
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
        Gradient::Scaled(x, factor) => {
            let factor = numbers(vectors, factor, rows);
            tile::store(scores, columns, &tiles[x], loaded, lanes, factor, |x, f| {
                x * f
            });
        }
        Gradient::Vector(vector) => {
            let value = numbers(vectors, vector, rows);
            tile::store(scores, columns, loaded, loaded, lanes, value, |_, v| v);
        }
    }
}
