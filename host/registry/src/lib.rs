//! Components in OCI registries: pulls and pushes WebAssembly components in the layout that the CNCF describes for them
//! ("Wasm OCI artifact").
//!
//! In reading order: [`RegistryReference`] (what a user names) with its [`ContentDigest`], the `manifest` (what a registry
//! stores beside a component), [`RegistryCredentials`], the `exchange` (requests with their retries, redirections and
//! tokens), and [`RegistryClient`] with `pull` and `push`.
//!
//! Invariants:
//!
//! * Nothing that a registry sends is believed: answers are read up to a limit that is known before, and what is pulled
//!   has the digests that name it.
//! * Requests are encrypted unless the registry is on this machine. Credentials are sent to the registry and to a token
//!   service in its domain, never to where it redirects, and no message quotes what a server has answered, which may
//!   repeat them.
//! * Every wait ends: requests are repeated a few times only.
//!
//! This crate knows neither what components contain nor the terminal. All calls block.

mod client;
mod credentials;
mod digest;
mod error;
mod exchange;
mod manifest;
mod pull;
mod push;
mod reference;
#[cfg(test)]
#[path = "../../../tests/registry_server.rs"]
mod test_registry;
#[cfg(test)]
mod tests;

pub use client::RegistryClient;
pub use credentials::RegistryCredentials;
pub use digest::ContentDigest;
pub use error::{RegistryError, RegistryErrorKind};
pub use exchange::RequestTimes;
pub use manifest::ComponentDescription;
pub use pull::{PulledComponent, TagState};
pub use push::PushedComponent;
pub use reference::RegistryReference;
