//! Files on disk: datasets, checkpoints, indexes, and their import and export.
//!
//! Modules, in reading order: file operations whose errors name the path ([`files`]), manifests with their own checksum
//! ([`sealed`]), datasets ([`dataset`]) and their import ([`import`]), checkpoints ([`checkpoint`]), nearest-neighbour
//! indexes of checkpoints ([`index`]), export to other tools ([`export`]), work shared by several processes
//! ([`blocks`]), and the ownership of output folders ([`owner`]). `docs/formats.md` describes every file, field by
//! field.

pub mod checkpoint;
pub mod dataset;
pub mod describe;
pub mod export;
pub mod files;
pub mod generate;
pub mod import;
pub mod index;
pub mod owner;
pub mod shared_work;

pub mod sealed_json;
