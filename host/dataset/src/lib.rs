//! Datasets: folders with dictionaries of entities, relations and edges by bucket.
//!
//! An import creates a dataset as a whole ([`Staging`], [`write`]); a run opens it ([`Dataset`]), reads the edges of a
//! bucket ([`EdgeSet`]) and looks up names ([`Dictionary`]). [`describe`] computes statistics of a dataset.
//! `docs/formats.md` describes every file, field by field.
//!
//! Invariants: edges are read by position, one record batch at a time, and the checksum of every batch is verified
//! before it is decoded, so a damaged or truncated file is an error, never a crash. A dataset is replaced atomically;
//! its ids stay when it grows ([`IdSpace`]). This crate knows neither text formats nor the configuration of a run.

mod arrow;
mod dataset;
pub mod describe;
mod dictionary;
mod edges;
mod error;
mod features;
mod ids;
pub mod manifest;
mod name_checksum;
mod names_only;
mod relations;
mod schemas;
mod staging;
mod verified;
pub mod write;

pub use dataset::Dataset;
pub use dictionary::{Dictionary, EntityId};
pub use edges::{EdgeReadError, EdgeSet};
pub use error::DatasetError;
pub use features::EntityFeatures;
pub use ids::{IdChange, IdSpace, NameList};
pub use manifest::DatasetManifest;
pub use name_checksum::NameChecksum;
pub use relations::Relation;
pub use staging::Staging;
pub use staging::StagingError;

pub use pbg_files::sealed_json::MANIFEST;
