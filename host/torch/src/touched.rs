//! Rows of tables that a batch touches, each once, and the offsets at which edges and draws find theirs.

use std::ops::Range;

use pbg_core::batch_graph::Negatives;
use pbg_core::graph::Side;
use tch::{Device, TchError, Tensor};

use super::device::TorchDevice;
use pbg_kernels::device::{BatchPlan, Slice};
use pbg_kernels::step::BatchJob;

const NONE: u32 = u32::MAX;
/// Columns of [`TouchedRows`], most of which exist once per side. Rows come last, since they are known only when
/// everything else is numbered.
const POSITIVES: usize = 0;
const DRAWS: usize = 2;
const ENTITIES: usize = 4;
const RELATIONS: usize = 6;
const RELATION_OF_EDGE: usize = 7;
const ROWS: usize = 8;
const COLUMNS: usize = 10;

/// Distinct rows of one table or tensor, numbered in the order of their first use.
#[derive(Debug, Default)]
struct DistinctRows {
    /// Number of each row.
    of: Vec<u32>,
    /// Rows by number.
    rows: Vec<i64>,
}

impl DistinctRows {
    /// Removes all numbers, for a table of `rows` rows.
    fn reset(&mut self, rows: usize) {
        for &row in &self.rows {
            self.of[row as usize] = NONE;
        }
        self.rows.clear();
        if self.of.len() < rows {
            self.of.resize(rows, NONE);
        }
    }

    /// Returns the number of a row, assigning one if it has none.
    fn number(&mut self, row: u32) -> i64 {
        let number = &mut self.of[row as usize];
        if *number == NONE {
            *number = self.rows.len() as u32;
            self.rows.push(i64::from(row));
        }
        i64::from(*number)
    }
}

/// Numbers the rows of batch after batch.
#[derive(Debug, Default)]
pub(super) struct RowNumbering {
    tables: [DistinctRows; 2],
    relations: DistinctRows,
    /// Columns of [`TouchedRows`], concatenated.
    columns: Vec<i64>,
}

/// Rows that a batch touches, on the host.
#[derive(Debug)]
pub(super) struct TouchedOffsets {
    /// Columns of [`TouchedRows`], concatenated.
    columns: Tensor,
    /// Range of each column.
    spans: [Range<usize>; COLUMNS],
    /// Number of edges of each relation; see [`TouchedRows::relation_counts`].
    relation_counts: Vec<f32>,
}

/// Rows that a batch touches, on the device. All tensors are offsets, `i64`.
pub(super) struct TouchedRows {
    /// Rows of each side's table that are in the working set; none for the right one if both tables are the same.
    pub(super) rows: [Tensor; 2],
    /// Offsets into the working set of the positives of each side. The left table's rows come first.
    pub(super) positives: [Tensor; 2],
    /// Offsets into the working set of the draws that replace each side.
    pub(super) draws: [Tensor; 2],
    /// With all entities as negatives: the positives' offsets in their own table.
    pub(super) positive_entities: [Tensor; 2],
    /// Rows of the operator's tensors: those of the relations that occur, or the only one.
    pub(super) relations: Tensor,
    /// Index of each edge's relation among `relations`; empty with static relations.
    pub(super) relation_of_edge: Tensor,
    /// Number of edges of each of these relations; with static relations, the weight of the parameters in N3.
    pub(super) relation_counts: Vec<f32>,
}

impl RowNumbering {
    /// Numbers what a batch touches, in pinned memory from which a GPU at `place` copies without blocking the host.
    pub(super) fn batch(
        &mut self,
        job: &BatchJob<'_>,
        plan: &BatchPlan,
        place: TorchDevice,
    ) -> Result<TouchedOffsets, TchError> {
        self.columns.clear();
        let mut spans: [Range<usize>; COLUMNS] = Default::default();
        self.reset(job, plan);
        for side in Side::BOTH {
            let at = side as usize;
            spans[POSITIVES + at] = self.number(job, side, job.batch.side(side));
            spans[DRAWS + at] = self.number(job, side, job.draws.side(side));
            if plan.negatives[at] == Negatives::All {
                let of = job.batch.side(side).iter().map(|&id| i64::from(id));
                spans[ENTITIES + at] = extend(&mut self.columns, of);
            }
        }
        self.follow_the_left_rows();
        let (relation_counts, of_edges) = self.number_relations(job, plan);
        spans[RELATION_OF_EDGE] = of_edges;
        spans[RELATIONS] = extend(&mut self.columns, self.relations.rows.iter().copied());
        for (table, numbers) in self.tables.iter().enumerate() {
            spans[ROWS + table] = extend(&mut self.columns, numbers.rows.iter().copied());
        }
        let columns = Tensor::f_from_slice(&self.columns)?;
        Ok(TouchedOffsets {
            columns: match place.device() {
                Device::Cuda(_) => columns.f_internal_pin_memory(place.device())?,
                _ => columns,
            },
            spans,
            relation_counts,
        })
    }

    fn reset(&mut self, job: &BatchJob<'_>, plan: &BatchPlan) {
        for side in Side::BOTH {
            let rows = match job.tables.shared() && side == Side::Rhs {
                true => 0,
                false => job.tables.side(side).entities(),
            };
            self.tables[side as usize].reset(rows);
        }
        // All rows of a table are numbered first, so that their numbers are their offsets.
        for side in Side::BOTH {
            if plan.negatives[side as usize] == Negatives::All {
                let numbers = &mut self.tables[table_of(job, side)];
                for row in 0..job.tables.side(side).entities() as u32 {
                    numbers.number(row);
                }
            }
        }
    }

    /// Appends the positions of entities that are on `side` or replace it: the numbers of the left table's rows, and
    /// the bitwise complements of those of the right one's, until the number of left rows is known. Offsets beyond the
    /// side's own table refer to the other table.
    fn number(&mut self, job: &BatchJob<'_>, side: Side, ids: &[u32]) -> Range<usize> {
        let own = table_of(job, side);
        let rows = match job.tables.shared() {
            true => u32::MAX,
            false => job.tables.side(side).entities() as u32,
        };
        let tables = &mut self.tables;
        let number = |&id: &u32| {
            let (table, row) = match id.checked_sub(rows) {
                Some(row) => (side.other() as usize, row),
                None => (own, id),
            };
            let number = tables[table].number(row);
            if table == 0 { number } else { !number }
        };
        extend(&mut self.columns, ids.iter().map(number))
    }

    /// Moves the right table's rows behind the left one's.
    fn follow_the_left_rows(&mut self) {
        let before = self.tables[0].rows.len() as i64;
        if !self.tables[1].rows.is_empty() {
            for number in &mut self.columns {
                *number = if *number < 0 {
                    before + !*number
                } else {
                    *number
                };
            }
        }
    }

    /// Numbers the relations that occur, and appends those of the edges. Returns the number of edges of each relation
    /// and the range of the column.
    fn number_relations(
        &mut self,
        job: &BatchJob<'_>,
        plan: &BatchPlan,
    ) -> (Vec<f32>, Range<usize>) {
        let Some(of_edges) = job.relations() else {
            self.relations.reset(1);
            self.relations.number(0);
            return (vec![plan.parameter_weight as f32], 0..0);
        };
        let relations = &mut self.relations;
        relations.reset(plan.step.step_spec.relations.unwrap_or(0));
        let mut counts = Vec::new();
        let number = |&relation: &u32| {
            let number = relations.number(relation);
            match counts.get_mut(number as usize) {
                Some(count) => *count += 1.0,
                None => counts.push(1.0),
            }
            number
        };
        let span = extend(&mut self.columns, of_edges.iter().map(number));
        (counts, span)
    }
}

/// Appends numbers, and returns their range.
fn extend(columns: &mut Vec<i64>, numbers: impl Iterator<Item = i64>) -> Range<usize> {
    let start = columns.len();
    columns.extend(numbers);
    start..columns.len()
}

impl TouchedOffsets {
    /// Copies them to the device, in one copy.
    pub(super) fn upload(self, place: TorchDevice) -> Result<TouchedRows, TchError> {
        let carried = match place.device() {
            device @ Device::Cuda(_) => {
                let kind = self.columns.kind();
                self.columns.f_to_device_(device, kind, true, false)?
            }
            _ => self.columns,
        };
        let part = |column: usize| {
            let Range { start, end } = self.spans[column].clone();
            carried.f_narrow(0, start as i64, (end - start) as i64)
        };
        let sides = |first: usize| Ok::<_, TchError>([part(first)?, part(first + 1)?]);
        Ok(TouchedRows {
            rows: sides(ROWS)?,
            positives: sides(POSITIVES)?,
            draws: sides(DRAWS)?,
            positive_entities: sides(ENTITIES)?,
            relations: part(RELATIONS)?,
            relation_of_edge: part(RELATION_OF_EDGE)?,
            relation_counts: self.relation_counts,
        })
    }
}

/// Returns the index of the table that has the rows of `side`.
fn table_of(job: &BatchJob<'_>, side: Side) -> usize {
    match job.tables.shared() {
        true => 0,
        false => side as usize,
    }
}

/// Returns the part of a column that belongs to a slice's edges.
pub(super) fn part(column: &Tensor, slice: &Slice) -> Result<Tensor, TchError> {
    column.f_narrow(0, slice.rows.start as i64, slice.rows.len() as i64)
}
