//! Embeds the standard plugins: for every folder `plugins/<slot>/<name>` of the repository, the component
//! `<target>/plugins/<name>.wasm`, which `cargo xtask build` builds.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Folders below `plugins/`.
const SLOTS: [&str; 7] = [
    "orders",
    "samplers",
    "negatives",
    "losses",
    "operators",
    "comparators",
    "schedules",
];

/// Name of the interface that a plugin exports, and the variant of `PluginSlot` that it makes the plugin.
const KINDS: [(&str, &str); 10] = [
    ("bucket-order", "BucketOrder"),
    ("relation-sampler", "RelationSampler"),
    ("loss-traced", "TracedLoss"),
    ("loss-computed", "ComputedLoss"),
    ("operator-traced", "TracedOperator"),
    ("operator-formula", "TracedOperator"),
    ("comparator-formula", "Comparator"),
    ("negative-distribution", "NegativeSampler"),
    ("negative-selection", "NegativeSelector"),
    ("learning-rate-schedule", "RateSchedule"),
];

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
    instruct("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    let workspace = workspace()?;
    let components = components(&workspace);
    let mut table = String::from("&[\n");
    for slot in SLOTS {
        for name in plugins(&workspace.join("plugins").join(slot))? {
            let component = components.join(format!("{name}.wasm"));
            instruct(&format!("cargo::rerun-if-changed={}", component.display()));
            if !component.is_file() {
                return Err(format!(
                    "the standard plugin {} is not built: run `cargo xtask build`",
                    component.display()
                ));
            }
            let kind = kind(&component)?;
            writeln!(
                table,
                "StandardPlugin {{ name: {name:?}, kind: PluginSlot::{kind}, bytes: include_bytes!({component:?}) }},"
            )
            .map_err(|error| error.to_string())?;
        }
    }
    table.push(']');
    let out = PathBuf::from(variable("OUT_DIR")?).join("standard.rs");
    fs::write(&out, table).map_err(|error| format!("cannot write {}: {error}", out.display()))
}

fn workspace() -> Result<PathBuf, String> {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let root = here
        .ancestors()
        .nth(2)
        .ok_or("this crate is not in host/ of the repository")?;
    Ok(root.to_owned())
}

fn components(workspace: &Path) -> PathBuf {
    // A relative folder is relative to cargo's working directory, which is assumed to be the repository's root.
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    workspace.join(target).join("plugins")
}

/// Returns the `PluginSlot` variant of a component, found by the interface name in its bytes.
fn kind(component: &Path) -> Result<&'static str, String> {
    let bytes = fs::read(component)
        .map_err(|error| format!("cannot read {}: {error}", component.display()))?;
    let names = |interface: &str| {
        let name = format!("pbg:plugin/{interface}@");
        bytes
            .windows(name.len())
            .any(|part| part == name.as_bytes())
    };
    KINDS
        .into_iter()
        .find(|(interface, _)| names(interface))
        .map(|(_, kind)| kind)
        .ok_or_else(|| format!("{} is not a plugin", component.display()))
}

/// Names of the plugins of one slot, sorted.
fn plugins(slot: &Path) -> Result<Vec<String>, String> {
    instruct(&format!("cargo::rerun-if-changed={}", slot.display()));
    let unreadable = |error: io::Error| format!("cannot read {}: {error}", slot.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(slot).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}: {error}"))
}

fn instruct(line: &str) {
    // Cargo reads instructions from standard output. If that is closed, nobody can receive an error either.
    let _ = writeln!(io::stdout(), "{line}");
}
