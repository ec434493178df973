//! What must hold for every record that is written to the register, compared with the record before.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use pbg_checkpoint::shared;
use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::lock::lock;
use pbg_ledger::{BucketState, LedgerRecord};

use crate::register::{RegisterWrite, WriteObserver};

/// Returns the size of a file of the run in bytes; 0 if there is none.
pub(crate) type FileSizes = Box<dyn Fn(&str) -> u64 + Send + Sync>;

/// Checks the records of a run.
pub(crate) struct RecordCheck {
    sizes: FileSizes,
    violations: Arc<Mutex<String>>,
}

impl RecordCheck {
    /// Creates the check. It adds a line to `violations` for each violation.
    pub(crate) fn new(sizes: FileSizes, violations: &Arc<Mutex<String>>) -> Self {
        Self {
            sizes,
            violations: Arc::clone(violations),
        }
    }

    /// Checks that every file that the record names is complete.
    fn files(&self, record: &LedgerRecord) -> Result<(), String> {
        // The memory of servers may be lost at any time.
        if record.terms().servers.is_some() {
            return Ok(());
        }
        let grid = record.grid();
        for group in grid.groups() {
            let files = record.partition(group).map(|partition| &partition.files);
            let tables = &grid.tables[group.0 as usize];
            for (file, table) in files.into_iter().flatten().zip(tables) {
                let (name, _) = shared::manifest_entry(table, group.1, file);
                let found = (self.sizes)(&name);
                if found != file.size {
                    let size = file.size;
                    return Err(format!("{name} has {found} bytes instead of {size}"));
                }
            }
        }
        Ok(())
    }
}

impl WriteObserver for RecordCheck {
    fn written(&self, write: &RegisterWrite<'_>) {
        let read = |value: &[u8]| serde_json::from_slice::<LedgerRecord>(value);
        let violated = match read(write.value) {
            Err(error) => Err(format!("it cannot be read: {error}")),
            Ok(record) => {
                let checked = record.check().map_err(|error| error.to_string());
                // After writes were lost, a late write may restore what they contained, and a record may name files that
                // a newer checkpoint has removed.
                match write.has_lost {
                    true => checked,
                    false => {
                        let before = write.before.and_then(|before| read(before).ok());
                        checked
                            .and_then(|()| transition(before.as_ref(), &record))
                            .and_then(|()| self.files(&record))
                    }
                }
            }
        };
        if let Err(violation) = violated {
            let mut violations = lock(&self.violations);
            let _infallible = writeln!(violations, "record {}: {violation}", write.revision);
        }
    }
}

/// Checks the transition between two consecutive records of one history.
fn transition(before: Option<&LedgerRecord>, after: &LedgerRecord) -> Result<(), String> {
    let Some(before) = before.filter(|before| before.incarnation() == after.incarnation()) else {
        return Ok(());
    };
    if after.revision() != before.revision() + 1 {
        let (from, to) = (before.revision(), after.revision());
        return Err(format!("revision {to} follows revision {from}"));
    }
    let (old, new) = (before.work().pass, after.work().pass);
    if new < old {
        return Err(format!("{new:?} follows {old:?}"));
    }
    if new > old && !before.work().buckets.all_done() {
        return Err(format!("{old:?} ended before all of its buckets were done"));
    }
    let trained = match new == old {
        true => newly_trained(before, after)?,
        false => Vec::new(),
    };
    let needed = after.grid().partitions_of_all(&trained);
    let replaced = replaced(before, after)?;
    match replaced == needed {
        true => Ok(()),
        false => Err(format!(
            "{trained:?} were trained, but {replaced:?} have new files"
        )),
    }
}

/// Returns the buckets that are done since `before`.
fn newly_trained(before: &LedgerRecord, after: &LedgerRecord) -> Result<Vec<Bucket>, String> {
    let states = before
        .work()
        .buckets
        .iter()
        .zip(after.work().buckets.iter());
    let mut trained = Vec::new();
    for (index, states) in states.enumerate() {
        let bucket = after.grid().bucket(index);
        match states {
            (BucketState::Done, BucketState::Done) => {}
            (BucketState::Done, state) => {
                return Err(format!("{bucket:?} was done and is {state:?}"));
            }
            (BucketState::Leased, BucketState::Done) => trained.push(bucket),
            (state, BucketState::Done) => {
                return Err(format!("{bucket:?} is done and was {state:?} before"));
            }
            _ => {}
        }
    }
    Ok(trained)
}

/// Returns the partitions whose files differ from those in `before`.
fn replaced(
    before: &LedgerRecord,
    after: &LedgerRecord,
) -> Result<BTreeSet<SidePartition>, String> {
    let mut replaced = BTreeSet::new();
    for group in after.grid().groups() {
        let (Some(old), Some(new)) = (before.partition(group), after.partition(group)) else {
            continue;
        };
        match new.generation.checked_sub(old.generation) {
            Some(0) if old.files == new.files => {}
            Some(1) if old.files != new.files => {
                replaced.insert(group);
            }
            _ => return Err(format!("{group:?} went from {old:?} to {new:?}")),
        }
    }
    Ok(replaced)
}
