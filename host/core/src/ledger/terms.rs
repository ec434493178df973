//! What all trainers of a run must have in common, and where the first difference is.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use super::{PROTOCOL, Validation};
use crate::graph::{Bucket, Side, SidePartition};
use crate::schedule::Extent;
use crate::strategy::Pass;

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
    /// Whether left and right partition `p` are the same ([`Pass::shared`]). The tables of both sides are then
    /// the left one's.
    pub shared: bool,
    /// Entity types whose partitions each side swaps. A side without any is nobody's: every trainer has it.
    pub tables: [Vec<String>; 2],
}

impl Grid {
    /// Number of buckets.
    #[must_use]
    pub const fn buckets(&self) -> usize {
        self.lhs as usize * self.rhs as usize
    }

    /// Partitions of `side`.
    #[must_use]
    pub const fn partitions(&self, side: Side) -> u32 {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }

    /// Index of `bucket`, row by row; none outside the grid.
    #[must_use]
    pub fn index(&self, bucket: Bucket) -> Option<usize> {
        let is_inside = bucket.lhs < self.lhs && bucket.rhs < self.rhs;
        is_inside.then_some(bucket.lhs as usize * self.rhs as usize + bucket.rhs as usize)
    }

    /// The bucket at `index`, which is less than [`Grid::buckets`].
    #[must_use]
    pub const fn bucket(&self, index: usize) -> Bucket {
        let rhs = self.rhs as usize;
        Bucket::new((index / rhs) as u32, (index % rhs) as u32)
    }

    /// Who `side` shares its partitions with: the left side where both are the same.
    pub(super) const fn owner(&self, side: Side) -> Side {
        if self.shared { Side::Lhs } else { side }
    }

    /// Whether partitions of `side` are swapped, and thus held.
    #[must_use]
    pub fn is_swapped(&self, side: Side) -> bool {
        !self.tables[self.owner(side) as usize].is_empty()
    }

    /// The partitions that a bucket with edges needs: those that its trainer holds.
    pub fn needs(&self, bucket: Bucket) -> impl Iterator<Item = SidePartition> + use<> {
        let group = |side, partition| {
            let is_swapped = self.is_swapped(side);
            is_swapped.then_some((self.owner(side), partition))
        };
        let first = group(Side::Lhs, bucket.lhs);
        let second = group(Side::Rhs, bucket.rhs).filter(|group| first != Some(*group));
        first.into_iter().chain(second)
    }

    /// All partitions that are held, in the order of [`super::Work::partitions`].
    pub fn groups(&self) -> impl Iterator<Item = SidePartition> + '_ {
        let own = |side: &Side| self.owner(*side) == *side && self.is_swapped(*side);
        Side::BOTH
            .into_iter()
            .filter(own)
            .flat_map(|side| (0..self.partitions(side)).map(move |p| (side, p)))
    }

    /// Index of `group` in [`super::Work::partitions`]; none if nobody holds such.
    #[must_use]
    pub fn group_index(&self, (side, partition): SidePartition) -> Option<usize> {
        let is_held = self.owner(side) == side && self.is_swapped(side);
        let before = match side {
            Side::Rhs if self.is_swapped(Side::Lhs) => self.lhs as usize,
            _ => 0,
        };
        (is_held && partition < self.partitions(side)).then_some(before + partition as usize)
    }

    /// The grid of `pass`, with one table on every side that swaps.
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

    /// Whether it is the grid of `pass`, but for tables: what swaps has bytes.
    #[must_use]
    pub fn fits(&self, pass: &Pass) -> bool {
        let swaps = |bytes: &[u64]| bytes.iter().any(|b| *b > 0);
        (self.lhs, self.rhs, self.shared) == (pass.lhs_partitions, pass.rhs_partitions, pass.shared)
            && self.is_swapped(Side::Lhs) == swaps(&pass.lhs_bytes)
            && self.is_swapped(Side::Rhs) == swaps(&pass.rhs_bytes)
    }
}

/// A strategy that takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plugin {
    /// Its name, for messages.
    pub name: String,
    /// SHA-256 of the component, in hexadecimal.
    pub sha256: String,
}

/// What must be the same for all trainers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// Version of the record and its transactions, [`PROTOCOL`].
    pub protocol: u32,
    /// Hash of what a run's configuration decides about training.
    pub training: String,
    /// Checksum of the dataset's manifest, and so of its edges and dictionaries.
    pub dataset: u32,
    /// The strategies, in a fixed order.
    pub plugins: Vec<Plugin>,
    /// How far the run goes.
    pub extent: Extent,
    /// Its buckets and partitions.
    pub grid: Grid,
    /// Whether in the first pass every bucket but the first has a partition that was given out before
    /// (`distributed_tree_init_order`).
    pub tree_init: bool,
    /// What is ranked between epochs; none of a run that does not validate.
    pub validation: Option<Validation>,
}

/// The first thing in which a trainer differs from the run that it wants to join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found} here, but {expected} in the run")]
pub struct Difference {
    /// What differs.
    pub what: String,
    /// The run's.
    pub expected: String,
    /// The trainer's.
    pub found: String,
}

impl Terms {
    /// Terms of one pass over `grid`, and nothing else that trainers could differ in: for what only leases and settles.
    #[must_use]
    pub const fn of_one_pass(grid: Grid) -> Self {
        Self {
            protocol: PROTOCOL,
            training: String::new(),
            dataset: 0,
            plugins: Vec::new(),
            extent: Extent {
                epochs: 1,
                edge_sets: 1,
                edge_chunks: 1,
            },
            grid,
            tree_init: false,
            validation: None,
        }
    }

    /// The first difference of `other`, which wants to join a run of these terms.
    ///
    /// # Errors
    /// That difference.
    pub fn agree(&self, other: &Self) -> Result<(), Difference> {
        if self == other {
            return Ok(());
        }
        same("the protocol version", self.protocol, other.protocol)?;
        same(
            "the hash of the configuration",
            &self.training,
            &other.training,
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
            let Extent {
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
        same("`[validation]`", validation(self), validation(other))
    }

    /// Whether a record can have these terms: for what was read.
    ///
    /// # Errors
    /// What keeps it from that.
    pub(super) fn check(&self) -> Result<(), String> {
        let Grid {
            lhs,
            rhs,
            shared,
            ref tables,
        } = self.grid;
        if self.protocol != PROTOCOL {
            return Err(format!(
                "its protocol version is {}, this program knows {PROTOCOL}",
                self.protocol
            ));
        }
        let buckets = u64::from(lhs) * u64::from(rhs);
        if buckets == 0 || buckets > MAX_BUCKETS {
            return Err(format!("its grid has {lhs} x {rhs} partitions"));
        }
        if shared && (lhs != rhs || !tables[1].is_empty()) {
            return Err(format!(
                "its sides are shared, with {lhs} x {rhs} partitions"
            ));
        }
        if let Some(tables) = tables.iter().find(|tables| tables.len() > MAX_TABLES) {
            return Err(format!("a side has {} tables", tables.len()));
        }
        if let Some(validation) = &self.validation {
            validation.check()?;
        }
        let Extent {
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

fn shown(plugin: &Plugin) -> String {
    format!(
        "{} {}",
        plugin.name.escape_debug(),
        plugin.sha256.escape_debug()
    )
}

fn same<T: PartialEq + Display>(what: &str, expected: T, found: T) -> Result<(), Difference> {
    match expected == found {
        true => Ok(()),
        false => Err(Difference {
            what: what.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }),
    }
}
