//! A loss that is a graph, run on rows of scores.

mod schedule;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use multiversion::multiversion;
use multiversion::target::target_cfg_f;
use pbg_core::loss::{Derived, LossState, TracedLoss};
use pbg_core::strategy::{Formula, Loss, StrategyError, StrategyId};

use super::program::{Gradient, Operand, POSITIVE, Pair, Program, SCORES, Step};
use super::rows::{self, Lane, ROWS, WIDTH, with_binary, with_unary};
use super::tile::{self, numbers};
use crate::losses::maths;
use schedule::Schedule;

/// Lanes of a tile, where a row has fewer: 16 KiB, so that a few tiles fit the first-level cache.
const TILE_LANES: usize = 256;

/// A [`Loss`] from a graph and its gradient. Buffers are kept from call to call, a set per worker.
pub struct Traced {
    id: StrategyId,
    derived: Arc<Derived>,
    program: Program,
    parameters: RwLock<Vec<f32>>,
    schedule: Option<Mutex<Schedule>>,
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
        run_prologue(&self.program, &mut buffers);
        for ((positive, positive_gradient), loss) in blocks {
            let (scores, rest) = negative.split_at_mut(positive.len() * columns);
            negative = rest;
            let block = Block {
                positive,
                scores,
                columns,
                lanes,
                positive_gradient,
                loss,
            };
            run_block(&self.program, &mut buffers, block);
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
fn run_prologue(program: &Program, buffers: &mut Buffers) {
    let (vectors, lanes) = (&mut buffers.vectors, ROWS / WIDTH);
    for step in &program.prologue {
        if target_cfg_f!(target_feature = "fma") {
            vector_step::<true>(step, vectors, lanes);
        } else {
            vector_step::<false>(step, vectors, lanes);
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
    let Buffers {
        tiles,
        vectors,
        scratch,
        sums,
    } = buffers;
    vectors[POSITIVE].as_flattened_mut()[..rows].copy_from_slice(positive);
    let loaded = &mut tiles[SCORES][..rows * lanes];
    tile::load(loaded, scores, columns, lanes);
    if let Some(out) = program.largest {
        let out = &mut vectors[out].as_flattened_mut()[..rows];
        tile::largest_scores(loaded, lanes, out);
    }
    for step in &program.steps {
        match step {
            Step::VectorUnary { .. } | Step::VectorBinary { .. } | Step::VectorSelect { .. } => {
                vector_step::<FMA>(step, vectors, rows.div_ceil(WIDTH));
            }
            step => tile_step::<FMA>(step, tiles, vectors, (scratch, sums), lanes, rows),
        }
    }
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

#[inline(always)]
fn vector_step<const FMA: bool>(step: &Step, vectors: &mut rows::Vectors, lanes: usize) {
    match *step {
        Step::VectorUnary { op, out, x } => rows::unary::<FMA>(vectors, lanes, op, out, x),
        Step::VectorBinary { op, out, a, b } => rows::binary(vectors, lanes, op, out, [a, b]),
        Step::VectorSelect { out, operands } => rows::select(vectors, lanes, out, operands),
        _ => {}
    }
}

/// One step over the first `rows` rows. No step writes a tile that it reads, so the tile is taken out.
#[inline(always)]
fn tile_step<const FMA: bool>(
    step: &Step,
    tiles: &mut [Vec<Lane>],
    vectors: &mut rows::Vectors,
    (scratch, [first, second]): (&mut [Lane], &mut [Vec<f32>; 2]),
    lanes: usize,
    rows: usize,
) {
    let size = rows * lanes;
    match *step {
        Step::Unary { op, out, x, sum } => {
            let mut taken = std::mem::take(&mut tiles[out]);
            let (x, scores) = (&tiles[x][..size], &tiles[SCORES][..size]);
            let made = &mut taken[..size];
            match sum {
                Some(sum) => {
                    let sums = &mut vectors[sum].as_flattened_mut()[..rows];
                    with_unary!(op, FMA, f => tile::map_sum(made, x, scores, lanes, sums, f));
                }
                None => with_unary!(op, FMA, f => tile::map(made, x, f)),
            }
            tiles[out] = taken;
        }
        Step::Binary { op, out, a, b } => {
            let mut taken = std::mem::take(&mut tiles[out]);
            let made = &mut taken[..size];
            match (a, b) {
                (Operand::Tile(a), Operand::Tile(b)) => {
                    with_binary!(op, f => tile::zip(made, &tiles[a], &tiles[b], f));
                }
                (Operand::Tile(a), Operand::Vector(b)) => {
                    let b = numbers(vectors, b, rows);
                    with_binary!(op, f => tile::zip_rows(made, &tiles[a], lanes, b, f));
                }
                (Operand::Vector(a), Operand::Tile(b)) => {
                    let a = numbers(vectors, a, rows);
                    with_binary!(op, f => tile::zip_rows(made, &tiles[b], lanes, a, |b, a| f(a, b)));
                }
                (Operand::Vector(_), Operand::Vector(_)) => {}
            }
            tiles[out] = taken;
        }
        Step::Product { out, a, b, sum } => {
            let mut taken = std::mem::take(&mut tiles[out]);
            let (a, b, scores) = (&tiles[a][..size], &tiles[b][..size], &tiles[SCORES][..size]);
            match sum {
                Some(sum) => {
                    let sums = &mut vectors[sum].as_flattened_mut()[..rows];
                    tile::product_sum(&mut taken[..size], a, b, scores, lanes, sums);
                }
                None => tile::zip(&mut taken[..size], a, b, |a, b| a * b),
            }
            tiles[out] = taken;
        }
        Step::Select { out, operands } => {
            let mut taken = std::mem::take(&mut tiles[out]);
            let operands = operands.map(|tile| &tiles[tile][..size]);
            tile::select(&mut taken[..size], operands);
            tiles[out] = taken;
        }
        Step::Broadcast { out, x } => {
            let rows = numbers(vectors, x, rows);
            tile::broadcast(&mut tiles[out][..size], lanes, rows);
        }
        Step::Pair { op, out, x, sums } => {
            let mut taken = out.map(|tile| std::mem::take(&mut tiles[tile]));
            let (x, scores) = (&tiles[x][..size], &tiles[SCORES][..size]);
            let made = taken.each_mut().map(|tile| &mut tile[..size]);
            let found = [&mut first[..rows], &mut second[..rows]];
            match op {
                Pair::Softplus => tile::map_two(made, x, scores, lanes, found, |x| {
                    let (sigmoid, softplus) = maths::sigmoid_and_softplus::<FMA>(x, 1.0);
                    [softplus, sigmoid]
                }),
                Pair::Relu => tile::map_two(made, x, scores, lanes, found, |x| {
                    [maths::relu(x), if x >= 0.0 { 1.0 } else { 0.0 }]
                }),
            }
            for (tile, taken) in out.into_iter().zip(taken) {
                tiles[tile] = taken;
            }
            for (wanted, found) in sums.into_iter().zip([first, second]) {
                if let Some(vector) = wanted {
                    vectors[vector].as_flattened_mut()[..rows].copy_from_slice(&found[..rows]);
                }
            }
        }
        Step::ExpShift { out, x, shift, sum } => {
            let mut taken = std::mem::take(&mut tiles[out]);
            let (x, scores) = (&tiles[x][..size], &tiles[SCORES][..size]);
            let shifts = numbers(vectors, shift, rows);
            let (made, sums) = (&mut taken[..size], &mut first[..rows]);
            tile::exp_shift::<FMA>(made, x, scores, lanes, shifts, sums);
            vectors[sum].as_flattened_mut()[..rows].copy_from_slice(&first[..rows]);
            tiles[out] = taken;
        }
        Step::Sum { out, x } => {
            let sums = &mut vectors[out].as_flattened_mut()[..rows];
            let (x, scores) = (&tiles[x][..size], &tiles[SCORES][..size]);
            tile::sum(x, scores, lanes, scratch, sums);
        }
        Step::Max { out, x } => {
            let largest = &mut vectors[out].as_flattened_mut()[..rows];
            let (x, scores) = (&tiles[x][..size], &tiles[SCORES][..size]);
            tile::max(x, scores, lanes, scratch, largest);
        }
        Step::VectorUnary { .. } | Step::VectorBinary { .. } | Step::VectorSelect { .. } => {}
    }
}
