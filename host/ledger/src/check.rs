//! Validation of a record that was read. It comes from the network and is untrusted: its sizes and shapes, and the
//! consistency of its parts, are checked before anything else.

use std::collections::{BTreeMap, BTreeSet};

use pbg_core::graph::{Bucket, Side, SidePartition};

use super::{
    BucketState, DamagedRecord, FileId, LedgerRecord, MAX_CUTS, MAX_LEASES, MAX_NAME, MAX_TRAINERS,
    Token, event_log::MAX_EVENT_LOGS,
};

/// Most parameters of a stateful loss.
const MAX_LOSS_PARAMETERS: usize = 4096;

impl LedgerRecord {
    /// Checks the sizes and shapes of the record and the consistency of its parts.
    ///
    /// # Errors
    /// Returns the first inconsistency.
    pub fn check(&self) -> Result<(), DamagedRecord> {
        self.terms.check().map_err(DamagedRecord)?;
        self.check_counts().map_err(DamagedRecord)?;
        self.check_work().map_err(DamagedRecord)?;
        self.check_files().map_err(DamagedRecord)?;
        self.check_trainers().map_err(DamagedRecord)?;
        self.check_servers().map_err(DamagedRecord)?;
        self.check_leases().map_err(DamagedRecord)?;
        self.check_cuts().map_err(DamagedRecord)?;
        self.check_ranking().map_err(DamagedRecord)
    }

    fn check_work(&self) -> Result<(), String> {
        let (work, grid, extent) = (&self.work, self.grid(), self.terms.extent);
        let (found, expected) = (work.buckets.len(), grid.buckets());
        if found != expected {
            return Err(format!(
                "it has the states of {found} buckets, but its grid has {expected}"
            ));
        }
        if self.changed > self.revision {
            return Err(format!(
                "it was last changed at revision {}, which is in the future",
                self.changed
            ));
        }
        let pass = work.pass;
        let is_end = (pass.edge_set, pass.edge_chunk) == (0, 0) && work.plan.is_none();
        let is_inside = pass.edge_set < extent.edge_sets && pass.edge_chunk < extent.edge_chunks;
        if !is_inside || pass.epoch >= extent.epochs && !is_end {
            return Err(format!("{pass:?} is outside {extent:?}"));
        }
        let is_untouched = work.buckets.count(BucketState::ToDo) == found;
        if work.plan.is_none() && !is_untouched {
            return Err("the pass has no plan, but some of its buckets are not to do".to_owned());
        }
        if let Some(loss) = &work.progress.loss
            && loss.parameters.len() > MAX_LOSS_PARAMETERS
        {
            return Err(format!("its loss has {} parameters", loss.parameters.len()));
        }
        if work.told.len() > MAX_EVENT_LOGS {
            return Err(format!(
                "it has event files of {} trainers",
                work.told.len()
            ));
        }
        if let Some(told) = work
            .told
            .values()
            .find(|told| told.revision > self.revision)
        {
            return Err(format!(
                "an event file was extended at revision {}, which is in the future",
                told.revision
            ));
        }
        let lr_factor = work.progress.plateau.lr_factor;
        if !(0.0..=1.0).contains(&lr_factor) {
            return Err(format!(
                "its factor of learning rates is {lr_factor}, not a number from 0 to 1"
            ));
        }
        match work.progress.not_finite() {
            Some(what) => Err(format!("{what} is infinite or not a number")),
            None => Ok(()),
        }
    }

    fn check_files(&self) -> Result<(), String> {
        let (found, expected) = (self.work.partitions.len(), self.grid().groups().count());
        if found != expected {
            return Err(format!(
                "it has {found} partitions, but its grid has {expected}"
            ));
        }
        let mut names: BTreeSet<(Token, u64)> = BTreeSet::new();
        for (group, partition) in self.grid().groups().zip(&self.work.partitions) {
            let (files, tables) = (&partition.files, &self.grid().tables[group.0 as usize]);
            if !files.is_empty() && files.len() != tables.len() {
                let (found, expected) = (files.len(), tables.len());
                return Err(format!(
                    "{} has {found} files for {expected} tables",
                    shown(group)
                ));
            }
            for FileId { writer, .. } in files.iter().map(|file| file.id) {
                let Some((token, count)) = writer else {
                    continue;
                };
                if !names.insert((token, count)) {
                    return Err(format!("file {count} of trainer {token} is named twice"));
                }
                let settled = self.trainers.get(&token).map(|trainer| trainer.files);
                if settled.is_some_and(|settled| count > settled) {
                    return Err(format!("trainer {token} has not settled its file {count}"));
                }
            }
        }
        Ok(())
    }

    fn check_trainers(&self) -> Result<(), String> {
        if self.trainers.len() > MAX_TRAINERS {
            return Err(format!("it has {} trainers", self.trainers.len()));
        }
        let mut ranks = BTreeSet::new();
        for (token, trainer) in &self.trainers {
            if trainer.name.len() > MAX_NAME {
                return Err(format!(
                    "the name of trainer {token} has {} bytes",
                    trainer.name.len()
                ));
            }
            if let Some(rank) = trainer.rank.filter(|rank| !ranks.insert(*rank)) {
                return Err(format!("two trainers have rank {rank}"));
            }
            if trainer.last == 0 {
                return Err(format!("trainer {token} has not joined"));
            }
        }
        Ok(())
    }

    fn check_leases(&self) -> Result<(), String> {
        let mut holders: BTreeMap<SidePartition, Token> = BTreeMap::new();
        let mut leased: BTreeSet<Bucket> = BTreeSet::new();
        for (&token, trainer) in &self.trainers {
            if trainer.leases.len() > MAX_LEASES {
                return Err(format!(
                    "trainer {token} has {} buckets",
                    trainer.leases.len()
                ));
            }
            for &bucket in &trainer.leases {
                let is_leased = self.state(bucket) == Some(BucketState::Leased);
                if !is_leased || !leased.insert(bucket) {
                    return Err(format!(
                        "trainer {token} has a lease of bucket {bucket}, which is not leased or is leased twice"
                    ));
                }
                for group in self.grid().partitions_of(bucket) {
                    let holder = *holders.entry(group).or_insert(token);
                    if holder != token {
                        return Err(format!(
                            "trainers {holder} and {token} both hold {}",
                            shown(group)
                        ));
                    }
                }
            }
        }
        match self.work.buckets.count(BucketState::Leased) == leased.len() {
            true => Ok(()),
            false => Err("a bucket is leased to nobody".to_owned()),
        }
    }

    fn check_cuts(&self) -> Result<(), String> {
        let cuts = &self.checkpoints.cuts;
        let versions = self
            .checkpoints
            .base
            .iter()
            .chain(cuts)
            .map(|cut| cut.version);
        if cuts.len() > MAX_CUTS || !versions.is_sorted_by(|a, b| a < b) {
            return Err("its checkpoints are out of order".to_owned());
        }
        let (before, newest) = (
            self.checkpoints.before_pass,
            self.checkpoints.newest_version(),
        );
        if before > newest {
            return Err(format!(
                "checkpoint {before} began before the pass, but the newest checkpoint is {newest}"
            ));
        }
        let is_own = |cut: &super::CheckpointCut| {
            let begun = cut.begun.as_ref();
            begun.is_some_and(|b| b.incarnation == self.incarnation && b.revision < self.revision)
        };
        match cuts.iter().all(is_own) {
            true => Ok(()),
            false => Err("one of its checkpoints belongs to another history".to_owned()),
        }
    }
}

fn shown((side, partition): SidePartition) -> String {
    match side {
        Side::Lhs => format!("partition {partition} of the left side"),
        Side::Rhs => format!("partition {partition} of the right side"),
    }
}
