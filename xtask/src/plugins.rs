//! Builds the standard plugins: compiled to core modules, then encoded as components.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::setup::{self, WASM_TARGET as TARGET, WasmToolchain};
use crate::step;

/// Folders of the kinds of strategies; a kind without plugins has no folder.
const KINDS: [&str; 4] = ["orders", "samplers", "losses", "operators"];

/// Crate of a standard plugin.
#[derive(Debug)]
struct Plugin {
    package: String,
    /// Name of its library, its `.wasm` file and, by convention, of the plugin.
    library: String,
}

/// Builds a component of every standard plugin in `repo.plugins()`.
pub(crate) fn build(repo: &Repo) -> Result<()> {
    let plugins = find(repo)?;
    step::announce(&format!("building {} standard plugins", plugins.len()));
    let (mut cargo, target) = compiler(repo)?;
    cargo
        .args(["--profile", "plugin", "--target", TARGET, "--target-dir"])
        .arg(&target);
    for plugin in &plugins {
        cargo.args(["--package", &plugin.package]);
    }
    step::run(&mut cargo, "see the compiler's message above")?;

    for plugin in &plugins {
        let file = format!("{}.wasm", plugin.library);
        let module = target.join(TARGET).join("plugin").join(&file);
        let component = fs::read(&module)
            .map_err(anyhow::Error::from)
            .and_then(|bytes| Ok(pbg_author::encode(&bytes)?))
            .with_context(|| format!("cannot make a component of {}", module.display()))?;
        write_if_changed(&repo.plugins().join(&file), &component)?;
    }
    remove_others(&repo.plugins(), &plugins)
}

/// Returns `cargo build` with the compiler for plugins, and its build folder.
fn compiler(repo: &Repo) -> Result<(Command, PathBuf)> {
    let mut cargo = repo.cargo("build");
    let WasmToolchain::Debian { linker } = setup::wasm_toolchain(repo)? else {
        return Ok((cargo, repo.target.clone()));
    };
    cargo = Command::new("/usr/bin/cargo");
    cargo
        .current_dir(&repo.root)
        .arg("build")
        .arg("-Zbuild-std=std,panic_abort");
    // Allows -Z options with a stable compiler.
    cargo
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTC", "/usr/bin/rustc");
    cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    Ok((cargo, repo.target.join("debian")))
}

fn find(repo: &Repo) -> Result<Vec<Plugin>> {
    let mut plugins = BTreeMap::new();
    for kind in KINDS {
        let folder = repo.root.join("plugins").join(kind);
        if !folder.exists() {
            continue;
        }
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
        {
            let manifest = entry?.path().join("Cargo.toml");
            if !manifest.exists() {
                continue;
            }
            let plugin = read_manifest(&manifest)
                .with_context(|| format!("cannot read {}", manifest.display()))?;
            if let Some(other) = plugins.insert(plugin.library.clone(), plugin) {
                bail!(
                    "two plugins have the library name {}; one of them is the package {}",
                    other.library,
                    other.package
                );
            }
        }
    }
    Ok(plugins.into_values().collect())
}

fn read_manifest(path: &Path) -> Result<Plugin> {
    let manifest: toml::Table = fs::read_to_string(path)?.parse()?;
    let name_in = |table: &str| Some(manifest.get(table)?.get("name")?.as_str()?.to_owned());
    let package = name_in("package").context("it has no package name")?;
    let library = name_in("lib").unwrap_or_else(|| package.replace('-', "_"));
    Ok(Plugin { package, library })
}

/// Replaces a file atomically, but only if its content has changed: an unchanged file keeps its modification time, so
/// that the program that embeds it is not rebuilt.
fn write_if_changed(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        let partial = path.with_extension("partial");
        fs::write(&partial, bytes)?;
        fs::rename(&partial, path)
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

/// Removes components of renamed or removed plugins, so that the program does not embed them.
fn remove_others(folder: &Path, plugins: &[Plugin]) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?
    {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default();
        if !plugins.iter().any(|plugin| plugin.library.as_str() == stem) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_named_after_its_package_unless_it_says_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Cargo.toml");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            read_manifest(&path)
        };
        assert_eq!(
            read("[package]\nname = \"my-order\"").unwrap().library,
            "my_order"
        );
        assert_eq!(
            read("[package]\nname = \"x\"\n[lib]\nname = \"y\"")
                .unwrap()
                .library,
            "y"
        );
        read("[lib]\nname = \"y\"").unwrap_err();
        read("[package").unwrap_err();
    }

    #[test]
    fn only_changed_components_are_written_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("plugins");
        let path = folder.join("y.wasm");
        write_if_changed(&path, b"1").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, b"1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        write_if_changed(&path, b"2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");

        fs::write(folder.join("z.wasm"), b"").unwrap();
        remove_others(
            &folder,
            &[Plugin {
                package: "x".to_owned(),
                library: "y".to_owned(),
            }],
        )
        .unwrap();
        let left: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["y.wasm"]);
    }
}
