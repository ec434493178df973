//! A trainer of a distributed run: leases buckets from the ledger, trains them, settles what it has trained, and
//! exchanges shared parameters with the other trainers. The training loop is the one of `pbg-train`; this crate has the
//! other [`Coordinator`](pbg_train::coordinator::Coordinator) of it.
//!
//! In reading order: [`train_distributed`] (joins, trains, joins again after the others have removed this trainer), the
//! `cluster_trainer` (start, joining, leases, settlements, checkpoints, rankings, leaving), its storage in `tables`,
//! its client of the `ledger`, the `server_presence` of partition servers, the `exchange` of shared parameters, and [`simulate_trainer`], which leases and settles
//! without a model.
//!
//! Invariants:
//!
//! * The ledger decides; a trainer only submits actions, and one that was removed drops its tables before it joins
//!   again.
//! * A bucket is settled only once the files of its partitions are durable, so the record never names a file that does
//!   not exist.
//! * No trainer waits for others while it holds partitions.
//! * A message of the exchange counts once, however often it is sent; what the network delivers is checked before it is
//!   used.
//!
//! It must not know how register and live traffic are carried (it uses the traits of `pbg-ledger`), libtorch, the
//! sandbox, or the terminal.

mod cluster_options;
mod cluster_trainer;
mod conversion;
mod exchange;
mod exchange_warnings;
mod heartbeats;
mod ledger;
mod random_token;
#[doc(hidden)]
pub mod received;
mod run;
mod server_presence;
mod simulation;
mod tables;
mod unsupported;

pub use cluster_options::{ClusterOptions, ServerOptions};
pub use exchange::SyncLimits;
pub use exchange_warnings::distributed_warnings;
pub use run::train_distributed;
pub use server_presence::{ServerPresence, server_token};
pub use simulation::{Scenario, SimReport, SimTrainer, simulate_trainer};
pub use unsupported::check_distributed;
