//! The training loop and everything that is done with a trained model: evaluation, predictions, neighbours and indexes.
//!
//! The entry point is a configuration that is resolved against its dataset ([`ResolvedConfig`]).
//!
//! In reading order: the loop ([`run`]), the model that it trains ([`model`], [`layout`]), the partition buffer
//! ([`buffer`]), the Hogwild workers ([`workers`]), commits (`commit`), evaluation ([`evaluate`]) and errors
//! ([`error`]).

mod bucket_inputs;
mod bucket_trainer;
pub mod buffer;
pub mod check;
mod cluster_trainer;
mod combine;
mod commit;
mod commit_pacer;
mod compatibility;
mod coordinator;
mod crew;
pub mod draws;
mod edge_prefetch;
pub mod error;
pub mod evaluate;
pub mod executor;
mod holdout_eval;
pub mod index;
pub mod layout;
mod losses;
mod memory;
pub mod model;
mod name_lookup;
mod new_rows;
mod pipeline;
mod planning;
mod processor_time;
pub mod query;
mod resolved;
mod resume_point;
pub mod rounding;
mod run;
mod run_length;
mod running_pipeline;
mod settings;
mod single_trainer;
mod stage_threads;
mod state;
mod storage_thread;
mod stored;
mod tables;
pub mod trained;
mod warnings;
mod without_operators;
mod workers;

pub use check::{CheckReport, require_plans};
pub use cluster_trainer::{
    ClusterOptions, JoinError, Scenario, SimReport, SimTrainer, SyncLimits, simulate_trainer,
};
pub use combine::{Combination, Combined, combine, last_versions};
pub use compatibility::AllowedChanges;
pub use error::{ErrorKind, RunError};
pub use evaluate::predict::{
    AnswerNotes, PredictOptions, Prediction, Predictions, Predictor, Question, Unanswerable,
};
pub use evaluate::{CandidateSet, EvalOptions, EvalReport, GroupBy, GroupRanks};
pub use executor::has_libtorch;
pub use index::{
    BeamWidth, BuiltType, ExactReason, IndexOptions, IndexProgress, IndexQueryOptions, IndexReport,
};
pub use losses::{GuardedLoss, traced};
pub use memory::{
    NotEnoughMemory, addresses_are_limited, default_name_bytes as memory_for_names, peak_bytes,
    require as require_memory, require_more as require_more_memory, total as total_memory,
};
pub use pbg_kernels::executable;
pub use query::{EntityEmbeddings, NamedEntity, Neighbor, QueryModel};
pub use resolved::ResolvedConfig;
pub use resume_point::stops_within_buckets;
pub use run::{Fallbacks, RunOutcome, Strategies};
pub use stored::StoredModel;
