//! Builds the standard plugins: compiled to core modules, then encoded as components.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::setup::{self, WASM_TARGET as TARGET, WasmToolchain};
use crate::step;

/// Folders of the kinds of strategies, and the beginnings of the names of their packages; a kind without plugins has no
/// folder.
const KINDS: [(&str, &str); 7] = [
    ("orders", "pbg-order-"),
    ("samplers", "pbg-sampler-"),
    ("negatives", "pbg-negatives-"),
    ("losses", "pbg-loss-"),
    ("operators", "pbg-operator-"),
    ("comparators", "pbg-comparator-"),
    ("schedules", "pbg-schedule-"),
];

/// Package of the program that encodes core modules as components. `xtask` itself does not contain it, since it would
/// compile a minute longer.
const ENCODER: &str = "xtask-encoder";

/// Crate of a standard plugin.
#[derive(Debug, PartialEq, Eq)]
struct Plugin {
    package: String,
    /// Name of its library, its `.wasm` file, its folder and the plugin.
    library: String,
}

/// Builds a component of every standard plugin in `repo.plugins()`.
pub(crate) fn build(repo: &Repo) -> Result<()> {
    let plugins = find(&repo.root.join("plugins"))?;
    step::announce(&format!("building {} standard plugins", plugins.len()));
    let (mut cargo, target) = compiler(repo)?;
    cargo
        .args(["--profile", "plugin", "--target", TARGET, "--target-dir"])
        .arg(&target);
    for plugin in &plugins {
        cargo.args(["--package", &plugin.package]);
    }
    step::run(&mut cargo, "see the compiler's message above")?;

    encode(repo, &target.join(TARGET).join("plugin"), &plugins)?;
    remove_others(&repo.plugins(), &plugins)
}

/// Encodes the modules in `modules` as components. What the encoder depends on is compiled for the program as well.
fn encode(repo: &Repo, modules: &Path, plugins: &[Plugin]) -> Result<()> {
    step::announce("building the encoder of components (the first time takes a few minutes)");
    let mut cargo = repo.cargo("build");
    cargo.args(["--release", "--package", ENCODER]);
    step::run(&mut cargo, "see the compiler's message above")?;
    let mut encoder = Command::new(repo.target.join("release").join(ENCODER));
    for plugin in plugins {
        encoder.arg(modules.join(format!("{}.wasm", plugin.library)));
    }
    step::run(encoder.arg(repo.plugins()), "see the message above")
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

/// Finds the plugins by their folders, which determine the names of package and library.
fn find(folder: &Path) -> Result<Vec<Plugin>> {
    let mut plugins = BTreeMap::new();
    for (kind, prefix) in KINDS {
        let folder = folder.join(kind);
        if !folder.exists() {
            continue;
        }
        for entry in
            fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?
        {
            let path = entry?.path();
            if !path.join("Cargo.toml").exists() {
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str());
            let library = name
                .with_context(|| format!("{} has no UTF-8 name", path.display()))?
                .to_owned();
            let package = format!("{prefix}{}", library.replace('_', "-"));
            if let Some(other) = plugins.insert(library.clone(), Plugin { package, library }) {
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

    /// The names in the manifests are those that [`find`] derives.
    #[test]
    fn packages_and_libraries_are_named_after_their_folders() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
        let plugins = find(&folder).unwrap();
        let mut read = 0;
        for (kind, _) in KINDS {
            for plugin in &plugins {
                let manifest = folder.join(kind).join(&plugin.library).join("Cargo.toml");
                let Ok(text) = fs::read_to_string(&manifest) else {
                    continue;
                };
                let (package, library) = (&plugin.package, &plugin.library);
                let named = text.starts_with(&format!("[package]\nname = \"{package}\"\n"))
                    && text.contains(&format!("\n[lib]\nname = \"{library}\"\n"));
                assert!(named, "{} is not for {plugin:?}", manifest.display());
                read += 1;
            }
        }
        assert_eq!(read, plugins.len());
    }

    #[test]
    fn each_plugin_has_a_name_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let add = |folder: &str| {
            let folder = dir.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("Cargo.toml"), "").unwrap();
        };
        add("orders/my_order");
        fs::create_dir(dir.path().join("orders/target")).unwrap();
        let found = Plugin {
            package: "pbg-order-my-order".to_owned(),
            library: "my_order".to_owned(),
        };
        assert_eq!(find(dir.path()).unwrap(), [found]);
        add("losses/my_order");
        let error = find(dir.path()).unwrap_err().to_string();
        assert!(error.contains("the library name my_order"), "{error}");
    }

    #[test]
    fn components_of_former_plugins_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for file in ["y.wasm", "z.wasm"] {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let plugin = Plugin {
            package: "x".to_owned(),
            library: "y".to_owned(),
        };
        remove_others(folder.path(), &[plugin]).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["y.wasm"]);
    }
}
