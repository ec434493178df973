//! When embeddings that are stored as bfloat16 are rounded.
//!
//! A table is rounded in memory before it can be written: when it is initialized, and after each bucket that trained
//! it. Otherwise, a table that stays in the buffer during a commit would go on with values that a run resumed from that
//! commit does not have, and training would depend on when commits happen. So a commit writes exactly the bits that are
//! in memory, and rounding them once more changes nothing.
//!
//! With several trainers, tables of types with one partition are the exception: all trainers change them all the time,
//! so they are rounded when a checkpoint writes them.

use std::thread;

use pbg_config::Config;
use pbg_core::bfloat16::StochasticRounding;
use pbg_core::graph::{Bucket, Side};
use pbg_core::model::EmbeddingFormat;
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, StreamPurpose};
use pbg_rows::table::Table;

use crate::layout::{Layout, TableKey};

/// Point of a run at which a table is rounded.
#[derive(Clone, Copy, Debug)]
pub enum Point {
    /// The table is initialized.
    Beginning,
    /// A bucket has trained the table.
    Bucket(PassId, Bucket),
    /// The table is written for this version.
    Version(u64),
}

/// Source of the random roundings of a run.
#[derive(Clone, Copy, Debug)]
pub struct Roundings {
    storage: EmbeddingFormat,
    seed: u64,
}

impl Roundings {
    /// Creates the source of a run of `config`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            storage: config.storage,
            seed: config.seed,
        }
    }

    /// Returns the rounding of a table at a point; `None` where embeddings are stored in the precision that they have
    /// in memory.
    pub fn at(self, point: Point, (entity, partition): TableKey) -> Option<StochasticRounding> {
        let wide = u64::from;
        let (kind, at) = match point {
            Point::Beginning => (0, [0; 5]),
            Point::Bucket(pass, bucket) => {
                let (pass, set) = ([pass.epoch, pass.edge_chunk], pass.edge_set);
                let [epoch, chunk] = pass.map(wide);
                let at = [epoch, wide(set), chunk, wide(bucket.lhs), wide(bucket.rhs)];
                (1, at)
            }
            Point::Version(version) => (2, [version, 0, 0, 0, 0]),
        };
        let [a, b, c, d, e] = at;
        let at = [kind, a, b, c, d, e, entity as u64, wide(partition)];
        let seed = seed::derive(self.seed, StreamPurpose::Rounding, &at);
        (self.storage == EmbeddingFormat::Bf16).then(|| StochasticRounding::new(seed))
    }

    /// Rounds the tables that `bucket` of `pass` has trained, on `workers` threads. `table` returns a table if it is to
    /// be rounded.
    pub fn round_bucket<'t>(
        self,
        layout: &Layout,
        (pass, bucket): (PassId, Bucket),
        table: impl Fn(TableKey) -> Option<&'t Table>,
        workers: usize,
    ) {
        if self.storage == EmbeddingFormat::F32 {
            return;
        }
        let trained = |side: Side| {
            let types = layout.types.iter().enumerate();
            types
                .filter(move |(_, of_type)| of_type.on(side))
                .map(move |(entity, _)| (entity, layout.partition(entity, side, bucket)))
        };
        let mut keys: Vec<TableKey> = Side::BOTH.into_iter().flat_map(trained).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let rounding = self.at(Point::Bucket(pass, bucket), key);
            if let (Some(table), Some(rounding)) = (table(key), rounding) {
                round(table, rounding, workers);
            }
        }
    }
}

/// Smallest number of rows for which another thread is worthwhile.
const ROWS: usize = 4096;

fn round(table: &Table, rounding: StochasticRounding, workers: usize) {
    let rows = table.embeddings.rows();
    let threads = workers.min(rows.div_ceil(ROWS)).max(1);
    let share = |index: usize| rows * index / threads..rows * (index + 1) / threads;
    thread::scope(|scope| {
        for index in 1..threads {
            scope.spawn(move || table.round(share(index), rounding));
        }
        table.round(share(0), rounding);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: PassId = PassId {
        epoch: 1,
        edge_set: 0,
        edge_chunk: 2,
    };

    fn roundings(storage: EmbeddingFormat) -> Roundings {
        Roundings { storage, seed: 3 }
    }

    #[test]
    fn no_two_points_and_no_two_tables_have_the_same_draws() {
        let of = roundings(EmbeddingFormat::Bf16);
        let bucket = Point::Bucket(PASS, Bucket::new(1, 2));
        let other = Point::Bucket(PASS, Bucket::new(2, 1));
        let mut seen = Vec::new();
        for point in [
            Point::Beginning,
            bucket,
            other,
            Point::Version(1),
            Point::Version(2),
        ] {
            for key in [(0, 0), (0, 1), (1, 0)] {
                let rounding = of.at(point, key).expect("rounded");
                assert!(!seen.contains(&rounding), "{point:?} {key:?}");
                seen.push(rounding);
            }
        }
        assert_eq!(roundings(EmbeddingFormat::F32).at(bucket, (0, 0)), None);
    }

    #[test]
    fn what_comes_out_does_not_depend_on_threads() {
        let rows = 3 * ROWS + 5;
        let values: Vec<f32> = (0..3 * rows).map(|i| i as f32 * 0.001).collect();
        let rounded = |workers| {
            let table = Table::new(values.clone(), 3);
            round(&table, StochasticRounding::new(7), workers);
            table.embeddings.into_vec()
        };
        let one = rounded(1);
        assert_eq!(one, rounded(4));
        assert!(one.iter().all(|value| value.to_bits() & 0xffff == 0));
        let furthest = one
            .iter()
            .zip(&values)
            .map(|(a, b)| (a - b).abs() / b.max(1.0));
        assert!(furthest.fold(0.0, f32::max) < 1.0 / 128.0);
    }
}
