//! The training loop and everything that is done with a trained model: evaluation, predictions, neighbours and indexes.
//!
//! The entry point is a configuration that is resolved against its dataset ([`Resolved`]).
//!
//! In reading order: the loop ([`run`]), the model that it trains ([`model`], [`layout`]), the partition buffer
//! ([`buffer`]), the Hogwild workers ([`workers`]), commits (`commit`), evaluation ([`evaluate`]) and errors
//! ([`error`]).

mod advice;
mod alone;
pub mod buffer;
pub mod check;
mod combine;
mod commit;
mod coordinator;
mod crew;
pub mod draws;
mod edges;
pub mod error;
pub mod evaluate;
pub mod executor;
mod groups;
mod grow;
mod holdout;
mod identity;
pub mod index;
pub mod layout;
mod line;
mod losses;
mod machine;
mod member;
mod memory;
pub mod model;
mod names;
mod pace;
mod pipeline;
mod plain;
mod planning;
mod processor;
pub mod query;
mod resolved;
pub mod rounding;
mod run;
mod run_length;
mod settings;
mod state;
mod stored;
mod tables;
pub mod trained;
mod transfer;
mod within;
mod work;
mod workers;

pub use check::{CheckReport, require_plans};
pub use combine::{Combination, Combined, combine, last_versions};
pub use error::{ErrorKind, RunError};
pub use evaluate::predict::{
    Approach, PredictOptions, Prediction, Predictions, Predictor, Question, Unanswerable,
};
pub use evaluate::{By, Candidates, EvalOptions, EvalReport, RanksOf};
pub use executor::has_libtorch;
pub use identity::Allowed;
pub use index::{AllInstead, BuiltType, IndexOptions, IndexReport, Linking, Width, WithIndex};
pub use losses::{GuardedLoss, traced};
pub use member::{Actor, Cluster, ClusterError, Rehearsed, Scene, SyncLimits, rehearse};
pub use memory::{
    TooLittle, addresses_are_limited, for_names as memory_for_names, peak_bytes,
    require as require_memory, require_more as require_more_memory, total as total_memory,
};
pub use pbg_kernels::executed;
pub use query::{Chosen, Entity, Model, Neighbor};
pub use resolved::Resolved;
pub use run::{Fallbacks, Outcome, Strategies};
pub use stored::Stored;
pub use within::stops_within_buckets;
