//! Vectors of entities that another program has computed, of texts or images for instance: npy, safetensors and Parquet.
//!
//! [`VectorFile::open`] detects the format from the first bytes and checks shape and size. A file is then read in two
//! ways: its names in order ([`VectorFile::visit_names`]), and the vectors of chosen rows in order
//! ([`VectorFile::visit_rows`]). Names are in the file itself (Parquet), or in a file beside it with a name per line or a
//! list in JSON.
//!
//! Invariants: memory is bounded by [`BUFFER_BYTES`], one vector and one name, whatever the file says, except that the
//! Parquet library keeps a page of each column and decodes a batch of rows; a number that is not finite is an error. This
//! crate knows neither datasets nor configurations.
//!
//! ```no_run
//! # fn main() -> Result<(), pbg_vectors::VectorError> {
//! let file = pbg_vectors::VectorFile::open("texts.npy".as_ref(), Some("names.txt".as_ref()))?;
//! let mut known = Vec::new();
//! file.visit_names(&mut |row, name| {
//!     if name.starts_with("film:") {
//!         known.push(row);
//!     }
//!     Ok(())
//! })?;
//! let mut vectors = std::collections::BTreeMap::new();
//! file.visit_rows(&mut known.into_iter(), &mut |row, vector| drop(vectors.insert(row, vector.to_vec())))?;
//! # Ok(())
//! # }
//! ```

mod error;
mod file;
mod names;
mod npy;
mod numbers;
mod parquet;
mod raw;
mod safetensors;

pub use error::VectorError;
pub use file::VectorFile;

/// Largest number of bytes of numbers that are in memory at once, unless a single vector is larger.
pub const BUFFER_BYTES: usize = 4 << 20;

/// Longest name in bytes, as in datasets.
const MAX_NAME: usize = 32 << 10;
