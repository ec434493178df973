//! The pure heart of `pbg-host`: what is trained in which order, and under which rules.
//!
//! This crate does no I/O, knows no tensor library, no sandbox and no terminal.
//! Modules, in reading order: the words ([`graph`], [`model`]), the
//! seams where strategies plug in ([`strategy`]), the schedule that walks
//! epoch > edge set > edge chunk > bucket ([`schedule`]), what several trainers agree on ([`ledger`]) and reach each other by ([`cluster`]), losses and operators as data ([`formula`], [`loss`], [`operator`]), how a bucket's edges become batches
//! ([`batching`]), what a relation sampler owes ([`draws`]), when more training does not help
//! ([`plateau`]), what a run reports ([`event`]), how embeddings are rounded for the disk ([`bfloat16`]), and how text
//! that others chose is shown ([`text`]).

pub mod batch_graph;
pub mod batching;
pub mod bfloat16;
pub mod cluster;
pub mod draws;
pub mod event;
pub mod formula;
pub mod graph;
pub mod ledger;
pub mod limits;
pub mod loss;
pub mod model;
pub mod nearest;
pub mod operator;
pub mod plan;
pub mod plateau;
pub mod schedule;
pub mod seed;
pub mod strategy;
pub mod text;
