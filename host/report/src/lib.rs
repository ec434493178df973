//! What `pbg-host` shows researchers: comparisons of bucket orders, training studies and runs.
//!
//! Nothing here reads or writes files or prints: results of `pbg-lab` come in as values and leave
//! as values, CSV or HTML. In reading order: columns ([`columns`]) and tables ([`table`]) of a
//! comparison, figures ([`figure`]), the pages ([`page`], [`pages`]); then single runs ([`run`]) and
//! their curves for TensorBoard ([`tensorboard`]); and embeddings in two dimensions ([`map`]).

pub mod columns;
pub mod figure;
pub mod map;
pub mod page;
pub mod pages;
pub mod run;
pub mod table;
pub mod tensorboard;
