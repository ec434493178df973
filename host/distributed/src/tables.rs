//! Tables of a trainer: read from the files that the ledger names, written to new files, and settled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pbg_checkpoint::{CheckpointManifest, SharedCheckpoint, shared};
use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::lock::lock;
use pbg_core::loss::LossState;
use pbg_core::schedule::PassId;
use pbg_ledger::{
    FileId, Grid, LedgerRecord, LedgerSums, PartitionFile, SettledPartition, Settlement, Token,
    TransactionError,
};
use pbg_model::error::{CheckpointMismatch, JoinError, RunError};
use pbg_model::layout::{Layout, TableKey};
use pbg_model::rounding::Point;
use pbg_model::tables;
use pbg_rows::table::{FeatureBags, Table};
use pbg_train::buffer::TableStore;
use pbg_train::disk_tables::InitialTables;
use pbg_train::new_rows::NewRows;

use crate::ledger::{LedgerClient, NotApplied};

/// Trained buckets, to be settled together with the tables that are being written.
#[derive(Debug)]
pub(crate) struct UnsettledBuckets {
    /// The pass of the buckets.
    pub(crate) pass: PassId,
    pub(crate) buckets: Vec<Bucket>,
    pub(crate) sums: LedgerSums,
    pub(crate) loss: Option<LossState>,
    /// Events of these buckets, as lines of JSON for the trainer's log.
    pub(crate) lines: Vec<u8>,
}

/// Buckets that the ledger has recorded.
#[derive(Debug)]
pub(crate) struct SettledBuckets {
    /// The pass of the buckets.
    pub(crate) pass: PassId,
    pub(crate) buckets: Vec<Bucket>,
    /// Time since 1970 at which the ledger had recorded them.
    pub(crate) at: Duration,
    /// Time in which their partitions were written.
    pub(crate) writing: Duration,
    /// Time after that until the ledger had recorded them.
    pub(crate) recording: Duration,
}

/// File that was written and is not settled yet.
#[derive(Clone, Debug)]
struct WrittenFile {
    file: PartitionFile,
    /// Partition servers that have it; none if it is in the checkpoint folder.
    servers: BTreeSet<Token>,
}

/// Files of a settlement.
#[derive(Default)]
struct SettledFiles {
    partitions: Vec<SettledPartition>,
    /// Servers of each file that is not in the checkpoint folder.
    kept_on: Vec<BTreeSet<Token>>,
    /// Files that these replace.
    replaced: Vec<(TableKey, FileId)>,
}

/// The tables of one trainer of a distributed run.
pub(crate) struct ClusterTables {
    pub(crate) files: SharedCheckpoint,
    ledger: Arc<LedgerClient>,
    initial: InitialTables,
    /// Rows that the dataset has and the checkpoint that this trainer started from lacks.
    new_rows: NewRows,
    layout: Layout,
    grid: Grid,
    features: Vec<Option<FeatureBags>>,
    /// Files of the tables of types with one partition, in the checkpoint that this trainer started from.
    fixed: BTreeMap<TableKey, PartitionFile>,
    /// Files written since the last settlement.
    written: Mutex<BTreeMap<TableKey, WrittenFile>>,
    /// The settlement in progress, and when it began.
    settling: Mutex<Option<(Instant, UnsettledBuckets)>>,
    /// Settlements that the ledger has recorded and the trainer has not reported.
    settled: Mutex<Vec<SettledBuckets>>,
    /// How long partition servers are waited for; `None` if the run has none.
    server_waits: Option<ServerWaits>,
}

/// Longest time that a trainer which must stop waits for partition servers: enough for one that is slow for a moment,
/// since what it has may be needed for the last checkpoint.
const WHILE_STOPPING: Duration = Duration::from_secs(10);

/// How long a trainer waits for partition servers.
pub(crate) struct ServerWaits {
    /// Time for a server that does not answer.
    pub(crate) patience: Duration,
    /// Time for a file that no server has.
    pub(crate) lease: Duration,
    /// Time between attempts.
    pub(crate) heartbeat: Duration,
    /// Set when this trainer must stop.
    pub(crate) stop: Arc<AtomicBool>,
}

impl ClusterTables {
    pub(crate) fn new(
        (files, server_waits): (SharedCheckpoint, Option<ServerWaits>),
        ledger: Arc<LedgerClient>,
        (initial, new_rows): (InitialTables, NewRows),
        layout: Layout,
        grid: Grid,
        features: Vec<Option<FeatureBags>>,
        newest: Option<&CheckpointManifest>,
    ) -> Self {
        let file = |key: TableKey| {
            let name = &layout.types[key.0].name;
            Some((key, shared::ledger_file(newest?, name, key.1)?))
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
            settled: Mutex::default(),
            server_waits,
        }
    }

    /// Returns the group that contains a table and the table's index in it, or `None` for a table that every trainer
    /// has.
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

    /// Reads a table from its newest file: one that is written and not settled yet, or the one that the record names.
    /// Without a file, returns the table in its initial state.
    pub(crate) fn read(&self, key: TableKey) -> Result<Table, RunError> {
        if let Some(waits) = &self.server_waits {
            return self.ask_servers(waits, || self.read_or_create(key, self.current_file(key)));
        }
        let file = self.current_file(key);
        match self.read_or_create(key, file) {
            // The record as last seen may be one that the register has lost, and its files may be gone.
            Err(error) if error.is_missing_file() => {
                self.ledger.refresh()?;
                match self.current_file(key) {
                    same if same == file => Err(error),
                    other => self.read_or_create(key, other),
                }
            }
            read => read,
        }
    }

    /// Repeats `work`, which reads files from partition servers, while one of them does not answer, or while none has a
    /// file and one may only be missing from the record.
    ///
    /// # Errors
    /// Those of `work`, and when this trainer was removed from the run.
    fn ask_servers<T>(
        &self,
        waits: &ServerWaits,
        work: impl Fn() -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let (mut started, mut was_silent) = (pbg_clock::now(), false);
        loop {
            self.use_newest_servers();
            let error = match work() {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let is_silent = error.is_silent_server();
            if was_silent && !is_silent {
                // A server was removed. If it lives, it adds itself again.
                started = pbg_clock::now();
            }
            was_silent = is_silent;
            let mut most = match is_silent {
                true => waits.patience,
                false if error.is_missing_file() => waits.lease,
                false => return Err(error),
            };
            if waits.stop.load(Ordering::Relaxed) {
                most = most.min(WHILE_STOPPING);
            }
            if pbg_clock::elapsed(started) >= most {
                return Err(error);
            }
            pbg_clock::sleep(waits.heartbeat);
            self.ledger.refresh()?;
        }
    }

    fn use_newest_servers(&self) {
        if let Some(record) = self.ledger.last_record() {
            self.files.use_servers(record.servers());
        }
    }

    /// Copies the partitions of a version that are only on partition servers to the checkpoint folder.
    ///
    /// # Errors
    /// When one is on no server, or the folder cannot be written.
    pub(crate) fn store_partitions(&self, manifest: &CheckpointManifest) -> Result<(), RunError> {
        match &self.server_waits {
            None => Ok(()),
            Some(waits) => self.ask_servers(waits, || Ok(self.files.store_partitions(manifest)?)),
        }
    }

    /// Copies the files of `record` that are on the server `own` of this process to the checkpoint folder.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub(crate) fn store_own_files(
        &self,
        own: Token,
        record: &LedgerRecord,
    ) -> Result<(), RunError> {
        Ok(self.files.store_files_of(own, record)?)
    }

    /// Returns the file of the newest state of a table; `None` if the table was never written.
    fn current_file(&self, key: TableKey) -> Option<PartitionFile> {
        let Some((group, at)) = self.group_of(key) else {
            return self.fixed.get(&key).copied();
        };
        let recorded = self.ledger.partition(group);
        self.ledger.set_stamp(group, recorded.stamp());
        let unsettled = lock(&self.written).get(&key).cloned();
        let unsettled = unsettled.map(|written| written.file);
        unsettled.or_else(|| recorded.files.get(at).copied())
    }

    /// Reads a table, or creates it in its initial state.
    fn read_or_create(
        &self,
        key: TableKey,
        file: Option<PartitionFile>,
    ) -> Result<Table, RunError> {
        let (type_index, partition) = key;
        let layout = &self.layout.types[type_index];
        match file {
            Some(file) => self.read_file(key, &file),
            None => {
                let data = self.initial.partition(layout, type_index, partition)?;
                tables::table(layout, partition, data, self.features[type_index].clone())
            }
        }
    }

    /// Reads a table from a file, and adds rows for entities that the dataset has gained since the file was written.
    fn read_file(&self, key: TableKey, file: &PartitionFile) -> Result<Table, RunError> {
        let (type_index, partition) = key;
        let layout = &self.layout.types[type_index];
        tables::check_file_size(layout, partition, file.size)?;
        let mut data = tables::allocate_partition(layout, partition);
        self.files
            .read_partition_into(&layout.name, partition, file, &mut data)?;
        self.new_rows.append_if_missing(key, layout, &mut data);
        tables::table(layout, partition, data, self.features[type_index].clone())
    }

    /// Whether the copy of a table in memory has the version that the record names.
    pub(crate) fn is_current(&self, key: TableKey) -> bool {
        let group = self.group_of(key);
        group.is_some_and(|(group, _)| self.ledger.is_current(group))
    }

    /// Reads a table from the checkpoint of `manifest`.
    pub(crate) fn read_version(
        &self,
        manifest: &CheckpointManifest,
        key: TableKey,
    ) -> Result<Table, RunError> {
        let (type_index, partition) = key;
        let layout = &self.layout.types[type_index];
        let file = shared::ledger_file(manifest, &layout.name, partition);
        let file = file.ok_or_else(|| CheckpointMismatch::NoPartition {
            checkpoint: self.files.path().to_owned(),
            entity_type: layout.name.clone(),
            partition,
        })?;
        self.read_file(key, &file)
    }

    /// Writes a table durably, for checkpoint `version`.
    pub(crate) fn write(
        &self,
        key: TableKey,
        table: &Table,
        version: u64,
    ) -> Result<PartitionFile, RunError> {
        let layout = &self.layout.types[key.0];
        let rounding = self.initial.roundings.at(Point::Version(version), key);
        Ok(tables::with_rows(layout, table, rounding, |rows| {
            self.files
                .write_partition(&layout.name, key.1, version, rows)
        })?)
    }

    /// Returns the initial state of tables.
    pub(crate) fn initial(&self) -> &InitialTables {
        &self.initial
    }

    /// Returns the version number of the next checkpoint.
    pub(crate) fn version(&self) -> u64 {
        let base = self
            .ledger
            .last_record()
            .and_then(|r| r.checkpoints().base());
        base.map_or(0, |base| base.version) + 1
    }

    fn keep(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        if self.group_of(key).is_some() {
            self.use_newest_servers();
            let (layout, version) = (&self.layout.types[key.0], self.version());
            let rounding = self.initial.roundings.at(Point::Version(version), key);
            let (file, servers) = tables::with_rows(layout, table, rounding, |rows| {
                self.files
                    .keep_partition(&layout.name, key.1, version, rows)
            })?;
            lock(&self.written).insert(key, WrittenFile { file, servers });
        }
        Ok(())
    }

    /// Returns the new files of the partitions that `buckets` need, each with the stamp of the copy that it was made
    /// from.
    fn settled(&self, buckets: &[Bucket]) -> SettledFiles {
        let mut written = lock(&self.written);
        let mut settled = SettledFiles::default();
        for group in self.grid.partitions_of_all(buckets) {
            let before = self.ledger.partition(group).files;
            let mut files = Vec::new();
            for (at, key) in self.layout.group_tables(group).enumerate() {
                let Some(WrittenFile { file, servers }) = written.remove(&key) else {
                    continue;
                };
                files.push(file);
                if !servers.is_empty() && !settled.kept_on.contains(&servers) {
                    settled.kept_on.push(servers);
                }
                let replaced = before.get(at).map(|file| (key, file.id));
                settled.replaced.extend(replaced);
            }
            settled.partitions.push(SettledPartition {
                group,
                from: self.ledger.stamp(group),
                files,
            });
        }
        settled
    }

    /// Frees the memory of files of `manifests` that `record` no longer names; they are in the checkpoint folder.
    pub(crate) fn drop_stored(&self, manifests: &[&CheckpointManifest], record: &LedgerRecord) {
        if self.server_waits.is_none() {
            return;
        }
        for group in self.grid.groups() {
            let newest = record
                .partition(group)
                .map_or(&[][..], |found| &found.files);
            for (key, newest) in self.layout.group_tables(group).zip(newest) {
                let name = &self.layout.types[key.0].name;
                let stored = manifests.iter();
                let stored = stored.filter_map(|m| shared::ledger_file(m, name, key.1));
                for file in stored.filter(|file| file.id != newest.id) {
                    self.files.drop_from_servers(name, key.1, file.id);
                }
            }
        }
    }

    /// Returns the settlements since the last call.
    pub(crate) fn take_settled(&self) -> Vec<SettledBuckets> {
        std::mem::take(&mut lock(&self.settled))
    }

    /// Frees the memory of files that a settlement has replaced. While a checkpoint is written, which may name them, they
    /// stay until its end.
    fn drop_replaced(&self, record: &LedgerRecord, replaced: &[(TableKey, FileId)]) {
        if self.server_waits.is_none() || record.checkpoint_in_progress().is_some() {
            return;
        }
        for ((entity, partition), id) in replaced {
            let name = &self.layout.types[*entity].name;
            self.files.drop_from_servers(name, *partition, *id);
        }
    }
}

impl TableStore for ClusterTables {
    type Table = Table;
    type Cut = UnsettledBuckets;

    fn load(&self, key: TableKey) -> Result<Table, RunError> {
        self.read(key)
    }

    fn save(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        self.keep(key, table)
    }

    fn begin(&self, cut: UnsettledBuckets) -> Result<(), RunError> {
        *lock(&self.settling) = Some((pbg_clock::now(), cut));
        Ok(())
    }

    fn add(&self, key: TableKey, table: &Table) -> Result<(), RunError> {
        self.keep(key, table)
    }

    /// Settles the buckets, whose files are durable now. Returns the revision of the record.
    fn continue_commit(&self) -> Result<Option<u64>, RunError> {
        let Some((began, unsettled)) = lock(&self.settling).take() else {
            return Ok(None);
        };
        let UnsettledBuckets {
            pass,
            buckets,
            sums,
            loss,
            lines,
        } = unsettled;
        let SettledFiles {
            partitions,
            kept_on,
            replaced,
        } = self.settled(&buckets);
        let told = self.files.append_events(&lines)?;
        let written = pbg_clock::now();
        let settlement = Settlement {
            pass,
            buckets: buckets.clone(),
            partitions,
            next: Vec::new(),
            sums,
            loss,
            told,
            kept_on,
        };
        let record = match self.ledger.settle(settlement) {
            Ok(record) => record,
            // A server was removed after it took the files. This trainer trains the buckets again.
            Err(NotApplied::Refused(refusal @ TransactionError::NoServer { .. })) => {
                return Err(JoinError::Fenced(Box::new(refusal)).into());
            }
            Err(refused) => return Err(refused.into_error().into()),
        };
        self.ledger.end_settlement();
        lock(&self.settled).push(SettledBuckets {
            pass,
            buckets,
            at: pbg_clock::unix_time(),
            writing: written.saturating_duration_since(began),
            recording: pbg_clock::elapsed(written),
        });
        self.drop_replaced(&record, &replaced);
        Ok(Some(record.revision()))
    }

    fn copy(&self, table: &Table, over: Option<Table>) -> Table {
        tables::copy_of(table, over)
    }

    fn writes_count_at_commit(&self) -> bool {
        true
    }

    /// Tables that every trainer has are exchanged, and written only by the trainer that writes a checkpoint.
    fn shares_fixed(&self) -> bool {
        true
    }
}
