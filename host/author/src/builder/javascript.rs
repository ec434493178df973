//! Builds of projects in JavaScript: componentize-qjs puts the module and its interpreter into a component.

use std::path::Path;
use std::process::Command;

use super::tool;
use crate::error::BuildError;
use crate::manifest::ProjectManifest;

const COMPONENTIZE_QJS: &str = "run `npm install` in the project's folder";

/// Builds the project in `folder` into `component`.
pub(crate) fn build(
    folder: &Path,
    manifest: &ProjectManifest,
    component: &Path,
) -> Result<(), BuildError> {
    let name = "componentize-qjs";
    let own = folder.join("node_modules/.bin").join(name);
    let program = tool::find(name, &[own], COMPONENTIZE_QJS)?;
    let component =
        std::path::absolute(component).map_err(|e| BuildError::io("write", component, e))?;
    let mut command = Command::new(program);
    command
        .args(["--js", "component.js", "--module-root", ".", "--wit", "wit"])
        .args(["--world", manifest.world.name()])
        // The sandbox has no WASI and no asynchronous calls. The variant optimised for size is not used: it has tail
        // calls, which the sandbox rejects.
        .args(["--stub-wasi", "--sync", "--output"])
        .arg(component);
    tool::run(&mut command, folder)
}
