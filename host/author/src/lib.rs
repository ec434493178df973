//! What `pbg-host` gives to the authors of plugins: a project to start from, and the way from a
//! project to a component.
//!
//! * [`create`] writes a project from a template: code, a test, a manual, and everything that the
//!   build needs beside the language's own tools. The SDK comes with the program, so a project
//!   never speaks another version of the interfaces than the program that made it.
//! * [`build`] runs those tools and encodes what they leave as a component.
//! * [`encode`] is the last step alone: from a core module with the types of its world to a
//!   component.

mod builder;
mod create;
mod embedded;
mod encode;
mod error;
mod language;
mod manifest;
mod name;
mod world;

pub use builder::{Built, build};
pub use create::create;
pub use encode::{EncodeError, encode};
pub use error::{BuildError, CreateError};
pub use language::Language;
pub use manifest::{MANIFEST, Manifest};
pub use world::{ProjectKind, World};
