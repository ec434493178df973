//! Phase of a run.

/// Phase of a run, which decides what trainers may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for this many trainers in total.
    Gathering(u32),
    /// Waiting for the plan of the pass.
    Opening,
    /// Buckets are leased and trained.
    Training,
    /// Every bucket of the pass is done.
    PassDone,
    /// An epoch has ended, and its validation edges have to be ranked.
    Ranking,
    /// The run ends on request: no bucket is leased any more.
    Stopping,
    /// Everything is trained.
    Finished,
}
