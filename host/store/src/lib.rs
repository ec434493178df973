//! What lies on disk: datasets, checkpoints, and the ways in and out of them.
//!
//! Modules, in reading order: files whose operations name their path ([`files`]), manifests that
//! carry their own checksum ([`sealed`]), datasets ([`dataset`]) and how they are made
//! ([`import`]), checkpoints ([`checkpoint`]), indexes of them ([`index`]), what other tools get ([`export`]),
//! work that processes share ([`blocks`]), and whose folder a folder is ([`owner`]).
//! `docs/formats.md` has every file, field by field.

pub mod blocks;
pub mod checkpoint;
pub mod dataset;
pub mod describe;
pub mod export;
pub mod files;
pub mod generate;
pub mod import;
pub mod index;
pub mod owner;

pub mod sealed;
