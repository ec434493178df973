//! The training loop, and what is done with what it made.
//!
//! In reading order: the loop ([`run`]), the model it trains ([`model`], [`layout`]), the partition
//! buffer ([`buffer`]), the Hogwild workers ([`workers`]), when it commits (`commit`), evaluation
//! and failures ([`error`]).

pub mod buffer;
mod commit;
pub mod error;
mod holdout;
pub mod layout;
pub mod model;
pub mod run;
mod sampler;
mod state;
mod tables;
pub mod workers;

pub use error::{ErrorKind, RunError};
pub use run::{Outcome, Strategies, train};
pub use sampler::Proportional;
