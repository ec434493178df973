//! Folders in object stores (S3 and what speaks its protocol, Google Cloud Storage, Azure), behind the traits of
//! [`pbg_files::remote`].
//!
//! In reading order: [`ObjectUrl`], [`StoreSettings`] (address and credentials of a store) and its `connection`, the
//! `object_folder` (listings, transfers in parts, conditional writes) and the `streams` of single objects, [`CopiedFolders`], which keeps local copies of
//! folders up to date, and [`open_server`], folders on partition servers.
//!
//! Invariants:
//!
//! * A transfer holds at most [`PARTS`] parts of [`PART`] bytes in memory. Only objects of more than 78 GiB need larger
//!   parts when they are written, because stores limit the number of parts.
//! * A copied file has its name only when it is complete, and a folder's manifest is copied after the files it names.
//! * Requests are encrypted unless the store is on this machine or the user allows otherwise.
//!
//! The asynchronous runtime is not visible outside: all methods block. They must not be called from a task of another
//! runtime. This crate knows nothing about the contents of objects.

mod connection;
mod copied_files;
mod copies;
mod error;
mod names;
mod object_folder;
mod partition_server;
mod streams;
mod transfer;
mod url;

pub use connection::StoreSettings;
pub use copies::{CopiedFolders, CopyNotice};
pub use partition_server::{PartitionServerAccess, open_server};
pub use transfer::{PART, PARTS};
pub use url::ObjectUrl;
