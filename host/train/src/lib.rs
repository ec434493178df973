//! The training loop: partition buffer, threads of the pipeline, Hogwild workers, and the run of a single trainer.
//!
//! In reading order: the loop ([`run`]), the seam to what chooses its buckets ([`coordinator`]), the machine that
//! trains them ([`bucket_trainer`]) with its pipeline ([`running_pipeline`]) and partition buffer ([`buffer`]), the
//! workers (`workers`, [`executor`], [`draws`]), the single trainer (`single_trainer`) with its tables
//! ([`disk_tables`]) and commits ([`commit_metadata`], `commit_pacer`), and the needs of a run before it starts
//! ([`check`](mod@check)).
//!
//! Invariants:
//!
//! * The loop has no decision of its own: a [`Coordinator`](coordinator::Coordinator) chooses buckets and records
//!   results.
//! * A plan is checked to be a permutation of the grid, a draw of a sampler to take only remaining edges.
//! * The draws of a bucket follow from the seed and the bucket's position, so a resumed run draws the same numbers as
//!   an uninterrupted one.
//! * Storage and edges are carried by one thread each, in the order of requests; a commit writes the tables as they
//!   were when it began.
//! * A run that is refused has changed nothing.
//!
//! It must not know other trainers, the ledger, wasmtime, libtorch (it uses the traits of `pbg-kernels`), or the
//! terminal.

mod bucket_inputs;
pub mod bucket_trainer;
pub mod buffer;
mod buffer_tables;
pub mod check;
pub mod commit_metadata;
mod commit_pacer;
pub mod coordinator;
mod disk_limit;
pub mod disk_tables;
pub mod draws;
mod edge_prefetch;
pub mod executor;
pub mod formula_fault;
mod holdout_eval;
mod learning_rates;
mod losses;
mod negatives;
pub mod new_rows;
pub mod own_vectors;
mod pipeline;
mod planning;
mod processor_time;
pub mod run;
mod run_length;
pub mod running_pipeline;
mod scheduled_factors;
mod selection;
mod single_trainer;
mod stage_threads;
mod storage_thread;
mod strategies;
pub mod validation;
mod workers;

pub use check::{
    CheckReport, check, first_pass, first_plan, require_plans, too_large_to_plan, verify,
    verify_checkpoint,
};
pub use coordinator::RunOutcome;
pub use executor::{check_cores, check_device};
pub use losses::{GuardedLoss, traced};
pub use pbg_kernels::{executable, executable_pairs};
pub use run::{train, train_at};
pub use scheduled_factors::{RateCourse, ScheduledFactors, rate_course};
pub use strategies::{Fallbacks, NegativeStrategy, Strategies};
