//! Rankings in a model: the steps of trainers between epochs, the invariants, and ledgers with mistakes.
//!
//! The sums of a block are those of `1 << block` edges. So the number of edges of a whole ranking shows which blocks it
//! contains, and how often.

use std::hash::{Hash, Hasher};

use pbg_core::event::RankTotals;
use pbg_core::plateau::PlateauRules;

use super::super::*;
use super::asked::{ranking_id, to_checkpoint};
use super::invariants::standing;
use super::steps::Request;
use super::world::{Budget, Member, Mistake, Model, Stage, World};

/// Request of a trainer between epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Begin,
    Lease(u32),
    GiveUp(u32),
    Rank(u32),
    End,
}

pub(super) fn validation() -> ValidationTerms {
    ValidationTerms {
        what: String::new(),
        interval: 1,
        rules: PlateauRules::default(),
    }
}

/// Returns the sums of a block's ranks.
pub(super) fn totals(block: u32) -> BlockTotals {
    let count = 1 << block;
    let sum = count as f64;
    let side = RankTotals {
        count,
        rank: sum,
        mrr: sum,
        hits: [count; 4],
        auc: sum,
    };
    [side, side]
}

impl Model {
    /// Adds the possible requests of `member` at the end of an epoch. `first` is the trainer that sends requests for
    /// which the sender makes no difference.
    pub(super) fn ranking_requests(
        &self,
        world: &World,
        member: usize,
        first: Option<usize>,
        requests: &mut Vec<Request>,
    ) {
        let (of, is_first) = (&world.members[member], first == Some(member));
        let Some(record) = &world.register else {
            return;
        };
        let mut add = |part| requests.push(Request::Ranking(part));
        let Some(ranking) = &record.ranking else {
            let any = self.mistake == Some(Mistake::AnyCheckpointRanked);
            let writes = |w: &super::world::Writing| w.stage == Stage::Begun;
            if !is_first {
            } else if any || record.checkpoints.of_pass().is_some() {
                add(Part::Begin);
            } else if self.may_checkpoint(world)
                && record.checkpoint_in_progress().is_none()
                && !of.writing.as_ref().is_some_and(writes)
            {
                requests.push(Request::Checkpoint);
            }
            return;
        };
        match of.block {
            Some(block) => {
                add(Part::Rank(block));
                if world.budget.given_up > 0 {
                    add(Part::GiveUp(block));
                }
            }
            None => record
                .free_blocks()
                .into_iter()
                .map(Part::Lease)
                .for_each(&mut add),
        }
        let is_done = ranking.totals().is_some() || self.mistake == Some(Mistake::EarlyConclusion);
        if is_first && is_done {
            add(Part::End);
        }
    }

    pub(super) fn ranking_action(
        &self,
        budget: &mut Budget,
        record: &LedgerRecord,
        of: &Member,
        part: Part,
    ) -> Option<LedgerAction> {
        let epochs = record.work.pass.epoch;
        let ranking = ranking_id(record);
        Some(match part {
            Part::Begin => LedgerAction::BeginRanking {
                epochs,
                version: match self.mistake {
                    Some(Mistake::AnyCheckpointRanked) => record.checkpoints.base?.version,
                    _ => record.checkpoints.of_pass()?,
                },
                blocks: self.blocks,
            },
            Part::Lease(block) => LedgerAction::LeaseBlock { ranking, block },
            Part::GiveUp(block) => {
                budget.given_up -= 1;
                LedgerAction::GiveUpBlock { ranking, block }
            }
            Part::Rank(block) if of.block == Some(block) => LedgerAction::Ranked {
                ranking,
                block,
                totals: Box::new(totals(block)),
            },
            Part::Rank(_) => return None,
            Part::End => LedgerAction::EndRanking(ranking),
        })
    }
}

/// Takes one step towards the end of a ranking, for a single trainer.
pub(super) fn go_on(
    model: &Model,
    mut record: LedgerRecord,
    mut act: impl FnMut(&LedgerRecord, LedgerAction) -> Result<LedgerRecord, TransactionError>,
) -> Result<LedgerRecord, TransactionError> {
    let epochs = record.work.pass.epoch;
    if record.ranking.is_none() {
        if record.checkpoints.of_pass().is_none() {
            record = act(&record, to_checkpoint(&record))?;
            let cut = record.checkpoint_in_progress().unwrap().1;
            record = act(&record, LedgerAction::Committed(cut))?;
        }
        let version = record.checkpoints.of_pass().unwrap();
        let blocks = model.blocks;
        return act(
            &record,
            LedgerAction::BeginRanking {
                epochs,
                version,
                blocks,
            },
        );
    }
    let ranking = ranking_id(&record);
    let Some(&block) = record.free_blocks().first() else {
        return act(&record, LedgerAction::EndRanking(ranking));
    };
    record = act(&record, LedgerAction::LeaseBlock { ranking, block })?;
    let ranked = LedgerAction::Ranked {
        ranking,
        block,
        totals: Box::new(totals(block)),
    };
    act(&record, ranked)
}

/// Each block has its own sums, and those of a whole ranking contain every block once.
pub(super) fn blocks_count_once(model: &Model, world: &World) -> bool {
    let Some(record) = &world.register else {
        return true;
    };
    let ranking = record.ranking.iter().flat_map(|ranking| &ranking.blocks);
    let mut blocks = (0..).zip(ranking);
    let is_own = |(block, found): (u32, &Option<BlockTotals>)| {
        found.is_none_or(|found| found == totals(block))
    };
    let whole = (1 << model.blocks) - 1;
    blocks.all(is_own)
        && record
            .validated
            .is_none_or(|validated| validated.ranks.count == whole)
}

/// The checkpoint that is ranked contains the whole epoch and nothing else.
pub(super) fn is_of_epoch(model: &Model, world: &World) -> bool {
    let record = standing(model, world);
    let Some(ranking) = record.and_then(|record| record.ranking.as_ref()) else {
        return true;
    };
    world.manifests.iter().any(|manifest| {
        let work = &manifest.work;
        manifest.cut.version == ranking.version
            && work.pass.epoch == ranking.epochs
            && work.plan.is_none()
    })
}

pub(super) fn hash(record: &LedgerRecord, state: &mut impl Hasher) {
    record.checkpoints.before_pass.hash(state);
    if let Some(ranking) = &record.ranking {
        let is_ranked = |block: &Option<BlockTotals>| block.is_some();
        let blocks: Vec<bool> = ranking.blocks.iter().map(is_ranked).collect();
        (ranking.version, blocks).hash(state);
    }
    record
        .validated
        .map(|validated| validated.epochs)
        .hash(state);
}

/// Whether a ledger with `mistake` treats `action` in another way.
pub(super) fn is_about(mistake: Mistake, action: &LedgerAction) -> bool {
    matches!(
        (mistake, action),
        (Mistake::RankedUnasked, LedgerAction::Ranked { .. })
            | (
                Mistake::AnyCheckpointRanked,
                LedgerAction::BeginRanking { .. }
            )
            | (Mistake::EarlyConclusion, LedgerAction::EndRanking(_))
    )
}

/// Returns the record after `transaction`, without the check that the mistake omits.
pub(super) fn apply_wrongly(
    record: &LedgerRecord,
    tx: &Transaction,
) -> Result<LedgerRecord, TransactionError> {
    let refused = match record.apply(tx) {
        Err(refused) => refused,
        right => return right,
    };
    let mut next = record.clone();
    match &tx.action {
        LedgerAction::Ranked { block, totals, .. } => {
            let ranking = next.ranking.as_mut().ok_or(refused)?;
            let found = &mut ranking.blocks[*block as usize];
            let found = found.get_or_insert_default();
            for (side, more) in found.iter_mut().zip(&**totals) {
                side.add(more);
            }
        }
        &LedgerAction::BeginRanking {
            epochs,
            version,
            blocks,
        } => {
            next.ranking = Some(ValidationRanking {
                epochs,
                version,
                blocks: vec![None; blocks as usize],
            });
        }
        LedgerAction::EndRanking(_) => {
            let ranking = next.ranking.as_mut().ok_or(refused)?;
            for block in &mut ranking.blocks {
                block.get_or_insert_default();
            }
            return next.apply(tx);
        }
        _ => return Err(refused),
    }
    if let Some(trainer) = next.trainers.get_mut(&tx.token) {
        trainer.last = tx.number;
    }
    Ok(next)
}
