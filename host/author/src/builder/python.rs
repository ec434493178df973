//! Python: componentize-py puts the module, its interpreter and the bindings into a component.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tool;
use crate::error::BuildError;
use crate::manifest::Manifest;

const COMPONENTIZE_PY: &str = "in the project's folder, `python3 -m venv .venv` and \
    `.venv/bin/pip install componentize-py==0.25.1`; an environment that is active will do, too";

/// Builds the project in `folder` into `component`.
pub(crate) fn build(
    folder: &Path,
    manifest: &Manifest,
    component: &Path,
) -> Result<(), BuildError> {
    let name = "componentize-py";
    let mut candidates = vec![folder.join(".venv/bin").join(name)];
    candidates.extend(env::var_os("VIRTUAL_ENV").map(|v| PathBuf::from(v).join("bin").join(name)));
    let program = tool::find(name, &candidates, COMPONENTIZE_PY)?;
    let component =
        std::path::absolute(component).map_err(|e| BuildError::io("write", component, e))?;
    let mut command = Command::new(program);
    // There is no WASI in the sandbox: without the stubs the component would be refused.
    command
        .args([
            "--quiet",
            "--wit-path",
            "wit",
            "--world",
            manifest.world.name(),
        ])
        .args(["componentize", "component"])
        .args(["--python-path", ".", "--stub-wasi", "--output"])
        .arg(component);
    tool::run(&mut command, folder)
}
