//! Embeds the files of new projects: templates, SDKs and WIT files.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use toml::{Table, Value};

/// Name of each table, and its folder in the repository.
const TREES: [(&str, &str); 7] = [
    ("TEMPLATES", "host/author/templates"),
    ("SDK_RUST", "plugins/sdk/src"),
    ("FORMULA_RUST", "host/formula/src"),
    ("SDK_PYTHON", "plugins/sdk-python/pbg_plugin"),
    ("SDK_JAVASCRIPT", "plugins/sdk-javascript/pbg_plugin"),
    ("SDK_C", "plugins/sdk-c/pbg_plugin"),
    ("WIT", "wit"),
];

/// The crate of the workspace that the Rust SDK uses, which new projects have in a folder of the SDK.
const FORMULA: &str = "host/formula";

fn main() -> ExitCode {
    match embed() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            instruct(&format!("cargo::error={reason}"));
            ExitCode::FAILURE
        }
    }
}

fn embed() -> Result<(), String> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root = here
        .ancestors()
        .nth(2)
        .ok_or("this crate is not in host/ of the repository")?;
    let mut code = String::new();
    for (name, folder) in TREES {
        let folder = root.join(folder);
        instruct(&format!("cargo::rerun-if-changed={}", folder.display()));
        let mut files = Vec::new();
        collect(&folder, &mut files)?;
        files.sort();
        let _ = writeln!(code, "pub(crate) const {name}: &[(&str, &str)] = &[");
        for path in files {
            let relative = path.strip_prefix(&folder).unwrap_or(&path);
            let _ = writeln!(
                code,
                "({:?}, include_str!({:?})),",
                relative.display().to_string(),
                path
            );
        }
        code.push_str("];\n");
    }
    for (name, folder) in [
        ("SDK_RUST_MANIFEST", "plugins/sdk"),
        ("FORMULA_RUST_MANIFEST", FORMULA),
    ] {
        let manifest = lone_manifest(root, folder)?;
        let _ = writeln!(code, "pub(crate) const {name}: &str = {manifest:?};");
    }
    let out = PathBuf::from(variable("OUT_DIR")?).join("embedded.rs");
    fs::write(&out, code).map_err(|error| format!("cannot write {}: {error}", out.display()))
}

/// Collects all files below `folder`, except those that interpreters leave there.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "__pycache__") {
                collect(&path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the manifest of the SDK, or of the crate that it uses, without their workspace: inherited values are written
/// out, and paths are those in a new project.
fn lone_manifest(root: &Path, folder: &str) -> Result<String, String> {
    let workspace = read_toml(&root.join("Cargo.toml"))?;
    let sdk = read_toml(&root.join(folder).join("Cargo.toml"))?;
    let inherited = |path: [&str; 2]| {
        let table = workspace.get("workspace")?.get(path[0])?;
        let mut value = table.get(path[1])?.clone();
        if let Some(path) = value
            .get_mut("path")
            .filter(|path| path.as_str() == Some(FORMULA))
        {
            *path = Value::from("formula");
        }
        Some(value)
    };
    let mut alone = Table::new();
    alone.insert(
        "package".into(),
        resolved(&sdk["package"], "package", inherited)?,
    );
    if let Some(lib) = sdk.get("lib") {
        alone.insert("lib".into(), lib.clone());
    }
    alone.insert(
        "dependencies".into(),
        resolved(&sdk["dependencies"], "dependencies", inherited)?,
    );
    if let Some(targets) = sdk.get("target").and_then(Value::as_table) {
        let mut lone = Table::new();
        for (target, tables) in targets {
            let dependencies = resolved(&tables["dependencies"], "dependencies", inherited)?;
            lone.insert(
                target.clone(),
                Table::from_iter([("dependencies".to_owned(), dependencies)]).into(),
            );
        }
        alone.insert("target".into(), lone.into());
    }
    toml::to_string(&alone).map_err(|error| error.to_string())
}

/// Returns `table` with every `x.workspace = true` replaced by the value of the workspace.
fn resolved(
    table: &Value,
    name: &str,
    inherited: impl Fn([&str; 2]) -> Option<Value>,
) -> Result<Value, String> {
    let mut out = Table::new();
    for (key, value) in table.as_table().ok_or("not a table")? {
        let inherits = value.get("workspace").and_then(Value::as_bool) == Some(true);
        let value = if inherits {
            inherited([name, key]).ok_or(format!("the workspace has no {name}.{key}"))?
        } else {
            value.clone()
        };
        out.insert(key.clone(), value);
    }
    Ok(out.into())
}

fn read_toml(path: &Path) -> Result<Table, String> {
    instruct(&format!("cargo::rerun-if-changed={}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    text.parse()
        .map_err(|error| format!("{}: {error}", path.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn instruct(line: &str) {
    // Cargo reads instructions from standard output. If that is closed, nobody can receive an error either.
    let _ = writeln!(io::stdout(), "{line}");
}
