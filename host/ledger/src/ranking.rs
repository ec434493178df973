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

use pbg_core::event::RankTotals;
use pbg_core::plateau::ValidationState;
use pbg_core::schedule::PassId;

use super::{
    BlockTotals, LedgerRecord, Phase, RankingId, Token, TransactionError, ValidationRanking,
    ValidationResult,
};

/// Most blocks of a ranking. Their sums are part of the record, which has to stay small.
pub const MAX_BLOCKS: u32 = 256;

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

/// Returns the pass at which a run is after that many epochs.
const fn end_of(epochs: u32) -> PassId {
    PassId {
        epoch: epochs,
        edge_set: 0,
        edge_chunk: 0,
    }
}
