//! Builds of projects in Python: componentize-py puts the module, its interpreter and the bindings into a component.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::tool;
use crate::error::BuildError;
use crate::manifest::ProjectManifest;

const COMPONENTIZE_PY: &str = "in the project's folder, run `python3 -m venv .venv` and \
    `.venv/bin/pip install componentize-py==0.25.1`; an active environment works, too";

/// Builds the project in `folder` into `component`.
pub(crate) fn build(
    folder: &Path,
    manifest: &ProjectManifest,
    component: &Path,
) -> Result<(), BuildError> {
    let name = "componentize-py";
    let mut candidates = vec![folder.join(".venv/bin").join(name)];
    candidates.extend(env::var_os("VIRTUAL_ENV").map(|v| PathBuf::from(v).join("bin").join(name)));
    let program = tool::find(name, &candidates, COMPONENTIZE_PY)?;
    let component =
        std::path::absolute(component).map_err(|e| BuildError::io("write", component, e))?;
    let mut command = Command::new(program);
    // The sandbox has no WASI: without the stubs the component would be rejected.
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
    tool::run_with_reason(&mut command, folder, reason)
}

/// Finds in the tracebacks of componentize-py why the author's modules cannot be imported, and the line at fault.
fn reason(said: &str) -> Option<String> {
    // The project is the first folder of the module path.
    const PROJECT: &str = "File \"/0/";
    let (traceback, causes) = said.split_once("\nCaused by:\n")?;
    let cause = causes.lines().next()?.trim().trim_end_matches(':');
    let mut lines = traceback.lines().rev();
    let mut source = "";
    let place = lines.find_map(|line| {
        let place = line.trim().strip_prefix(PROJECT);
        source = if place.is_some() { source } else { line };
        place
    })?;
    let (file, rest) = place.split_once("\", line ")?;
    let number = rest.split(',').next()?;
    let import = ["ImportError", "ModuleNotFoundError"];
    match import.iter().any(|kind| cause.starts_with(kind)) {
        true => Some(format!(
            "{file}, line {number}: `{}`: {cause}; packages with compiled code, such as numpy, cannot be used",
            source.trim()
        )),
        false => Some(format!("{file}, line {number}: {cause}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of componentize-py 0.25.1.
    #[test]
    fn the_line_at_which_an_import_fails_is_found() {
        let said = |source: &str, then: &str, cause: &str| {
            format!(
                "Traceback (most recent call last):\n  File \"/bin/componentize-py\", line 8, in <module>\n    \
                 sys.exit(script())\nAssertionError: Traceback (most recent call last):\n  File \"/0/component.py\", \
                 line 3, in <module>\n    from mine import Mine\n  File \"/0/mine.py\", line 7, in <module>\n    \
                 {source}\n{then}{cause}\n\n\nCaused by:\n    {cause}\n\nStack backtrace:\n   0: main\n"
            )
        };
        let name = "NameError: name 'nonsense' is not defined";
        assert_eq!(
            reason(&said("x = nonsense", "        ^^^^^^^^\n", name)),
            Some(format!("mine.py, line 7: {name}"))
        );
        let numpy =
            "  File \"/1/numpy/__init__.py\", line 112, in <module>\n    from numpy import x\n";
        assert_eq!(
            reason(&said("import numpy", numpy, "ImportError:")),
            Some(
                "mine.py, line 7: `import numpy`: ImportError; packages with compiled code, such as numpy, cannot be \
                 used"
                    .to_owned()
            )
        );
        assert_eq!(reason("error: no such option"), None);
    }
}
