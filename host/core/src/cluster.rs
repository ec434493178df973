//! By what the trainers of one run reach each other: a register that compares and sets, and live traffic.
//!
//! What must survive is in the register, a few kilobytes ([`crate::ledger`]). What is only live, heartbeats, wake-ups and
//! shared parameters, goes from trainer to trainer and may be lost. Both are traits that block, so that nobody but their
//! implementation knows a network.
//!
//! A register may lie: an answer may never come, a refusal may be spurious, and its last writes may be lost. So whoever
//! writes reads again after anything but [`Written::As`], and looks for its own transaction.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::graph::Bucket;
use crate::ledger::Token;

/// The newest value of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the register calls it; the next write names it.
    pub revision: u64,
    /// What was written.
    pub value: Vec<u8>,
}

/// What became of a write that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is the newest value, under this revision.
    As(u64),
    /// Another value is the newest, as the register says, or one of the same `id` was written before.
    Refused,
}

/// No answer came in time. What was asked for may have happened, or may still happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

/// One value that all trainers of a run agree on.
pub trait Register: Send + Sync {
    /// The newest value; none if nothing was ever written. It is never older than what this register has answered
    /// before, unless the register has lost writes.
    ///
    /// # Errors
    /// When no answer comes.
    fn read(&self) -> Result<Option<Entry>, NoAnswer>;

    /// Writes `value`, durably, if the newest is that of revision `after`; with none, if there is no value. `id` is of
    /// this write and no other: a register may use it to recognise one that is repeated.
    ///
    /// # Errors
    /// When no answer comes.
    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> Result<Written, NoAnswer>;

    /// Whether the register was shut down on purpose, because no trainer took part in the run any more. It is asked only
    /// while nothing answers, and may say no where this is unknown.
    fn is_shut_down(&self) -> bool {
        false
    }
}

/// What a trainer tells all others every few seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Beat {
    /// Who.
    pub token: Token,
    /// What people call it. Its own choice: escape it where it is shown.
    pub name: String,
    /// Its rank, where it was started with one.
    pub rank: Option<u32>,
    /// What it does.
    pub state: State,
    /// The bucket that it trains, waits for or writes.
    pub bucket: Option<Bucket>,
    /// Edges that it trains per second, over its last bucket.
    pub edges_per_second: f64,
    /// Share of its time that training waited for anything.
    pub waited: f64,
    /// Seconds that the last exchange of parameters took; none of a model without shared ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<f64>,
}

/// What a trainer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It waits for others: to come, to plan, to give partitions back.
    Waiting,
    /// It waits for the partitions of its bucket.
    Loading,
    /// It trains.
    Training,
    /// It waits until what it trained is durable.
    Settling,
    /// It ranks edges.
    Validating,
}

/// What was heard of a trainer last.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// Its last beat.
    pub beat: Beat,
    /// How long ago it arrived, by this machine's monotonic clock.
    pub ago: Duration,
}

/// Answers questions of other trainers.
pub type Answers = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// Traffic that may be lost. Everything sent comes back to the sender, too: who does not hear itself is cut off, and
/// says nothing about others.
pub trait Live: Send + Sync {
    /// Tells all trainers, this one included. Does not wait.
    fn beat(&self, beat: &Beat);

    /// Who was heard since this connection was made, each once.
    fn heard(&self) -> Vec<Heard>;

    /// Tells all trainers that the register's value has changed. Does not wait.
    fn wake(&self);

    /// Waits for a wake-up, at most this long. One that came since the last call counts. Says whether one came.
    fn wait(&self, at_most: Duration) -> bool;

    /// Asks the trainer `whom`.
    ///
    /// # Errors
    /// When no answer comes within this time.
    fn ask(&self, whom: Token, question: &[u8], within: Duration) -> Result<Vec<u8>, NoAnswer>;

    /// Answers what is asked of `me` from now on, from a thread of the connection's own. Ends with the connection, or when
    /// it is called for another token.
    ///
    /// # Errors
    /// When there is no connection.
    fn answer(&self, me: Token, answers: Answers) -> Result<(), NoAnswer>;
}
