//! Builds of projects.

pub(crate) mod c;
mod component;
mod javascript;
mod python;
mod rust;
mod shared_builds;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::BuildError;
use crate::language::Language;
use crate::manifest::ProjectManifest;

/// Result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildOutput {
    /// The component.
    pub component: PathBuf,
    /// The project's manifest.
    pub manifest: ProjectManifest,
}

/// Builds the project in `folder` with the tools of its language, whose messages are written to standard error
/// immediately. The component is `NAME.wasm` in the folder. A failed build does not change an existing one. Rust projects
/// compile their dependencies in the folder `shared`, if there is one.
///
/// # Errors
/// [`BuildError`]: there is no project, a tool is missing or fails, or the result is not a plugin.
pub fn build(folder: &Path, shared: Option<&Path>) -> Result<BuildOutput, BuildError> {
    let manifest = ProjectManifest::read(folder)?;
    let component = folder.join(format!("{}.wasm", manifest.name));
    let partial = folder.join(format!("{}.wasm.partial", manifest.name));
    match manifest.language {
        Language::Rust => rust::build(folder, shared, &partial)?,
        Language::Python => python::build(folder, &manifest, &partial)?,
        Language::JavaScript => javascript::build(folder, &manifest, &partial)?,
        Language::C => c::build(folder, &manifest, &partial)?,
    }
    fs::rename(&partial, &component).map_err(|e| BuildError::io("write", &component, e))?;
    Ok(BuildOutput {
        component,
        manifest,
    })
}
