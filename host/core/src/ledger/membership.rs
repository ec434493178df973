//! Who takes part: join, leave, revoke.

use serde::{Deserialize, Serialize};

use super::{BucketState, Cut, Record, Refusal, Silent, Terms, Token};
use crate::graph::Bucket;

/// Most trainers of a run.
pub const MAX_TRAINERS: usize = 256;
/// Most bytes of a trainer's name.
pub const MAX_NAME: usize = 64;

/// A trainer in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trainer {
    /// What people call it. It is the trainer's own choice: escape it where it is shown.
    pub name: String,
    /// Its rank, where it was started with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Number of its last transaction.
    pub last: u64,
    /// The highest count of its files that were settled.
    pub files: u64,
    /// The buckets that it has, in the order in which they were leased.
    pub leases: Vec<Bucket>,
    /// The block of a ranking that it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
}

/// What a trainer says when it wants to take part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// What the run must have in common with it.
    pub terms: Terms,
    /// What people call it.
    pub name: String,
    /// Its rank, where it was started with one.
    pub rank: Option<u32>,
    /// An earlier token of the same trainer, which ends with this.
    pub instead_of: Option<Token>,
    /// History of the record that the trainer has checked ([`Record::incarnation`]).
    pub incarnation: Token,
    /// The newest manifest that it has held against that record; none before the first.
    pub newest: Option<Cut>,
}

impl Record {
    /// A trainer that has drawn `token` begins to take part.
    pub(super) fn join(&mut self, token: Token, join: &Join) -> Result<(), Refusal> {
        let (current, asked) = (self.incarnation, join.incarnation);
        if current != asked {
            return Err(Refusal::Incarnation { current, asked });
        }
        self.stands(join.newest)?;
        self.terms.agree(&join.terms)?;
        let (found, most) = (join.name.len(), MAX_NAME);
        if found > most {
            return Err(Refusal::Name { found, most });
        }
        if let Some(earlier) = join.instead_of.filter(|t| self.trainers.contains_key(t)) {
            self.remove(earlier)?;
        }
        if let Some(rank) = join.rank
            && let Some(other) = self.trainers.values().find(|t| t.rank == Some(rank))
        {
            let name = other.name.clone();
            return Err(Refusal::RankTaken { rank, name });
        }
        if self.trainers.len() >= MAX_TRAINERS {
            let (what, most) = ("trainers of a run", MAX_TRAINERS);
            return Err(Refusal::TooMany { what, most });
        }
        // A run that was stopped continues when somebody starts a trainer after all have left. A trainer that was removed
        // from it before was meant to stop as well.
        let rejoins = join.instead_of.is_some();
        self.stopping = match (self.stopping, self.trainers.is_empty() && !rejoins) {
            (true, false) => {
                return Err(Refusal::Phase {
                    phase: self.phase(),
                });
            }
            _ => false,
        };
        let trainer = Trainer {
            name: join.name.clone(),
            rank: join.rank,
            last: 0,
            files: 0,
            leases: Vec::new(),
            block: None,
        };
        self.trainers.insert(token, trainer);
        if self.trainers.len() >= self.wanted as usize {
            self.wanted = 0;
        }
        Ok(())
    }

    /// As [`Record::remove`], unless `token` is the last and something that is trained is in no checkpoint.
    pub(super) fn leave_saved(&mut self, token: Token) -> Result<(), Refusal> {
        match self.trainers.len() > 1 || self.is_saved() {
            true => self.remove(token),
            false => Err(Refusal::NotSaved),
        }
    }

    /// As [`Record::remove`], unless the trainer has written something since it was silent.
    pub(super) fn remove_silent(&mut self, silent: Silent) -> Result<(), Refusal> {
        let Silent { token, last } = silent;
        match Silent::of(self, token) {
            Some(now) if now != silent => Err(Refusal::Alive {
                token,
                last: now.last,
                seen: last,
            }),
            _ => self.remove(token),
        }
    }

    /// The part of `token` ends. The buckets that it has are to do again, from the files that the record names, and so is
    /// the block of a ranking.
    pub(super) fn remove(&mut self, token: Token) -> Result<(), Refusal> {
        let Some(trainer) = self.trainers.remove(&token) else {
            return Err(Refusal::NoTrainer { token });
        };
        for bucket in trainer.leases {
            self.set(bucket, BucketState::ToDo);
        }
        Ok(())
    }
}
