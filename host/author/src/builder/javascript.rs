//! JavaScript: componentize-js puts the module and its interpreter into a component.

use std::path::Path;
use std::process::Command;

use super::tool;
use crate::error::BuildError;
use crate::manifest::Manifest;

const COMPONENTIZE_JS: &str = "`npm install` in the project's folder gets it";

/// Parts of the interpreter that need WASI, which the sandbox does not have.
const WITHOUT: [&str; 5] = ["stdio", "random", "clocks", "http", "fetch-event"];

/// Builds the project in `folder` into `component`.
pub(crate) fn build(
    folder: &Path,
    manifest: &Manifest,
    component: &Path,
) -> Result<(), BuildError> {
    let name = "componentize-js";
    let own = folder.join("node_modules/.bin").join(name);
    let program = tool::find(name, &[own], COMPONENTIZE_JS)?;
    let component =
        std::path::absolute(component).map_err(|e| BuildError::io("write", component, e))?;
    let mut command = Command::new(program);
    command
        .args(["component.js", "--wit", "wit"])
        .args(["--world-name", manifest.world.name()])
        .arg("--out")
        .arg(component)
        .arg("--disable")
        .args(WITHOUT);
    tool::run(&mut command, folder)
}
