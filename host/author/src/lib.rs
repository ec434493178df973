//! Tools for authors of plugins: creation of a project, and its build.
//!
//! * [`create`] writes a project from a template: code, a test, a manual, and everything that the build needs besides
//!   the language's own tools. The SDK comes with the program, so a project uses the same version of the interfaces as
//!   the program that created it.
//! * [`build`] runs these tools and encodes their result as a component.
//! * [`encode`] is the last step alone: it encodes a core module, which contains the types of its world, as a
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

pub use builder::{BuildOutput, build};
pub use create::create;
pub use encode::{EncodeError, encode};
pub use error::{BuildError, CreateError};
pub use language::Language;
pub use manifest::{MANIFEST, ProjectManifest};
pub use world::World;
