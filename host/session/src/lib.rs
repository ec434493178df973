//! The common base of the program and the Python package: loading a configuration that a user names ([`load`]), filling
//! slots with plugins ([`plugins`], [`orders`]), combining models ([`combine`]), and failures with their kinds and
//! advice ([`failure`], [`kind`]).
//!
//! A [`FrontEnd`] represents the program or the Python package. It prints warnings in its own way and finds libtorch.

mod cache;
pub mod combine;
mod conversions;
pub mod failure;
pub mod front;
pub mod hub;
pub mod kind;
pub mod load;
pub mod metrics;
pub mod model_summary;
pub mod object_stores;
pub mod orders;
pub mod plugins;
pub mod stored_run;

pub use cache::plugin_builds;
pub use failure::{Failure, Result};
pub use front::FrontEnd;
pub use kind::FailureKind;
