//! Pure core of `pbg-host`: the model vocabulary, the training schedule and the rules of a run.
//!
//! This crate does no I/O and does not depend on a tensor library, the plugin sandbox or the terminal.
//!
//! Modules, in reading order: the vocabulary ([`graph`], [`model`]); the traits that plugins implement ([`strategy`]);
//! the schedule, which iterates over epoch > edge set > edge chunk > bucket ([`schedule`]); losses whose formula the
//! host executes ([`loss`], with `pbg-formula`); the cutting of a bucket's edges into batches ([`batching`]); the check
//! that a relation sampler draws only edges that are left ([`draws`]); tables from which negatives are drawn
//! ([`draw_table`]), and draws by weights that a plugin gives ([`weighted_draws`]); learning rates over a run ([`lr_schedule`]); early stopping ([`plateau`]); the events that a run
//! reports ([`event`]); rounding of embeddings to bfloat16 for storage ([`bfloat16`]); safe display of text from
//! untrusted sources ([`text`]); and locks that survive a panic ([`mod@lock`]).

pub mod batch_graph;
pub mod batching;
pub mod bfloat16;
pub mod draw_table;
pub mod draws;
pub mod event;
pub mod graph;
pub mod limits;
pub mod lock;
pub mod loss;
pub mod lr_schedule;
pub mod model;
pub mod nearest;
pub mod plan;
pub mod plateau;
pub mod schedule;
pub mod seed;
pub mod strategy;
pub mod text;
pub mod weighted_draws;
