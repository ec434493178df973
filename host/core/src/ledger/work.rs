//! Buckets and the files that they are trained into: leasing, settling, giving up.
//!
//! A trainer holds exactly the partitions that its leased buckets need, and only as long as it has these leases. So no
//! trainer holds a partition while it waits for another one. To keep a partition, a trainer leases the next bucket in
//! the transaction that settles the last.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    BucketState, File, MAX_BUCKETS, Partition, Phase, Record, Refusal, Stamp, Sums, Token, tree,
};
use crate::graph::{Bucket, SidePartition};
use crate::loss::LossState;
use crate::schedule::PassId;

/// Most buckets leased to one trainer at the same time.
pub const MAX_LEASES: usize = 32;

/// New files of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settled {
    /// The partition.
    pub group: SidePartition,
    /// Version that they were trained from: [`Partition::stamp`] at the lease or at the last settlement.
    pub from: Stamp,
    /// One file per table of the side, all durable.
    pub files: Vec<File>,
}

impl Settled {
    /// Returns the version of the writer's copy after the settlement ([`Partition::stamp`]).
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp {
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
    pub partitions: Vec<Settled>,
    /// Buckets to lease in the same transaction. Partitions that neither these nor the remaining leases need become
    /// free.
    pub next: Vec<Bucket>,
    /// Sums over the trained buckets.
    pub sums: Sums,
    /// State of the loss, if this trainer is the one that keeps it.
    pub loss: Option<LossState>,
    /// Length of the trainer's event file, including the events of these buckets, in bytes ([`super::Told`]).
    pub told: u64,
}

impl Record {
    /// Returns the buckets that `token` may lease now, in the order of their indices in the grid.
    #[must_use]
    pub fn free(&self, token: Token) -> Vec<Bucket> {
        let grid = self.grid();
        if self.phase() != Phase::Training {
            return Vec::new();
        }
        let held: BTreeSet<SidePartition> = self
            .trainers
            .iter()
            .filter(|(other, _)| **other != token)
            .flat_map(|(_, trainer)| &trainer.leases)
            .flat_map(|bucket| grid.needs(*bucket))
            .collect();
        let tree = tree::Tree::of(self, Some(token));
        (0..grid.buckets())
            .filter(|index| self.work.buckets.get(*index) == Some(BucketState::ToDo))
            .map(|index| grid.bucket(index))
            .filter(|bucket| grid.needs(*bucket).all(|group| !held.contains(&group)))
            .filter(|bucket| tree.as_ref().is_none_or(|tree| tree.reaches(*bucket)))
            .collect()
    }

    pub(super) fn lease(
        &mut self,
        token: Token,
        pass: PassId,
        bucket: Bucket,
    ) -> Result<(), Refusal> {
        self.in_pass(pass, Phase::Training)?;
        match self.state(bucket) {
            None => return Err(Refusal::NoBucket { bucket }),
            Some(BucketState::ToDo) => {}
            Some(_) => return Err(Refusal::NotToDo { bucket }),
        }
        for group in self.grid().needs(bucket) {
            if let Some(holder) = self.holder(group).filter(|holder| *holder != token) {
                return Err(Refusal::Held {
                    bucket,
                    group,
                    holder,
                });
            }
        }
        if tree::Tree::of(self, Some(token)).is_some_and(|tree| !tree.reaches(bucket)) {
            return Err(Refusal::Tree { bucket });
        }
        let leases = &mut self.trainer(token)?.leases;
        if leases.len() >= MAX_LEASES {
            let (what, most) = ("buckets leased to one trainer", MAX_LEASES);
            return Err(Refusal::TooMany { what, most });
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
    ) -> Result<(), Refusal> {
        self.of_pass(pass)?;
        let had_tree = tree::holds(self);
        for &bucket in buckets {
            self.release(token, bucket, BucketState::ToDo)?;
        }
        self.keep_tree(had_tree, buckets)
    }

    pub(super) fn settle(&mut self, token: Token, settlement: &Settlement) -> Result<(), Refusal> {
        let Settlement {
            pass,
            buckets,
            partitions,
            next,
            sums,
            loss,
            told,
        } = settlement;
        self.of_pass(*pass)?;
        let had_tree = tree::holds(self);
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
            return Err(Refusal::NotFinite { what });
        }
        self.tell(token, *told);
        self.changed = self.revision + 1;
        next.iter()
            .try_for_each(|bucket| self.lease(token, *pass, *bucket))
    }

    /// Removes a lease from its trainer, and sets the state of the bucket.
    fn release(&mut self, token: Token, bucket: Bucket, state: BucketState) -> Result<(), Refusal> {
        let leases = &mut self.trainer(token)?.leases;
        let Some(at) = leases.iter().position(|lease| *lease == bucket) else {
            return Err(Refusal::NotLeased { token, bucket });
        };
        leases.remove(at);
        self.set(bucket, state);
        Ok(())
    }

    fn keep_tree(&self, had_tree: bool, buckets: &[Bucket]) -> Result<(), Refusal> {
        match buckets.first() {
            Some(&bucket) if had_tree && !tree::holds(self) => Err(Refusal::Tree { bucket }),
            _ => Ok(()),
        }
    }

    /// Checks that exactly the partitions of `buckets` have new files, each once.
    fn all_replaced(&self, buckets: &[Bucket], partitions: &[Settled]) -> Result<(), Refusal> {
        let needs = |bucket: &Bucket| self.grid().needs(*bucket);
        let mut missing: BTreeSet<SidePartition> = buckets.iter().flat_map(needs).collect();
        let surplus = partitions.iter().find(|p| !missing.remove(&p.group));
        let buckets = buckets.len();
        match surplus.map(|p| p.group).or(missing.first().copied()) {
            Some(group) => Err(Refusal::Partitions { buckets, group }),
            None => Ok(()),
        }
    }

    /// Replaces the files of a partition. `counts` collects the counts in the names of this settlement's files.
    fn replace(
        &mut self,
        token: Token,
        settled: &Settled,
        counts: &mut BTreeSet<u64>,
    ) -> Result<(), Refusal> {
        let &Settled {
            group,
            from: found,
            ref files,
        } = settled;
        let (found_files, expected) = (files.len(), self.grid().tables[group.0 as usize].len());
        if found_files != expected {
            return Err(Refusal::Files {
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
                return Err(Refusal::FileName { group, count, last });
            }
        }
        let unknown = Refusal::Partitions { buckets: 0, group };
        let index = self.grid().group_index(group).ok_or(unknown)?;
        let partition = &mut self.work.partitions[index];
        let expected = partition.stamp();
        if expected != found {
            return Err(Refusal::Fork {
                group,
                expected,
                found,
            });
        }
        *partition = Partition {
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
