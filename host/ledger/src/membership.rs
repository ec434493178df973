//! Membership of trainers: joining, leaving, revoking.

use super::{BucketState, Join, LedgerRecord, SilentTrainer, Token, Trainer, TransactionError};

/// Most trainers of a run.
pub const MAX_TRAINERS: usize = 256;
/// Greatest length of a trainer's name in bytes.
pub const MAX_NAME: usize = 64;

impl LedgerRecord {
    /// Adds the trainer that has drawn `token`.
    pub(super) fn join(&mut self, token: Token, join: &Join) -> Result<(), TransactionError> {
        let (current, asked) = (self.incarnation, join.incarnation);
        if current != asked {
            return Err(TransactionError::Incarnation { current, asked });
        }
        self.matches_manifest(join.newest)?;
        self.terms.compare(&join.terms)?;
        let (found, most) = (join.name.len(), MAX_NAME);
        if found > most {
            return Err(TransactionError::Name { found, most });
        }
        if let Some(earlier) = join.instead_of.filter(|t| self.trainers.contains_key(t)) {
            self.remove(earlier)?;
        }
        if let Some(rank) = join.rank
            && let Some(other) = self.trainers.values().find(|t| t.rank == Some(rank))
        {
            let name = other.name.clone();
            return Err(TransactionError::RankTaken { rank, name });
        }
        if self.trainers.len() >= MAX_TRAINERS {
            let (what, most) = ("trainers of a run", MAX_TRAINERS);
            return Err(TransactionError::TooMany { what, most });
        }
        // A run that was stopped continues when somebody starts a trainer after all have left. A trainer that was
        // removed from it before was meant to stop as well.
        let rejoins = join.instead_of.is_some();
        self.stopping = match (self.stopping, self.trainers.is_empty() && !rejoins) {
            (true, false) => {
                return Err(TransactionError::Phase {
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
        self.end_gathering();
        Ok(())
    }

    /// Removes a trainer as [`LedgerRecord::remove`] does, but refuses if it is the last one and no checkpoint contains
    /// everything that is trained.
    pub(super) fn leave_saved(&mut self, token: Token) -> Result<(), TransactionError> {
        match self.trainers.len() > 1 || self.is_saved() {
            true => self.remove(token),
            false => Err(TransactionError::NotSaved),
        }
    }

    /// Removes a trainer as [`LedgerRecord::remove`] does, but refuses if it has written a transaction since it was
    /// considered silent.
    pub(super) fn remove_silent(&mut self, silent: SilentTrainer) -> Result<(), TransactionError> {
        let SilentTrainer { token, last } = silent;
        match SilentTrainer::of(self, token) {
            Some(now) if now != silent => Err(TransactionError::Alive {
                token,
                last: now.last,
                seen: last,
            }),
            _ => self.remove(token),
        }
    }

    /// Removes the trainer `token`. Its buckets are to do again, from the files that the record names, and so is its
    /// block of a ranking.
    pub(super) fn remove(&mut self, token: Token) -> Result<(), TransactionError> {
        let Some(trainer) = self.trainers.remove(&token) else {
            return Err(TransactionError::NoTrainer { token });
        };
        for bucket in trainer.leases {
            self.set(bucket, BucketState::ToDo);
        }
        Ok(())
    }
}

impl SilentTrainer {
    /// Returns the trainer `token` as it is in `record`, or `None` if it is not part of the run.
    #[must_use]
    pub fn of(record: &LedgerRecord, token: Token) -> Option<Self> {
        let last = record.trainers.get(&token)?.last;
        Some(Self { token, last })
    }
}
