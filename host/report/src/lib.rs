//! What `pbg-host` shows researchers: comparisons of bucket orders, training studies and runs.
//!
//! Nothing here reads or writes files or prints: results come in as values and leave as values,
//! CSV or HTML. In reading order: the grids that orders are compared on ([`grid`]), the comparison
//! ([`comparison`]), its columns ([`columns`]) and tables ([`table`]), figures ([`figure`]), and the
//! pages ([`page`], [`pages`]); then what was trained: studies of orders ([`study`]), single runs
//! ([`run`]), and their curves for TensorBoard ([`tensorboard`]).

pub mod columns;
pub mod comparison;
pub mod figure;
pub mod grid;
pub mod page;
pub mod pages;
pub mod run;
pub mod study;
pub mod table;
pub mod tensorboard;
