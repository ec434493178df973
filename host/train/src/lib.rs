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
mod buffer_tables;
pub mod check;
mod cluster_trainer;
mod commit_metadata;
mod commit_pacer;
mod coordinator;
mod disk_tables;
pub mod draws;
mod edge_prefetch;
pub mod executor;
mod holdout_eval;
mod losses;
mod new_rows;
mod pipeline;
mod planning;
mod processor_time;
mod run;
mod run_length;
mod running_pipeline;
mod single_trainer;
mod stage_threads;
mod storage_thread;
mod workers;

pub use check::{
    CheckReport, check, first_pass, first_plan, require_plans, too_large_to_plan, verify,
    verify_checkpoint,
};
pub use cluster_trainer::{
    ClusterOptions, Scenario, SimReport, SimTrainer, SyncLimits, distributed_warnings,
    simulate_trainer,
};
pub use executor::check_device;
pub use losses::{GuardedLoss, traced};
pub use pbg_kernels::executable;
pub use run::{Fallbacks, RunOutcome, Strategies, train, train_at, train_distributed};
