//! Checkpoints: where one begins, which one is the last, which record goes with it, and which files nobody needs.

use crate::graph::SidePartition;
use crate::schedule::PassId;
use serde::{Deserialize, Serialize};

use super::{FileId, Phase, Record, Refusal, Token};

/// Most checkpoints that began after the last one. Older ones are forgotten: a manifest of theirs would then be taken
/// for one of another history, which costs work and loses none of the manifest's.
pub const MAX_CUTS: usize = 16;

/// The revision that a checkpoint is of. The manifest says it, so that a record can recognise the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    /// Number of the checkpoint.
    pub version: u64,
    /// Where it began; none for a machine alone.
    pub begun: Option<Begun>,
}

/// The transaction that a checkpoint began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begun {
    /// History of the record.
    pub incarnation: Token,
    /// The record's revision before it.
    pub revision: u64,
    /// Who writes the checkpoint.
    pub token: Token,
    /// Number of the transaction.
    pub number: u64,
}

impl Cut {
    /// Whether `record` is the one that the checkpoint began with.
    #[must_use]
    pub fn is_of(&self, record: &Record) -> bool {
        self.begun.is_some_and(|begun| {
            begun.incarnation == record.incarnation && begun.revision + 1 == record.revision
        })
    }
}

/// The checkpoints that a record knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoints {
    /// The last one whose manifest is durable.
    pub(super) base: Option<Cut>,
    /// Those that began after it, the oldest first: the last may be under way, the others were given up with their
    /// trainers, which may still write their manifest.
    pub(super) cuts: Vec<Cut>,
    /// Number of the last one that began before the current pass did; 0 if none has.
    pub(super) before_pass: u64,
}

/// Why a record does not go with the newest manifest. It is dropped, and a new one made of the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The record does not know the manifest.
    #[error("the ledger does not know checkpoint {}: it is older, or of another history", newest.version)]
    Older {
        /// Of the newest manifest.
        newest: Cut,
    },
    /// The record's checkpoint is not there.
    #[error("the ledger goes on from checkpoint {}, whose manifest is not there", base.version)]
    NoManifest {
        /// What the record goes on from.
        base: Cut,
    },
}

impl Checkpoints {
    pub(super) fn after(base: Option<Cut>) -> Self {
        Self {
            base,
            cuts: Vec::new(),
            // The run stands where the manifest says.
            before_pass: base.map_or(0, |base| base.version.saturating_sub(1)),
        }
    }

    /// A pass begins: checkpoints so far are of earlier ones.
    pub(super) fn begin_pass(&mut self) {
        self.before_pass = self.newest_version();
    }

    /// Number of the newest checkpoint, if it began in the current pass and none that began after it is still to come.
    #[must_use]
    pub fn of_pass(&self) -> Option<u64> {
        let base = self.base.filter(|base| base.version > self.before_pass);
        base.filter(|_| self.cuts.is_empty())
            .map(|base| base.version)
    }

    /// The last one whose manifest is durable.
    #[must_use]
    pub const fn base(&self) -> Option<Cut> {
        self.base
    }

    /// Those that began after it, the oldest first.
    #[must_use]
    pub fn cuts(&self) -> &[Cut] {
        &self.cuts
    }

    pub(super) fn newest_version(&self) -> u64 {
        let newest = self.cuts.last().or(self.base.as_ref());
        newest.map_or(0, |cut| cut.version)
    }
}

impl Record {
    /// The checkpoint under way, and who writes it.
    #[must_use]
    pub fn checkpoint_under_way(&self) -> Option<(Token, Cut)> {
        let cut = *self.checkpoints.cuts.last()?;
        let token = cut.begun?.token;
        self.trainers.contains_key(&token).then_some((token, cut))
    }

    /// Whether the last checkpoint has everything that is trained.
    #[must_use]
    pub fn is_saved(&self) -> bool {
        let begun = self.checkpoints.base.and_then(|base| base.begun);
        let begun = begun.filter(|begun| begun.incarnation == self.incarnation);
        // The record before a checkpoint begins has the same work as the one after it.
        begun.map_or(0, |begun| begun.revision) >= self.changed
    }

    /// Whether this record goes with the newest manifest, whose cut is `newest`.
    ///
    /// # Errors
    /// Why it is to be dropped.
    pub fn stands(&self, newest: Option<Cut>) -> Result<(), Stale> {
        let Checkpoints { base, ref cuts, .. } = self.checkpoints;
        match (base, newest) {
            (base, newest) if base == newest => Ok(()),
            (_, Some(newest)) if cuts.contains(&newest) => Ok(()),
            (Some(base), None) => Err(Stale::NoManifest { base }),
            (Some(base), Some(newest)) if newest.version < base.version => {
                Err(Stale::NoManifest { base })
            }
            (_, Some(newest)) => Err(Stale::Older { newest }),
            (None, None) => Ok(()),
        }
    }

    /// Whether a file of `group` for the table at `table` is named here.
    #[must_use]
    pub fn names(&self, group: SidePartition, table: usize, id: FileId) -> bool {
        let file = self.partition(group).and_then(|p| p.files.get(table));
        file.is_some_and(|file| file.id == id)
    }

    /// Whether no record that can stand will ever name a file. `self` is the record that the checkpoint began with,
    /// its manifest is durable, [`Action::Committed`](super::Action::Committed) is acknowledged, and the file was
    /// listed before the checkpoint began. The caller keeps what other manifests name.
    ///
    /// A trainer that is gone by the cut settles nothing after it; one that lives settles only files of higher counts
    /// than it has settled.
    #[must_use]
    pub fn is_garbage(&self, group: SidePartition, table: usize, id: FileId) -> bool {
        let may_still_settle = id.writer.is_some_and(|(writer, count)| {
            let writer = self.trainers.get(&writer);
            writer.is_some_and(|trainer| count > trainer.files)
        });
        !may_still_settle && !self.names(group, table, id)
    }

    /// None begins while edges are ranked: the checkpoint that they are ranked with stays the newest one meanwhile, and
    /// nothing changes that another one could hold.
    ///
    /// `newest` is the manifest that the new one follows: if another checkpoint has been written since, this one would
    /// follow the wrong one.
    pub(super) fn begin_checkpoint(
        &mut self,
        (token, number): (Token, u64),
        pass: PassId,
        newest: Option<Cut>,
    ) -> Result<(), Refusal> {
        self.of_pass(pass)?;
        self.stands(newest)?;
        if self.ranking.is_some() {
            let phase = Phase::Ranking;
            return Err(Refusal::Phase { phase });
        }
        if let Some((other, cut)) = self
            .checkpoint_under_way()
            .filter(|(other, _)| *other != token)
        {
            let version = cut.version;
            return Err(Refusal::CheckpointUnderWay {
                token: other,
                version,
            });
        }
        let begun = Begun {
            incarnation: self.incarnation,
            revision: self.revision,
            token,
            number,
        };
        let version = self.checkpoints.newest_version() + 1;
        let cuts = &mut self.checkpoints.cuts;
        if cuts.len() >= MAX_CUTS {
            cuts.remove(0);
        }
        let begun = Some(begun);
        cuts.push(Cut { version, begun });
        Ok(())
    }

    /// Anyone may say that a manifest is durable: who began it may have died after writing it.
    pub(super) fn committed(&mut self, cut: Cut) -> Result<(), Refusal> {
        let Checkpoints { base, cuts, .. } = &mut self.checkpoints;
        if !cuts.contains(&cut) {
            return Err(Refusal::UnknownCut { cut });
        }
        cuts.retain(|other| other.version > cut.version);
        *base = Some(cut);
        let begun = cut
            .begun
            .filter(|begun| begun.incarnation == self.incarnation);
        if let Some(begun) = begun {
            self.taken_over(begun);
        }
        Ok(())
    }
}
