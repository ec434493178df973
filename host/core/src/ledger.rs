//! What several trainers of one run agree on: a record of a few kilobytes, and transactions that are functions of it.
//!
//! The record lies in a register that compares and sets: a trainer that changes it reads it, applies a [`Transaction`] and
//! writes the result under the condition that nobody wrote in between. Every record that was ever written is a
//! consistent cut of the run. Nothing here reads a clock, draws a number, or knows a network or a file: tokens and
//! counts are arguments.
//!
//! **Who may write.** A trainer draws a [`Token`] and joins with it. A transaction of a token that the record lacks is
//! refused, so a trainer that was revoked, or that a register set back has forgotten, changes nothing. A transaction
//! also names the last transaction of its trainer that is known to be applied (`after`). Where the record has another
//! one, either an answer was lost or the register lost writes; [`Record::fate`] tells them apart.
//!
//! **What it was decided on.** A trainer decides by a record that it has seen, and may stand still for any time before
//! its transaction. So every [`Action`] names what the decision depended on, and is refused where that has changed:
//! buckets by their pass, blocks by their ranking, checkpoints by the newest manifest, joining by the record that was
//! judged, and the end of a silent trainer by its last transaction.
//!
//! **Which record counts.** A checkpoint begins with a transaction that makes a [`Cut`]: the work of that revision is
//! what the manifest says, and the manifest names the cut. A record stands ([`Record::stands`]) as long as it knows the
//! cut of the newest manifest. One that does not is older than the manifest, or of another history; it is dropped, and
//! [`Record::found`] makes a new one from the manifest.
//!
//! **Which files may go.** A register set back names files that were replaced since. So a replaced file stays until
//! a manifest exists whose cut is behind its replacement: no record that can still stand names it then
//! ([`Record::is_garbage`]).
//!
//! **Between epochs.** A run that validates ranks edges where an epoch has ended ([`Ranking`]): of the checkpoint of that
//! moment, in blocks that are leased as buckets are. What follows from the ranks is computed here, so that it is the
//! same for every trainer.
//!
//! In reading order: the words ([`Token`], [`Grid`], [`Terms`], [`Buckets`], [`Partition`]), the [`Record`], the
//! [`Transaction`]s, the [`Ranking`], and why one is refused ([`Refusal`]).

mod buckets;
mod check;
mod checkpoints;
mod error;
mod file;
mod membership;
mod passes;
mod ranking;
mod record;
mod terms;
mod told;
mod transaction;
mod tree;
mod turns;
mod walks;
mod work;

#[cfg(test)]
mod tests;

pub use buckets::{BucketState, Buckets};
pub use checkpoints::{Begun, Checkpoints, Cut, MAX_CUTS, Stale};
pub use error::{Damage, Refusal};
pub use file::{File, FileId, Partition, Stamp, Token, WrongToken};
pub use membership::{Join, MAX_NAME, MAX_TRAINERS, Trainer};
pub use passes::plan_digest;
pub use ranking::{BlockTotals, MAX_BLOCKS, Ranking, RankingId, Validated, Validation};
pub use record::{Founding, PROTOCOL, Phase, Progress, Record, Sums, Work};
pub use terms::{Difference, Grid, MAX_BUCKETS, MAX_TABLES, Plugin, Terms};
pub use told::{Finished, Told};
pub use transaction::{Action, Fate, Order, Silent, Transaction};
pub use turns::Guide;
pub use work::{MAX_LEASES, Settled, Settlement};
