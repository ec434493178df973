//! Tables of a trainer: read from the files that the ledger names, written to files of its own, and settled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::ledger::{File, Grid, Settled, Settlement, Sums};
use pbg_core::loss::LossState;
use pbg_core::schedule::PassId;
use pbg_kernels::table::{Features, Table};
use pbg_store::checkpoint::{Manifest, SharedCheckpoint, shared};

use super::ledger::{Denied, Ledger};
use crate::buffer::TableStore;
use crate::error::{Mismatch, RunError};
use crate::grow::NewRows;
use crate::layout::{Layout, TableKey};
use crate::rounding::Point;
use crate::tables::{self, Initial};

/// Buckets that are trained and are to be settled with the tables that are written meanwhile.
#[derive(Debug)]
pub(crate) struct Trained {
    /// The pass that they were trained in.
    pub(crate) pass: PassId,
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) sums: Sums,
    pub(crate) loss: Option<LossState>,
    /// What is to be told of them.
    pub(crate) lines: Vec<u8>,
}

/// The tables of a trainer, one of several.
pub(crate) struct SharedTables {
    pub(crate) files: SharedCheckpoint,
    ledger: Arc<Ledger>,
    initial: Initial,
    /// What the dataset has and the checkpoint that this trainer began with had not.
    new_rows: NewRows,
    layout: Layout,
    grid: Grid,
    features: Vec<Option<Features>>,
    /// Tables of types with one partition, as the checkpoint has them that this trainer began with.
    fixed: BTreeMap<TableKey, File>,
    /// Files that were written since the last settlement.
    written: Mutex<BTreeMap<TableKey, File>>,
    /// The settlement under way.
    settling: Mutex<Option<Trained>>,
}

impl SharedTables {
    pub(crate) fn new(
        files: SharedCheckpoint,
        ledger: Arc<Ledger>,
        (initial, new_rows): (Initial, NewRows),
        layout: Layout,
        grid: Grid,
        features: Vec<Option<Features>>,
        newest: Option<&Manifest>,
    ) -> Self {
        let file = |key: TableKey| {
            let name = &layout.types[key.0].name;
            Some((key, shared::from_manifest(newest?, name, key.1)?))
        };
        Self {
            fixed: layout.fixed_tables().filter_map(file).collect(),
            files,
            ledger,
            initial,
            new_rows,
            layout,
            grid,
            features,
            written: Mutex::default(),
            settling: Mutex::default(),
        }
    }

    /// The group that holds a table, and the table's place in it; none for one that every trainer has.
    fn group_of(&self, key: TableKey) -> Option<(SidePartition, usize)> {
        let of_side = |side| {
            let group = (side, key.1);
            let at = self.layout.group_tables(group).position(|k| k == key)?;
            Some((group, at))
        };
        let layout = &self.layout.types[key.0];
        match layout.partitioned() {
            false => None,
            true if self.layout.shared || layout.on_lhs => of_side(Side::Lhs),
            true => of_side(Side::Rhs),
        }
    }

    /// A table from the newest file that holds it: one that is written and not settled yet, or the one that the record
    /// names; or in its initial state.
    pub(crate) fn read(&self, key: TableKey) -> Result<Table, RunError> {
        let (type_index, partition) = key;
        let layout = &self.layout.types[type_index];
        let mut file = self.fixed.get(&key).copied();
        if let Some((group, at)) = self.group_of(key) {
            let recorded = self.ledger.partition(group);
            let unsettled = lock(&self.written).get(&key).copied();
            file = unsettled.or_else(|| recorded.files.get(at).copied());
            self.ledger.loaded(group, recorded.stamp());
        }
        match file {
            Some(file) => self.read_file(key, &file),
            None => {
                let data = self.initial.partition(layout, type_index, partition)?;
                tables::table(layout, partition, data, self.features[type_index].clone())
            }
        }
    }

    /// A table from a file, with rows for what the dataset has gained since it was written.
    fn read_file(&self, key: TableKey, file: &File) -> Result<Table, RunError> {
        let (type_index, partition) = key;
        let layout = &self.layout.types[type_index];
        let mut data = tables::memory_for(layout, partition);
        self.files
            .read_partition_into(&layout.name, partition, file, &mut data)?;
        self.new_rows.complete(key, layout, &mut data);
        tables::table(layout, partition, data, self.features[type_index].clone())
    }

    /// Whether the copy of a table in memory is of what the record names.
    pub(crate) fn is_current(&self, key: TableKey) -> bool {
        let group = self.group_of(key);
        group.is_some_and(|(group, _)| self.ledger.is_current(group))
    }

    /// A table as the checkpoint of `manifest` has it.
    pub(crate) fn read_of(&self, manifest: &Manifest, key: TableKey) -> Result<Table, RunError> {
        let (type_index, partition) = key;
        let layout = &self.layout.types[type_index];
        let file = shared::from_manifest(manifest, &layout.name, partition);
        let file = file.ok_or_else(|| Mismatch::NoPartition {
            checkpoint: self.files.path().to_owned(),
            entity_type: layout.name.clone(),
            partition,
        })?;
        self.read_file(key, &file)
    }

    /// Writes a table, durably, for the checkpoint `version`.
    pub(crate) fn write(
        &self,
        key: TableKey,
        table: &Table,
        version: u64,
    ) -> Result<File, RunError> {
        let layout = &self.layout.types[key.0];
        let rounding = self.initial.roundings().at(Point::Version(version), key);
        Ok(tables::with_rows(layout, table, rounding, |rows| {
            self.files
                .write_partition(&layout.name, key.1, version, rows)
        })?)
    }

    /// What tables begin with.
    pub(crate) fn initial(&self) -> &Initial {
        &self.initial
    }

    /// Number of the checkpoint that comes next.
    pub(crate) fn version(&self) -> u64 {
        let base = self.ledger.seen().and_then(|r| r.checkpoints().base());
        base.map_or(0, |base| base.version) + 1
    }

    fn keep(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        if self.group_of(key).is_some() {
            let file = self.write(key, table, self.version())?;
            lock(&self.written).insert(key, file);
        }
        Ok(())
    }

    /// The new files of the partitions that `buckets` need, each made from what the copy in memory was of.
    fn settled(&self, buckets: &[Bucket]) -> Vec<Settled> {
        let mut written = lock(&self.written);
        let mut groups: Vec<SidePartition> =
            buckets.iter().flat_map(|b| self.grid.needs(*b)).collect();
        groups.sort_unstable();
        groups.dedup();
        let settled = |group: SidePartition| {
            let keys = self.layout.group_tables(group);
            Settled {
                group,
                from: self.ledger.stamp(group).unwrap_or(super::NEVER),
                files: keys.filter_map(|key| written.remove(&key)).collect(),
            }
        };
        groups.into_iter().map(settled).collect()
    }
}

impl TableStore for SharedTables {
    type Table = Table;
    type Cut = Trained;

    fn load(&self, key: TableKey) -> Result<Table, RunError> {
        self.read(key)
    }

    fn save(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        self.keep(key, table)
    }

    fn begin(&self, cut: Trained) -> Result<(), RunError> {
        *lock(&self.settling) = Some(cut);
        Ok(())
    }

    fn add(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        self.keep(key, table)
    }

    /// The files are durable: the ledger learns of them. The number is the record's.
    fn go_on(&self) -> Result<Option<u64>, RunError> {
        let Some(Trained {
            pass,
            buckets,
            sums,
            loss,
            lines,
        }) = lock(&self.settling).take()
        else {
            return Ok(None);
        };
        let partitions = self.settled(&buckets);
        let settlement = Settlement {
            pass,
            buckets,
            partitions,
            next: Vec::new(),
            sums,
            loss,
            told: self.files.tell(&lines)?,
        };
        let settled = self.ledger.settle(settlement);
        let record = settled.map_err(Denied::ended)?;
        self.ledger.end_settlement();
        Ok(Some(record.revision()))
    }

    fn copy(&self, table: &Table, over: Option<Table>) -> Table {
        tables::copy_of(table, over)
    }

    fn hands_on(&self) -> bool {
        true
    }

    /// What every trainer has is exchanged, and written by who writes a checkpoint.
    fn shares_fixed(&self) -> bool {
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
