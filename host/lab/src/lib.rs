//! Figures by which bucket orders are compared, for research. Training does not use this crate.
//!
//! Everything is computed from plans; nothing reads or writes files, or prints. In reading order: the grids on which
//! orders are compared ([`grid`]), a replay of the buffer while a plan is trained ([`replay`]), figures of one plan
//! ([`bound`], [`misses`], [`reuse`], [`stall`], [`structure`]) and all of them together ([`analysis`]), simulations of
//! several trainers ([`cluster_simulation`]), values of the literature ([`published`]), comparisons of orders ([`comparison`]) and of models trained with them
//! ([`study`]), and how certain their differences are ([`differences`]).

pub mod analysis;
pub mod bound;
pub mod cluster_simulation;
pub mod comparison;
pub mod differences;
pub mod grid;
pub mod misses;
pub mod published;
pub mod replay;
pub mod reuse;
pub mod stall;
pub mod structure;
pub mod study;
#[cfg(test)]
mod testing;
