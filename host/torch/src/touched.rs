//! Which rows of tables a batch touches, each once, and where every edge and draw finds its own.

use pbg_core::batch_graph::Negatives;
use pbg_core::graph::Side;
use tch::{TchError, Tensor};

use super::place::TorchPlace;
use pbg_kernels::device::BatchPlan;
use pbg_kernels::step::BatchJob;

const NONE: u32 = u32::MAX;
/// Columns of [`Touched`].
const COLUMNS: usize = 10;

/// Different rows of one table or tensor, numbered in the order in which they were touched.
#[derive(Debug, Default)]
struct Numbers {
    /// The number of each row.
    of: Vec<u32>,
    /// The rows by number.
    rows: Vec<i64>,
}

impl Numbers {
    /// Forgets all, for a table of `rows` rows.
    fn reset(&mut self, rows: usize) {
        for &row in &self.rows {
            self.of[row as usize] = NONE;
        }
        self.rows.clear();
        if self.of.len() < rows {
            self.of.resize(rows, NONE);
        }
    }

    fn touch(&mut self, row: u32) {
        let number = &mut self.of[row as usize];
        if *number == NONE {
            *number = self.rows.len() as u32;
            self.rows.push(i64::from(row));
        }
    }

    fn of(&self, row: u32) -> i64 {
        i64::from(self.of[row as usize])
    }
}

/// Numbers rows for batch after batch.
#[derive(Debug, Default)]
pub(super) struct Touch {
    tables: [Numbers; 2],
    relations: Numbers,
}

/// What one batch touches, on the host.
#[derive(Debug)]
pub(super) struct Offsets {
    /// The columns of [`Touched`], one behind the other.
    columns: Vec<i64>,
    /// Where each of them ends.
    ends: [usize; COLUMNS],
    /// See [`Touched::relation_counts`].
    relation_counts: Vec<f32>,
}

/// What one batch touches, on the device. All are offsets, `i64`.
pub(super) struct Touched {
    /// Rows of each side's table that are in the working set; none of the right one if both are the same.
    pub(super) rows: [Tensor; 2],
    /// Where in the working set the positives of each side are: the left table's rows come first.
    pub(super) positives: [Tensor; 2],
    /// The same of draws that replace each side.
    pub(super) draws: [Tensor; 2],
    /// With all negatives: the positives' offsets in their own table.
    pub(super) positive_entities: [Tensor; 2],
    /// Rows of the operator's tensors: of the relations that occur, or the only one.
    pub(super) relations: Tensor,
    /// Which of them each edge has; empty with static relations.
    pub(super) relation_of_edge: Tensor,
    /// How many edges have each of them; with static relations, how often N3 counts it.
    pub(super) relation_counts: Vec<f32>,
}

impl Touch {
    /// Numbers what a batch touches.
    pub(super) fn batch(&mut self, job: &BatchJob<'_>, plan: &BatchPlan) -> Offsets {
        self.number(job, plan);
        let relation_counts = self.number_relations(job, plan);
        let (mut columns, mut ends) = (Vec::new(), [0; COLUMNS]);
        for (column, end) in ends.iter_mut().enumerate() {
            self.column(column, job, plan, &mut columns);
            *end = columns.len();
        }
        Offsets {
            columns,
            ends,
            relation_counts,
        }
    }

    /// Appends a column of [`Touched`], counted from 0.
    fn column(&self, column: usize, job: &BatchJob<'_>, plan: &BatchPlan, columns: &mut Vec<i64>) {
        let side = Side::BOTH[column % 2];
        let places = |ids: &[u32], columns: &mut Vec<i64>| {
            columns.extend(ids.iter().map(|&id| self.place(job, side, id)));
        };
        match column {
            0 | 1 => columns.extend_from_slice(&self.tables[column].rows),
            2 | 3 => places(job.batch.side(side), columns),
            4 | 5 => places(job.draws.side(side), columns),
            6 | 7 if plan.negatives[side as usize] == Negatives::All => {
                columns.extend(job.batch.side(side).iter().map(|&id| i64::from(id)));
            }
            6 | 7 => {}
            8 => columns.extend_from_slice(&self.relations.rows),
            _ => {
                let of_edges = job.relations().unwrap_or_default().iter();
                columns.extend(of_edges.map(|&relation| self.relations.of(relation)));
            }
        }
    }

    fn number(&mut self, job: &BatchJob<'_>, plan: &BatchPlan) {
        for side in Side::BOTH {
            let rows = match job.tables.shared() && side == Side::Rhs {
                true => 0,
                false => job.tables.side(side).entities(),
            };
            self.tables[side as usize].reset(rows);
        }
        // All rows of a table first, so that their numbers are their offsets.
        for side in Side::BOTH {
            if plan.negatives[side as usize] == Negatives::All {
                let numbers = &mut self.tables[table_of(job, side)];
                (0..job.tables.side(side).entities() as u32).for_each(|row| numbers.touch(row));
            }
        }
        for side in Side::BOTH {
            for &id in job.batch.side(side).iter().chain(job.draws.side(side)) {
                let (table, row) = locate(job, side, id);
                self.tables[table].touch(row);
            }
        }
    }

    /// Numbers the relations that occur; returns how often each does.
    fn number_relations(&mut self, job: &BatchJob<'_>, plan: &BatchPlan) -> Vec<f32> {
        let Some(relations) = job.relations() else {
            self.relations.reset(1);
            self.relations.touch(0);
            return vec![plan.parameter_weight as f32];
        };
        self.relations
            .reset(plan.graph.step_spec().relations.unwrap_or(0));
        relations
            .iter()
            .for_each(|&relation| self.relations.touch(relation));
        let mut counts = vec![0.0; self.relations.rows.len()];
        for &relation in relations {
            counts[self.relations.of(relation) as usize] += 1.0;
        }
        counts
    }

    fn place(&self, job: &BatchJob<'_>, side: Side, id: u32) -> i64 {
        let (table, row) = locate(job, side, id);
        let before = if table == 0 {
            0
        } else {
            self.tables[0].rows.len()
        };
        before as i64 + self.tables[table].of(row)
    }
}

impl Offsets {
    /// Carries them to the device, in one copy.
    pub(super) fn carry(self, place: TorchPlace) -> Result<Touched, TchError> {
        let carried = Tensor::f_from_slice(&self.columns)?.f_to_device(place.device())?;
        let part = |column: usize| {
            let start = column.checked_sub(1).map_or(0, |before| self.ends[before]);
            carried.f_narrow(0, start as i64, (self.ends[column] - start) as i64)
        };
        Ok(Touched {
            rows: [part(0)?, part(1)?],
            positives: [part(2)?, part(3)?],
            draws: [part(4)?, part(5)?],
            positive_entities: [part(6)?, part(7)?],
            relations: part(8)?,
            relation_of_edge: part(9)?,
            relation_counts: self.relation_counts,
        })
    }
}

/// Which of the two tables has the rows of `side`.
fn table_of(job: &BatchJob<'_>, side: Side) -> usize {
    match job.tables.shared() {
        true => 0,
        false => side as usize,
    }
}

/// The table and the row of an entity that is on `side` or replaces it: offsets beyond the side's own
/// table count on into the other one.
fn locate(job: &BatchJob<'_>, side: Side, id: u32) -> (usize, u32) {
    let own = table_of(job, side);
    match id.checked_sub(job.tables.side(side).entities() as u32) {
        Some(row) if !job.tables.shared() => (side.other() as usize, row),
        _ => (own, id),
    }
}
