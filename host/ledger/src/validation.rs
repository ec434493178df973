//! Validation in the terms and the record of a run.

use std::fmt;

use pbg_core::event::{RankStats, RankTotals};
use pbg_core::plateau::PlateauRules;
use serde::{Deserialize, Serialize};

/// Settings of the validation between epochs, which are the same for all trainers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidationTerms {
    /// Description of the edges ranked and their candidates, compared as text.
    pub what: String,
    /// Number of epochs between two rankings.
    pub interval: u32,
    /// Rules for the learning rates and early stopping.
    pub rules: PlateauRules,
}

impl ValidationTerms {
    /// Checks terms that were read.
    pub(super) fn check(&self) -> Result<(), String> {
        let decay = self.rules.lr_decay;
        let is_decay = decay.is_none_or(|decay| decay > 0.0 && decay < 1.0);
        match self.interval > 0 && is_decay {
            true => Ok(()),
            false => Err(format!("its validation settings are invalid: {self}")),
        }
    }
}

impl fmt::Display for ValidationTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            what,
            interval,
            rules,
        } = self;
        let what = what.escape_debug();
        write!(f, "{what}, interval {interval}")?;
        if let Some(patience) = rules.early_stop {
            write!(f, ", early_stop {patience}")?;
        }
        if let Some(decay) = rules.lr_decay {
            write!(f, ", lr_decay {decay}, lr_patience {}", rules.lr_patience)?;
        }
        Ok(())
    }
}

/// Sums over the ranks of a block's edges: left sides, right sides.
pub type BlockTotals = [RankTotals; 2];

/// Ranking in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidationRanking {
    /// Number of epochs trained.
    pub epochs: u32,
    /// Version number of the checkpoint that is ranked.
    pub version: u64,
    /// Sums of each block; none for blocks that are not ranked yet.
    pub blocks: Vec<Option<BlockTotals>>,
}

impl ValidationRanking {
    /// Returns the identifier of the ranking.
    #[must_use]
    pub const fn id(&self) -> RankingId {
        RankingId {
            epochs: self.epochs,
            version: self.version,
        }
    }

    /// Returns the sums of all blocks, added in their order, or `None` before every block is ranked.
    #[must_use]
    pub fn totals(&self) -> Option<BlockTotals> {
        let mut totals = BlockTotals::default();
        for block in &self.blocks {
            for (total, part) in totals.iter_mut().zip(block.as_ref()?) {
                total.add(part);
            }
        }
        Some(totals)
    }

    /// Returns the number of blocks that are not ranked.
    pub(super) fn left(&self) -> usize {
        self.blocks.iter().filter(|block| block.is_none()).count()
    }
}

/// Identifier of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankingId {
    /// Number of epochs trained.
    pub epochs: u32,
    /// Version number of the checkpoint that is ranked.
    pub version: u64,
}

impl fmt::Display for RankingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { epochs, version } = self;
        write!(
            f,
            "the ranking of checkpoint {version} after epoch {epochs}"
        )
    }
}

/// Result of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidationResult {
    /// Number of epochs trained before the ranking.
    pub epochs: u32,
    /// Statistics of the ranks of both sides.
    pub ranks: RankStats,
}
