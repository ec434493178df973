//! Reports of `pbg-host`: comparisons of bucket orders, training studies, runs, and maps of embeddings.
//!
//! This crate neither reads nor writes files and does not print: it converts values, such as the results of `pbg-lab`,
//! to CSV, HTML or other values. For the entities of a map it asks an open model (`pbg-query`). Modules in reading order: columns ([`columns`]) and tables ([`table`]) of a
//! comparison, where results come from ([`provenance`]), tables in LaTeX ([`latex`]), figures ([`figure`]), pages ([`page`], [`pages`]), drawings ([`svg`]), single runs ([`run`]) and their curves for
//! TensorBoard ([`tensorboard`]), and embeddings in two dimensions ([`map`]).

pub mod columns;
pub mod figure;
pub mod latex;
pub mod map;
pub mod page;
pub mod pages;
pub mod provenance;
pub mod run;
pub mod svg;
pub mod table;
pub mod tensorboard;
pub mod trace;
