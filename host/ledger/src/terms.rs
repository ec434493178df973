//! The terms that all trainers of a run must have in common, and the first difference between two sets of terms.

use std::collections::BTreeSet;
use std::fmt::Display;

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::schedule::RunExtent;
use pbg_core::strategy::Pass;
use serde::{Deserialize, Serialize};

use super::{ServerTerms, ValidationTerms};

/// Version of the record, its transactions and the messages between trainers. It increases with every change that a
/// program of the old version would misread.
pub const PROTOCOL: u32 = 3;

/// Most buckets of a grid.
pub const MAX_BUCKETS: u64 = 1 << 18;
/// Most tables of a side.
pub const MAX_TABLES: usize = 64;

/// The buckets of a pass and the partitions that they need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// Partitions of the left side.
    pub lhs: u32,
    /// Partitions of the right side.
    pub rhs: u32,
    /// Whether left partition `p` and right partition `p` are the same ([`Pass::shared`]). The tables of both sides are
    /// then those of the left side.
    pub shared: bool,
    /// Entity types whose partitions are swapped, for each side. The partitions of a side without any are not held by
    /// one trainer: every trainer has them all.
    pub tables: [Vec<String>; 2],
}

impl Grid {
    /// Returns the number of buckets.
    #[must_use]
    pub const fn buckets(&self) -> usize {
        self.lhs as usize * self.rhs as usize
    }

    /// Returns the number of partitions of `side`.
    #[must_use]
    pub const fn partitions(&self, side: Side) -> u32 {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }

    /// Returns the index of `bucket`, row by row, or `None` outside the grid.
    #[must_use]
    pub fn index(&self, bucket: Bucket) -> Option<usize> {
        let is_inside = bucket.lhs < self.lhs && bucket.rhs < self.rhs;
        is_inside.then_some(bucket.lhs as usize * self.rhs as usize + bucket.rhs as usize)
    }

    /// Returns the bucket at `index`, which must be less than [`Grid::buckets`].
    #[must_use]
    pub const fn bucket(&self, index: usize) -> Bucket {
        let rhs = self.rhs as usize;
        Bucket::new((index / rhs) as u32, (index % rhs) as u32)
    }

    /// Returns the side that `side` shares its partitions with: the left side if both sides are the same, or else
    /// `side`.
    pub(super) const fn owner(&self, side: Side) -> Side {
        if self.shared { Side::Lhs } else { side }
    }

    /// Whether partitions of `side` are swapped, and therefore held by trainers.
    #[must_use]
    pub fn is_swapped(&self, side: Side) -> bool {
        !self.tables[self.owner(side) as usize].is_empty()
    }

    /// Returns the partitions that the trainer of a bucket with edges holds.
    pub fn partitions_of(&self, bucket: Bucket) -> impl Iterator<Item = SidePartition> + use<> {
        let group = |side, partition| {
            let is_swapped = self.is_swapped(side);
            is_swapped.then_some((self.owner(side), partition))
        };
        let first = group(Side::Lhs, bucket.lhs);
        let second = group(Side::Rhs, bucket.rhs).filter(|group| first != Some(*group));
        first.into_iter().chain(second)
    }

    /// Returns the partitions that the trainer of several buckets with edges holds.
    pub fn partitions_of_all<'b>(
        &self,
        buckets: impl IntoIterator<Item = &'b Bucket>,
    ) -> BTreeSet<SidePartition> {
        let buckets = buckets.into_iter();
        buckets
            .flat_map(|bucket| self.partitions_of(*bucket))
            .collect()
    }

    /// Iterates over all partitions that are swapped, in the order of [`super::TrainedState::partitions`].
    pub fn groups(&self) -> impl Iterator<Item = SidePartition> + '_ {
        let own = |side: &Side| self.owner(*side) == *side && self.is_swapped(*side);
        Side::BOTH
            .into_iter()
            .filter(own)
            .flat_map(|side| (0..self.partitions(side)).map(move |p| (side, p)))
    }

    /// Returns the index of `group` in [`super::TrainedState::partitions`], or `None` if it is not swapped.
    #[must_use]
    pub fn group_index(&self, (side, partition): SidePartition) -> Option<usize> {
        let is_held = self.owner(side) == side && self.is_swapped(side);
        let before = match side {
            Side::Rhs if self.is_swapped(Side::Lhs) => self.lhs as usize,
            _ => 0,
        };
        (is_held && partition < self.partitions(side)).then_some(before + partition as usize)
    }

    /// Returns the grid of `pass`, with one table on every side that is swapped.
    #[must_use]
    pub fn of(pass: &Pass) -> Self {
        let tables = |bytes: &[u64]| match bytes.iter().any(|bytes| *bytes > 0) {
            true => vec!["entities".to_owned()],
            false => Vec::new(),
        };
        let lhs = tables(&pass.lhs_bytes);
        Self {
            lhs: pass.lhs_partitions,
            rhs: pass.rhs_partitions,
            shared: pass.shared,
            tables: match pass.shared {
                true => [lhs, Vec::new()],
                false => [lhs, tables(&pass.rhs_bytes)],
            },
        }
    }

    /// Whether this is the grid of `pass`, apart from its tables. A side is swapped if its partitions have bytes.
    #[must_use]
    pub fn fits(&self, pass: &Pass) -> bool {
        let swaps = |bytes: &[u64]| bytes.iter().any(|b| *b > 0);
        (self.lhs, self.rhs, self.shared) == (pass.lhs_partitions, pass.rhs_partitions, pass.shared)
            && self.is_swapped(Side::Lhs) == swaps(&pass.lhs_bytes)
            && self.is_swapped(Side::Rhs) == swaps(&pass.rhs_bytes)
    }
}

/// Plugin that a run uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginTerm {
    /// Name, for messages.
    pub name: String,
    /// SHA-256 of the component, in hexadecimal.
    pub sha256: String,
}

/// Properties that must be the same for all trainers of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTerms {
    /// Version of the record and its transactions, [`PROTOCOL`].
    pub protocol: u32,
    /// Hash of the part of the configuration that affects training.
    pub training: String,
    /// Checksum of the dataset's manifest, which covers its edges and dictionaries.
    pub dataset: u32,
    /// Plugins, in a fixed order.
    pub plugins: Vec<PluginTerm>,
    /// Numbers of epochs, edge sets and edge chunks.
    pub extent: RunExtent,
    /// Buckets and partitions.
    pub grid: Grid,
    /// Whether in the first pass every bucket after the first must share a partition with the buckets given out before
    /// it (`distributed_tree_init_order`).
    pub tree_init: bool,
    /// Validation settings; none if the run does not validate.
    pub validation: Option<ValidationTerms>,
    /// Whether trainers find each other's heartbeats in an object store, and not by a server. Trainers that differ in
    /// this do not hear each other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub polls: bool,
    /// Partition servers; none if partitions are in the checkpoint folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<ServerTerms>,
}

/// First difference between a trainer and the run that it wants to join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found} here, but {expected} in the run")]
pub struct TermsDifference {
    /// Name of the property that differs.
    pub what: String,
    /// Value in the run.
    pub expected: String,
    /// Value in the trainer.
    pub found: String,
}

impl RunTerms {
    /// Creates the terms of a single pass over `grid`, without anything else that trainers could differ in, for callers
    /// that only lease and settle.
    #[must_use]
    pub const fn of_one_pass(grid: Grid) -> Self {
        Self {
            protocol: PROTOCOL,
            training: String::new(),
            dataset: 0,
            plugins: Vec::new(),
            extent: RunExtent {
                epochs: 1,
                edge_sets: 1,
                edge_chunks: 1,
            },
            grid,
            tree_init: false,
            validation: None,
            polls: false,
            servers: None,
        }
    }

    /// Compares these terms with those of a trainer that wants to join the run.
    ///
    /// # Errors
    /// Returns the first difference.
    pub fn compare(&self, other: &Self) -> Result<(), TermsDifference> {
        if self == other {
            return Ok(());
        }
        same("the protocol version", self.protocol, other.protocol)?;
        let training = |terms: &Self| terms.training.escape_debug().to_string();
        same(
            "the hash of the configuration",
            training(self),
            training(other),
        )?;
        let dataset = |terms: &Self| format!("{:08x}", terms.dataset);
        same(
            "the checksum of the dataset's manifest",
            dataset(self),
            dataset(other),
        )?;
        same(
            "the number of plugins",
            self.plugins.len(),
            other.plugins.len(),
        )?;
        for (ours, theirs) in self.plugins.iter().zip(&other.plugins) {
            let what = format!("the plugin {}", ours.name.escape_debug());
            same(&what, shown(ours), shown(theirs))?;
        }
        let extent = |terms: &Self| {
            let RunExtent {
                epochs,
                edge_sets,
                edge_chunks,
            } = terms.extent;
            format!("{epochs} epochs, {edge_sets} edge sets, {edge_chunks} edge chunks")
        };
        same("the extent of training", extent(self), extent(other))?;
        let grid = |terms: &Self| format!("{:?}", terms.grid);
        same("the grid of buckets", grid(self), grid(other))?;
        same(
            "distributed_tree_init_order",
            self.tree_init,
            other.tree_init,
        )?;
        let validation = |terms: &Self| match &terms.validation {
            Some(validation) => validation.to_string(),
            None => "unset".to_owned(),
        };
        same("`[validation]`", validation(self), validation(other))?;
        let carrier = |terms: &Self| match terms.polls {
            true => "the object store (no distributed_init_method)",
            false => "a server (distributed_init_method)",
        };
        same("what carries heartbeats", carrier(self), carrier(other))?;
        let servers = |terms: &Self| match &terms.servers {
            Some(servers) => servers.to_string(),
            None => "0".to_owned(),
        };
        same("num_partition_servers", servers(self), servers(other))
    }

    /// Checks terms that were read.
    ///
    /// # Errors
    /// Returns the reason for which no record can have these terms.
    pub(super) fn check(&self) -> Result<(), String> {
        let Grid {
            lhs,
            rhs,
            shared,
            ref tables,
        } = self.grid;
        if self.protocol != PROTOCOL {
            return Err(format!(
                "its protocol version is {}, but this program has version {PROTOCOL}",
                self.protocol
            ));
        }
        let buckets = u64::from(lhs) * u64::from(rhs);
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(format!("its grid has {lhs} x {rhs} partitions"));
        }
        if shared && (lhs != rhs || !tables[1].is_empty()) {
            return Err(format!(
                "its sides share their partitions, but it has {lhs} x {rhs} partitions or tables on the right side"
            ));
        }
        if let Some(tables) = tables.iter().find(|tables| tables.len() > MAX_TABLES) {
            return Err(format!("a side has {} tables", tables.len()));
        }
        if let Some(validation) = &self.validation {
            validation.check()?;
        }
        let RunExtent {
            edge_sets,
            edge_chunks,
            ..
        } = self.extent;
        if edge_sets == 0 || edge_chunks == 0 {
            return Err(format!(
                "it has {edge_sets} edge sets and {edge_chunks} edge chunks"
            ));
        }
        Ok(())
    }
}

fn shown(plugin: &PluginTerm) -> String {
    format!(
        "{} {}",
        plugin.name.escape_debug(),
        plugin.sha256.escape_debug()
    )
}

fn same<T: PartialEq + Display>(what: &str, expected: T, found: T) -> Result<(), TermsDifference> {
    match expected == found {
        true => Ok(()),
        false => Err(TermsDifference {
            what: what.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }),
    }
}
