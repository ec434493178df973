//! Interfaces between the trainers of one run: a register with compare-and-set, and live traffic.
//!
//! The state that must survive is in the register, a few kilobytes ([`LedgerRecord`](crate::LedgerRecord)). Live
//! traffic, that is, heartbeats, wake-ups and shared parameters, is sent from trainer to trainer and may be lost. Both
//! interfaces are blocking traits, so that only their implementation knows of a network.
//!
//! A register is unreliable: a reply may never arrive, a refusal may be spurious, and its last writes may be lost. So a
//! writer that gets anything but [`WriteReply::Accepted`] reads again and looks for its own transaction.

use std::sync::Arc;
use std::time::Duration;

use pbg_core::graph::Bucket;
use serde::{Deserialize, Serialize};

use crate::Token;

/// Newest value of a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterEntry {
    /// Revision number that the register has given the value. The next write names it.
    pub revision: u64,
    /// The value.
    pub value: Vec<u8>,
}

/// Reply to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteReply {
    /// The written value is the newest, with this revision number.
    Accepted(u64),
    /// Another value is the newest, according to the register, or a value with the same `id` was written before.
    Refused,
}

/// Error for a reply that did not arrive in time. The request may have been carried out, or may still be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

/// Register of one value that all trainers of a run agree on.
pub trait Register: Send + Sync {
    /// Returns the newest value, or `None` if nothing was ever written. It is never older than a value that this
    /// register has returned before, unless the register has lost writes.
    ///
    /// # Errors
    /// Fails if no reply arrives.
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer>;

    /// Writes `value`, durably, if the newest value has revision `after`, or with `None`, if there is no value. `id`
    /// must be unique to this write: a register may use it to recognise a repetition.
    ///
    /// # Errors
    /// Fails if no reply arrives.
    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> Result<WriteReply, NoAnswer>;

    /// Whether the register was shut down on purpose, because no trainer took part in the run any more. It is asked
    /// only while nothing answers, and may say no where this is unknown.
    fn is_shut_down(&self) -> bool {
        false
    }
}

/// Heartbeat that a trainer sends to all others every few seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// Token of the trainer.
    pub token: Token,
    /// Name for display. The trainer chooses it, so it must be escaped where it is shown.
    pub name: String,
    /// Rank, if the trainer was started with one.
    pub rank: Option<u32>,
    /// Current activity.
    pub state: TrainerActivity,
    /// Bucket that it trains, waits for or writes.
    pub bucket: Option<Bucket>,
    /// Edges trained per second, over its last bucket.
    pub edges_per_second: f64,
    /// Fraction of its time that training spent waiting.
    pub waited: f64,
    /// Seconds that the last exchange of parameters took; none if the model has no shared parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<f64>,
}

/// Current activity of a trainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainerActivity {
    /// Waiting for other trainers: to join, to plan, or to release partitions.
    Waiting,
    /// Waiting for the partitions of its bucket.
    Loading,
    /// Training a bucket.
    Training,
    /// Waiting until the trained partitions are durable.
    Settling,
    /// Ranking edges.
    Validating,
    /// Keeping partitions in memory: it is a partition server.
    Serving,
}

/// Last heartbeat received from a trainer.
#[derive(Clone, Debug, PartialEq)]
pub struct LastHeartbeat {
    /// The heartbeat.
    pub beat: Heartbeat,
    /// Time since it arrived, by this machine's monotonic clock.
    pub ago: Duration,
}

/// Handler that answers the questions of other trainers.
pub type QuestionHandler = Arc<dyn Fn(&[u8]) -> Vec<u8> + Send + Sync>;

/// Live traffic between trainers, which may be lost. Every message also returns to its sender. So a trainer that does
/// not receive its own messages knows that it is cut off, and draws no conclusions about others.
pub trait LiveTraffic: Send + Sync {
    /// Sends a heartbeat to all trainers, including this one. Does not wait.
    fn beat(&self, beat: &Heartbeat);

    /// Returns the last heartbeat of each trainer that was received since this connection was made.
    fn heartbeats(&self) -> Vec<LastHeartbeat>;

    /// Notifies all trainers that the register's value has changed. Does not wait.
    fn wake(&self);

    /// Waits for a wake-up, at most for `at_most`. A wake-up that arrived since the last call counts. Returns whether
    /// there was one.
    fn wait(&self, at_most: Duration) -> bool;

    /// Returns how late a heartbeat may be noticed, because trainers look for heartbeats only now and then.
    fn delay(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether questions reach other trainers. Without them, trainers share no parameters.
    fn carries_questions(&self) -> bool {
        true
    }

    /// Sends a question to the trainer `whom` and waits for the answer.
    ///
    /// # Errors
    /// Fails if no answer arrives within the time `within`.
    fn ask(&self, whom: Token, question: &[u8], within: Duration) -> Result<Vec<u8>, NoAnswer>;

    /// Answers questions to `me` from now on, on a thread of the connection. Ends with the connection, or when the
    /// function is called for another token.
    ///
    /// # Errors
    /// Fails if there is no connection.
    fn answer(&self, me: Token, answers: QuestionHandler) -> Result<(), NoAnswer>;
}
