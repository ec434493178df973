//! Validation between epochs: edges are ranked, block by block.
//!
//! A ranking belongs to one checkpoint, taken at the end of the epoch. No bucket is leased and no checkpoint begins
//! while the ranking is in progress, so every trainer ranks the same values. Each trainer leases one block after
//! another; when a trainer is removed, its block becomes free. The sums of the blocks are added in the order of the
//! blocks, independent of who ranked them and when. The conclusions from them, that is, the learning rates and whether
//! training ends, are computed here.
//!
//! A ranking is not part of a checkpoint: a run that continues from a checkpoint ranks again, with the same result.

use std::collections::BTreeSet;
use std::fmt;

use pbg_core::event::{RankStats, RankTotals};
use pbg_core::plateau::{PlateauRules, ValidationState};
use pbg_core::schedule::PassId;
use serde::{Deserialize, Serialize};

use super::{LedgerRecord, Phase, Token, TransactionError};

/// Most blocks of a ranking. Their sums are part of the record, which has to stay small.
pub const MAX_BLOCKS: u32 = 256;

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

    fn left(&self) -> usize {
        self.blocks.iter().filter(|block| block.is_none()).count()
    }
}

impl LedgerRecord {
    /// Whether an epoch has ended that must be ranked and has not been.
    pub(super) fn awaits_ranking(&self) -> bool {
        let (pass, plateau) = (self.work.pass, &self.work.progress.plateau);
        let is_between = (pass.edge_set, pass.edge_chunk) == (0, 0) && self.work.plan.is_none();
        let validation = self.terms.validation.as_ref();
        is_between
            && pass.epoch > plateau.seen
            && validation.is_some_and(|v| pass.epoch.is_multiple_of(v.interval))
    }

    /// Returns the blocks of the current ranking that are neither leased nor ranked.
    #[must_use]
    pub fn free_blocks(&self) -> Vec<u32> {
        let leased: BTreeSet<u32> = self.trainers.values().filter_map(|t| t.block).collect();
        let blocks = self.ranking.iter().flat_map(|ranking| &ranking.blocks);
        (0..)
            .zip(blocks)
            .filter(|(block, totals)| totals.is_none() && !leased.contains(block))
            .map(|(block, _)| block)
            .collect()
    }

    /// Returns the result of the current ranking and the state of validation that follows from it, or `None` before
    /// every block is ranked.
    #[must_use]
    pub fn outcome(&self) -> Option<(ValidationResult, ValidationState)> {
        let (ranking, validation) = (self.ranking.as_ref()?, self.terms.validation.as_ref()?);
        let [lhs, rhs] = ranking.totals()?;
        let (epochs, ranks) = (ranking.epochs, RankTotals::of_both(&lhs, &rhs));
        let mut plateau = self.work.progress.plateau;
        plateau.observe(epochs, ranks.mrr, &validation.rules);
        Some((ValidationResult { epochs, ranks }, plateau))
    }

    pub(super) fn begin_ranking(
        &mut self,
        epochs: u32,
        version: u64,
        blocks: u32,
    ) -> Result<(), TransactionError> {
        let phase = Phase::Ranking;
        self.in_pass(end_of(epochs), phase)?;
        if self.ranking.is_some() {
            return Err(TransactionError::Phase { phase });
        }
        if self.checkpoints.of_pass() != Some(version) {
            return Err(TransactionError::NotOfEpoch { version });
        }
        match blocks {
            0 => return Err(TransactionError::NoBlock { block: 0 }),
            1..=MAX_BLOCKS => {}
            _ => {
                let (what, most) = ("blocks of a ranking", MAX_BLOCKS as usize);
                return Err(TransactionError::TooMany { what, most });
            }
        }
        self.ranking = Some(ValidationRanking {
            epochs,
            version,
            blocks: vec![None; blocks as usize],
        });
        Ok(())
    }

    pub(super) fn lease_block(
        &mut self,
        token: Token,
        ranking: RankingId,
        block: u32,
    ) -> Result<(), TransactionError> {
        self.in_ranking(ranking)?;
        if !self.free_blocks().contains(&block) {
            let ranking = self.ranking.as_ref();
            let exists = ranking.is_some_and(|r| (block as usize) < r.blocks.len());
            return Err(match exists {
                true => TransactionError::BlockTaken { block },
                false => TransactionError::NoBlock { block },
            });
        }
        let leased = &mut self.trainer(token)?.block;
        if leased.is_some() {
            let (what, most) = ("blocks leased to one trainer", 1);
            return Err(TransactionError::TooMany { what, most });
        }
        *leased = Some(block);
        Ok(())
    }

    pub(super) fn give_up_block(
        &mut self,
        token: Token,
        ranking: RankingId,
        block: u32,
    ) -> Result<(), TransactionError> {
        self.in_ranking(ranking)?;
        let leased = &mut self.trainer(token)?.block;
        if *leased != Some(block) {
            return Err(TransactionError::BlockNotLeased { token, block });
        }
        *leased = None;
        Ok(())
    }

    pub(super) fn ranked(
        &mut self,
        token: Token,
        ranking: RankingId,
        block: u32,
        totals: &BlockTotals,
    ) -> Result<(), TransactionError> {
        self.give_up_block(token, ranking, block)?;
        if !totals.iter().all(RankTotals::is_possible) {
            return Err(TransactionError::Totals { block });
        }
        let ranking = self.ranking.as_mut();
        let found = ranking.and_then(|ranking| ranking.blocks.get_mut(block as usize));
        match found {
            Some(found @ None) => {
                *found = Some(*totals);
                Ok(())
            }
            Some(_) => Err(TransactionError::BlockTaken { block }),
            None => Err(TransactionError::NoBlock { block }),
        }
    }

    pub(super) fn end_ranking(&mut self, ranking: RankingId) -> Result<(), TransactionError> {
        let phase = Phase::Ranking;
        self.in_ranking(ranking)?;
        let (Some(ranking), Some(validation)) = (&self.ranking, &self.terms.validation) else {
            return Err(TransactionError::Phase { phase });
        };
        let Some((validated, plateau)) = self.outcome() else {
            let left = ranking.left();
            return Err(TransactionError::NotRanked { left });
        };
        self.work.enough = plateau.ends(&validation.rules);
        self.changed = self.revision + 1;
        self.work.progress.plateau = plateau;
        self.validated = Some(validated);
        self.ranking = None;
        Ok(())
    }

    /// Refuses a decision made in another ranking.
    fn in_ranking(&self, asked: RankingId) -> Result<(), TransactionError> {
        self.in_pass(end_of(asked.epochs), Phase::Ranking)?;
        match self.ranking.as_ref().map(ValidationRanking::id) == Some(asked) {
            true => Ok(()),
            false => Err(TransactionError::Ranking { asked }),
        }
    }

    /// Drops the ranking in progress, because the run ends.
    pub(super) fn drop_ranking(&mut self) {
        self.ranking = None;
        for trainer in self.trainers.values_mut() {
            trainer.block = None;
        }
    }

    /// Checks the consistency of a ranking that was read.
    pub(super) fn check_ranking(&self) -> Result<(), String> {
        let Some(ranking) = &self.ranking else {
            let mut blocks = self.trainers.values().map(|trainer| trainer.block);
            return match blocks.any(|block| block.is_some()) {
                true => Err("a trainer has a lease of a block, but there is no ranking".to_owned()),
                false => self.check_validated(),
            };
        };
        let &ValidationRanking {
            epochs,
            version,
            ref blocks,
        } = ranking;
        if self.phase() != Phase::Ranking || epochs != self.work.pass.epoch {
            return Err(format!(
                "it has a ranking after {epochs} epochs, which is not due"
            ));
        }
        if self.checkpoints.of_pass() != Some(version) {
            return Err(format!(
                "checkpoint {version} is ranked, but is not the newest"
            ));
        }
        let count = blocks.len();
        if count == 0 || count > MAX_BLOCKS as usize {
            return Err(format!("its ranking has {count} blocks"));
        }
        let mut totals = blocks.iter().flatten().flatten();
        if !totals.all(RankTotals::is_possible) {
            return Err("sums over ranks are impossible".to_owned());
        }
        let mut leased = BTreeSet::new();
        for block in self.trainers.values().filter_map(|trainer| trainer.block) {
            let is_to_do = blocks.get(block as usize).is_some_and(Option::is_none);
            if !is_to_do || !leased.insert(block) {
                return Err(format!(
                    "block {block} of the ranking is leased twice, already ranked or missing"
                ));
            }
        }
        self.check_validated()
    }

    fn check_validated(&self) -> Result<(), String> {
        let Some(ValidationResult { epochs, ranks }) = &self.validated else {
            return Ok(());
        };
        match *epochs > self.work.pass.epoch || !ranks.is_finite() {
            true => Err(format!("the ranks after {epochs} epochs are impossible")),
            false => Ok(()),
        }
    }
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

/// Returns the pass at which a run is after that many epochs.
const fn end_of(epochs: u32) -> PassId {
    PassId {
        epoch: epochs,
        edge_set: 0,
        edge_chunk: 0,
    }
}
