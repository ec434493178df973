//! Buckets and the files that they are trained into: leasing, settling, giving up.
//!
//! A trainer holds exactly the partitions that its leased buckets need, and only as long as it has these leases. So no
//! trainer holds a partition while it waits for another one. To keep a partition, a trainer leases the next bucket in
//! the transaction that settles the last.

use std::collections::BTreeSet;

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::loss::LossState;
use pbg_core::schedule::PassId;
use serde::{Deserialize, Serialize};

use super::{
    BucketState, CopyVersion, LedgerRecord, LedgerSums, MAX_BUCKETS, PartitionFile,
    PartitionVersion, Phase, Token, TransactionError, init_tree,
};

/// Most buckets leased to one trainer at the same time.
pub const MAX_LEASES: usize = 32;

/// New files of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledPartition {
    /// The partition.
    pub group: SidePartition,
    /// Version that they were trained from: [`PartitionVersion::stamp`](super::PartitionVersion::stamp) at the lease or
    /// at the last settlement.
    pub from: CopyVersion,
    /// One file per table of the side, all durable.
    pub files: Vec<PartitionFile>,
}

impl SettledPartition {
    /// Returns the version of the writer's copy after the settlement
    /// ([`PartitionVersion::stamp`](super::PartitionVersion::stamp)).
    #[must_use]
    pub fn stamp(&self) -> CopyVersion {
        CopyVersion {
            generation: self.from.generation + 1,
            first: self.files.first().map(|file| file.id),
        }
    }
}

/// Buckets that a trainer has trained, with their results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// The pass that the buckets were trained in.
    pub pass: PassId,
    /// The trained buckets.
    pub buckets: Vec<Bucket>,
    /// New files of every partition that the buckets need. They contain the training of these buckets only.
    pub partitions: Vec<SettledPartition>,
    /// Buckets to lease in the same transaction. Partitions that neither these nor the remaining leases need become
    /// free.
    pub next: Vec<Bucket>,
    /// Sums over the trained buckets.
    pub sums: LedgerSums,
    /// State of the loss, if this trainer is the one that keeps it.
    pub loss: Option<LossState>,
    /// Length of the trainer's event file, including the events of these buckets, in bytes ([`super::EventLogLength`]).
    pub told: u64,
    /// Partition servers that have a new file, for each file that is not in the checkpoint folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_on: Vec<BTreeSet<Token>>,
}

impl LedgerRecord {
    /// Returns the buckets that `token` may lease now, in the order of their indices in the grid.
    #[must_use]
    pub fn free(&self, token: Token) -> Vec<Bucket> {
        let grid = self.grid();
        if self.phase() != Phase::Training {
            return Vec::new();
        }
        let others = self.trainers.iter().filter(|(other, _)| **other != token);
        let held = grid.partitions_of_all(others.flat_map(|(_, trainer)| &trainer.leases));
        let tree = init_tree::InitTree::of(self, Some(token));
        self.in_state(BucketState::ToDo)
            .filter(|bucket| {
                grid.partitions_of(*bucket)
                    .all(|group| !held.contains(&group))
            })
            .filter(|bucket| tree.as_ref().is_none_or(|tree| tree.is_connected(*bucket)))
            .collect()
    }

    pub(super) fn lease(
        &mut self,
        token: Token,
        pass: PassId,
        bucket: Bucket,
    ) -> Result<(), TransactionError> {
        self.in_pass(pass, Phase::Training)?;
        match self.state(bucket) {
            None => return Err(TransactionError::NoBucket { bucket }),
            Some(BucketState::ToDo) => {}
            Some(_) => return Err(TransactionError::NotToDo { bucket }),
        }
        for group in self.grid().partitions_of(bucket) {
            if let Some(holder) = self.holder(group).filter(|holder| *holder != token) {
                return Err(TransactionError::Held {
                    bucket,
                    group,
                    holder,
                });
            }
        }
        if init_tree::InitTree::of(self, Some(token)).is_some_and(|tree| !tree.is_connected(bucket))
        {
            return Err(TransactionError::Tree { bucket });
        }
        let leases = &mut self.trainer(token)?.leases;
        if leases.len() >= MAX_LEASES {
            let (what, most) = ("buckets leased to one trainer", MAX_LEASES);
            return Err(TransactionError::TooMany { what, most });
        }
        leases.push(bucket);
        self.set(bucket, BucketState::Leased);
        Ok(())
    }

    pub(super) fn give_up(
        &mut self,
        token: Token,
        pass: PassId,
        buckets: &[Bucket],
    ) -> Result<(), TransactionError> {
        self.of_pass(pass)?;
        let had_tree = init_tree::rule_holds(self);
        for &bucket in buckets {
            self.release(token, bucket, BucketState::ToDo)?;
        }
        self.keep_tree(had_tree, buckets)
    }

    pub(super) fn settle(
        &mut self,
        token: Token,
        settlement: &Settlement,
    ) -> Result<(), TransactionError> {
        let Settlement {
            pass,
            buckets,
            partitions,
            next,
            sums,
            loss,
            told,
            kept_on,
        } = settlement;
        self.of_pass(*pass)?;
        self.have_one_of_each(kept_on)?;
        let had_tree = init_tree::rule_holds(self);
        for &bucket in buckets {
            self.release(token, bucket, BucketState::Done)?;
        }
        self.keep_tree(had_tree, buckets)?;
        self.all_replaced(buckets, partitions)?;
        let mut counts = BTreeSet::new();
        for settled in partitions {
            self.replace(token, settled, &mut counts)?;
        }
        if let Some(last) = counts.last() {
            self.trainer(token)?.files = *last;
        }
        let progress = &mut self.work.progress;
        progress.sums.add(sums);
        if let Some(loss) = loss {
            progress.loss = Some(loss.clone());
        }
        if let Some(what) = progress.not_finite() {
            return Err(TransactionError::NotFinite { what });
        }
        self.set_event_log(token, *told);
        self.changed = self.revision + 1;
        next.iter()
            .try_for_each(|bucket| self.lease(token, *pass, *bucket))
    }

    /// Removes a lease from its trainer, and sets the state of the bucket.
    fn release(
        &mut self,
        token: Token,
        bucket: Bucket,
        state: BucketState,
    ) -> Result<(), TransactionError> {
        let leases = &mut self.trainer(token)?.leases;
        let Some(at) = leases.iter().position(|lease| *lease == bucket) else {
            return Err(TransactionError::NotLeased { token, bucket });
        };
        leases.remove(at);
        self.set(bucket, state);
        Ok(())
    }

    fn keep_tree(&self, had_tree: bool, buckets: &[Bucket]) -> Result<(), TransactionError> {
        match buckets.first() {
            Some(&bucket) if had_tree && !init_tree::rule_holds(self) => {
                Err(TransactionError::Tree { bucket })
            }
            _ => Ok(()),
        }
    }

    /// Checks that exactly the partitions of `buckets` have new files, each once.
    fn all_replaced(
        &self,
        buckets: &[Bucket],
        partitions: &[SettledPartition],
    ) -> Result<(), TransactionError> {
        let mut missing = self.grid().partitions_of_all(buckets);
        let surplus = partitions.iter().find(|p| !missing.remove(&p.group));
        let buckets = buckets.len();
        match surplus.map(|p| p.group).or(missing.first().copied()) {
            Some(group) => Err(TransactionError::Partitions { buckets, group }),
            None => Ok(()),
        }
    }

    /// Replaces the files of a partition. `counts` collects the counts in the names of this settlement's files.
    fn replace(
        &mut self,
        token: Token,
        settled: &SettledPartition,
        counts: &mut BTreeSet<u64>,
    ) -> Result<(), TransactionError> {
        let &SettledPartition {
            group,
            from: found,
            ref files,
        } = settled;
        let (found_files, expected) = (files.len(), self.grid().tables[group.0 as usize].len());
        if found_files != expected {
            return Err(TransactionError::Files {
                group,
                expected,
                found: found_files,
            });
        }
        let last = self.trainer(token)?.files;
        for file in files {
            let count = file.id.writer.filter(|(writer, _)| *writer == token);
            let count = count.map_or(0, |(_, count)| count);
            if count <= last || !counts.insert(count) {
                return Err(TransactionError::FileName { group, count, last });
            }
        }
        let unknown = TransactionError::Partitions { buckets: 0, group };
        let index = self.grid().group_index(group).ok_or(unknown)?;
        let partition = &mut self.work.partitions[index];
        let expected = partition.stamp();
        if expected != found {
            return Err(TransactionError::Fork {
                group,
                expected,
                found,
            });
        }
        *partition = PartitionVersion {
            generation: partition.generation + 1,
            files: files.clone(),
        };
        Ok(())
    }

    /// Sets the state of a bucket in the grid.
    pub(super) fn set(&mut self, bucket: Bucket, state: BucketState) {
        debug_assert!(self.grid().buckets() as u64 <= MAX_BUCKETS);
        if let Some(index) = self.grid().index(bucket) {
            self.work.buckets.set(index, state);
        }
    }
}
