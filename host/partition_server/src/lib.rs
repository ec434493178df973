//! Partition server: keeps files in the memory of a process, for the trainers of a run.
//!
//! It speaks the part of S3's protocol that the trainers' client uses, so that one client serves object stores and
//! partition servers, and tools for S3 can look inside: objects are put (whole or in parts), read (whole or a range),
//! described, listed and removed, in one bucket.
//!
//! In reading order: [`MemoryServer`], its [`MemoryServerOptions`] and [`AccessKey`]; `requests` (what is asked, as S3 says it),
//! `signature` (version 4 of AWS), `objects` (the files, and the memory that they take), `body` (content that is sent).
//!
//! Invariants:
//!
//! * Memory is reserved for a content before its first byte is received, and given back if it does not arrive. Files and
//!   contents under way never take more than [`MemoryServerOptions::memory`].
//! * A file appears when all of it has arrived, and is never changed: a replacement is another file.
//! * Unless the server runs without a key, nothing is answered to a request that is not signed.
//! * Whatever a client sends is answered with a status; a slow or silent one ends only its own connection.
//!
//! Nothing here knows what files contain, or of trainers and runs.

mod body;
mod objects;
mod requests;
mod server;
mod signature;

pub use server::{MemoryServer, MemoryServerOptions, ServerError, ServerTls};
pub use signature::AccessKey;
