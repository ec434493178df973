//! Position of a run: a state machine over epoch > edge set > edge chunk > bucket.
//!
//! It can be serialised between any two calls, so a checkpoint contains it and several trainers can share it:
//! [`Schedule::acquire`] leases a bucket whose partitions no other trainer holds, and [`Schedule::complete`] marks it
//! as done. Nothing here assumes that there is only one trainer.

use serde::{Deserialize, Serialize};

use crate::graph::Bucket;
use crate::plan;
use crate::strategy::Pass;

/// Numbers of epochs, edge sets and edge chunks of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunExtent {
    /// Total number of epochs.
    pub epochs: u32,
    /// Edge sets per epoch.
    pub edge_sets: u32,
    /// Edge chunks per edge set.
    pub edge_chunks: u32,
}

/// Identifier of a pass: one iteration over the grid of buckets.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct PassId {
    /// Epoch, from 0.
    pub epoch: u32,
    /// Edge set, from 0.
    pub edge_set: u32,
    /// Edge chunk, from 0; it changes fastest.
    pub edge_chunk: u32,
}

/// State of one bucket of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Lease {
    Todo,
    Held { trainer: u32 },
    Done,
}

/// Bucket leased to a trainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedBucket {
    /// The bucket.
    pub bucket: Bucket,
    /// Its position in the plan.
    pub position: usize,
}

/// Error for a completion that does not match the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "trainer {trainer} reports position {position} of the plan as done, but has no lease of it"
)]
pub struct NotLeased {
    /// Trainer that reports the bucket as done.
    pub trainer: u32,
    /// Position in the plan.
    pub position: usize,
}

/// Schedule of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pass: PassId,
    plan: Vec<Bucket>,
    leases: Vec<Lease>,
}

impl Schedule {
    /// Creates a schedule before its first pass.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a schedule in `pass` with a plan, some of whose buckets are already trained, as `is_done` says.
    pub fn resume_in_pass(
        pass: PassId,
        plan: Vec<Bucket>,
        is_done: impl Fn(Bucket) -> bool,
    ) -> Self {
        let lease = |bucket: &Bucket| match is_done(*bucket) {
            true => Lease::Done,
            false => Lease::Todo,
        };
        let leases = plan.iter().map(lease).collect();
        Self { pass, plan, leases }
    }

    /// Checks that a schedule that was read fits a run over `extent` and the buckets of `grid`.
    ///
    /// # Errors
    /// Returns the reason for which it does not fit.
    pub fn check(&self, extent: RunExtent, mut grid: Vec<Bucket>) -> Result<(), String> {
        let PassId {
            edge_set,
            edge_chunk,
            ..
        } = self.pass;
        if edge_set >= extent.edge_sets || edge_chunk >= extent.edge_chunks {
            return Err(format!(
                "its position is edge set {} of {}, edge chunk {} of {}",
                u64::from(edge_set) + 1,
                extent.edge_sets,
                u64::from(edge_chunk) + 1,
                extent.edge_chunks
            ));
        }
        let mut plan = self.plan.clone();
        plan.sort_unstable();
        grid.sort_unstable();
        if self.leases.len() != plan.len() || !(plan.is_empty() || plan == grid) {
            return Err("its plan does not contain every bucket exactly once".to_owned());
        }
        Ok(())
    }

    /// Returns the current pass.
    #[must_use]
    pub const fn pass(&self) -> PassId {
        self.pass
    }

    /// Returns the plan of the current pass; empty before [`Schedule::set_plan`].
    #[must_use]
    pub fn plan(&self) -> &[Bucket] {
        &self.plan
    }

    /// Returns the number of buckets of the current pass that are done.
    #[must_use]
    pub fn done(&self) -> usize {
        self.leases.iter().filter(|l| **l == Lease::Done).count()
    }

    /// Iterates over the buckets of the current pass that are done.
    pub fn done_buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let leases = self.leases.iter().zip(&self.plan);
        leases
            .filter(|(lease, _)| **lease == Lease::Done)
            .map(|(_, bucket)| *bucket)
    }

    /// Whether the current pass still needs a plan.
    #[must_use]
    pub fn needs_plan(&self) -> bool {
        self.plan.is_empty()
    }

    /// Whether every epoch of `extent` is trained.
    #[must_use]
    pub const fn finished(&self, extent: RunExtent) -> bool {
        self.pass.epoch >= extent.epochs
    }

    /// Sets the plan of the current pass, which must have been checked to be a permutation of the grid.
    pub fn set_plan(&mut self, plan: Vec<Bucket>) {
        self.leases = vec![Lease::Todo; plan.len()];
        self.plan = plan;
    }

    /// Whether two buckets need the same partition. Partitions that are never swapped do not count, because every
    /// trainer has them.
    #[must_use]
    pub fn conflict(pass: &Pass, a: Bucket, b: Bucket) -> bool {
        plan::needed_partitions(pass, a)
            .any(|group| plan::needed_partitions(pass, b).any(|other| other == group))
    }

    /// Returns the positions of the buckets that `trainer` may lease: those to do whose partitions no other trainer
    /// holds.
    #[must_use]
    pub fn free(&self, trainer: u32, pass: &Pass) -> Vec<usize> {
        let held: Vec<Bucket> = self
            .leases
            .iter()
            .zip(&self.plan)
            .filter(|(lease, _)| matches!(lease, Lease::Held { trainer: t } if *t != trainer))
            .map(|(_, &bucket)| bucket)
            .collect();
        (0..self.plan.len())
            .filter(|&i| self.leases[i] == Lease::Todo)
            .filter(|&i| held.iter().all(|&h| !Self::conflict(pass, self.plan[i], h)))
            .collect()
    }

    /// Leases to `trainer` the first bucket in plan order that it may lease. Returns `None` if there is none: the pass
    /// is done, or others hold the partitions of all that is left.
    pub fn acquire(&mut self, trainer: u32, pass: &Pass) -> Option<LeasedBucket> {
        let position = *self.free(trainer, pass).first()?;
        self.leases[position] = Lease::Held { trainer };
        Some(LeasedBucket {
            bucket: self.plan[position],
            position,
        })
    }

    /// Marks the bucket at `position`, leased to `trainer`, as done.
    ///
    /// # Errors
    /// Fails if `trainer` does not have the lease, because it was given to another trainer or the bucket is done.
    pub fn complete(&mut self, trainer: u32, position: usize) -> Result<(), NotLeased> {
        match self.leases.get_mut(position) {
            Some(lease) if *lease == (Lease::Held { trainer }) => {
                *lease = Lease::Done;
                Ok(())
            }
            _ => Err(NotLeased { trainer, position }),
        }
    }

    /// Gives back all leases of buckets that are not done, as after a crash or an interruption.
    pub fn release_all(&mut self) {
        for lease in &mut self.leases {
            if matches!(lease, Lease::Held { .. }) {
                *lease = Lease::Todo;
            }
        }
    }

    /// Whether a part of the current epoch is trained, or is being trained.
    #[must_use]
    pub fn is_within_epoch(&self) -> bool {
        (self.pass.edge_set, self.pass.edge_chunk) != (0, 0) || !self.plan.is_empty()
    }

    /// Returns to the first pass of the current epoch, as if nothing of the epoch were trained.
    pub fn restart_epoch(&mut self) {
        (self.pass.edge_set, self.pass.edge_chunk) = (0, 0);
        self.plan.clear();
        self.leases.clear();
    }

    /// Whether every bucket of the last pass of an epoch is done.
    #[must_use]
    pub fn epoch_is_done(&self, extent: RunExtent) -> bool {
        let last = (extent.edge_sets, extent.edge_chunks);
        let pass = (self.pass.edge_set + 1, self.pass.edge_chunk + 1);
        pass == last && self.leases.iter().all(|lease| *lease == Lease::Done)
    }

    /// Advances to the next pass if every bucket of this one is done. Returns whether it did.
    pub fn advance(&mut self, extent: RunExtent) -> bool {
        if self.plan.is_empty() || self.leases.iter().any(|l| *l != Lease::Done) {
            return false;
        }
        let pass = &mut self.pass;
        pass.edge_chunk += 1;
        if pass.edge_chunk >= extent.edge_chunks {
            pass.edge_chunk = 0;
            pass.edge_set += 1;
        }
        if pass.edge_set >= extent.edge_sets {
            pass.edge_set = 0;
            pass.epoch += 1;
        }
        self.plan.clear();
        self.leases.clear();
        true
    }
}

#[cfg(test)]
mod tests;
