//! What the program and the Python package begin with: the configuration that a user names ([`load`]), plugins in its
//! slots ([`plugins`], [`orders`]), several models as one ([`combine`]), and what a failure is ([`failure`], [`kind`]), with the advice that goes with it.
//!
//! Whom it works for is a [`Front`], which warns in its own way and knows how to get libtorch.

mod cache;
mod causes;
pub mod combine;
pub mod failure;
pub mod front;
pub mod kind;
pub mod load;
pub mod metrics;
pub mod orders;
pub mod plugins;

pub use failure::{Failure, Result};
pub use front::Front;
pub use kind::FailureKind;
