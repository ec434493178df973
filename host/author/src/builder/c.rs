//! Builds of projects in C: clang compiles the sources with generated bindings, and the encoder makes a component.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

use super::component::componentize;
use super::tool;
use crate::error::BuildError;
use crate::manifest::ProjectManifest;
use crate::world::World;

const CLANG: &str = "install clang and lld (Debian: `apt-get install clang lld`)";

/// Folder of the generated code.
const BINDINGS: &str = "bindings";

/// Builds the project in `folder` into `component`.
pub(crate) fn build(
    folder: &Path,
    manifest: &ProjectManifest,
    component: &Path,
) -> Result<(), BuildError> {
    let clang = tool::find("clang", &[], CLANG)?;
    tool::find("wasm-ld", &[], CLANG)?;
    write_bindings(folder, manifest.world)?;
    let module = Path::new("build").join(format!("{}.core.wasm", manifest.name));
    let out = folder.join("build");
    fs::create_dir_all(&out).map_err(|e| BuildError::io("write", &out, e))?;
    let mut command = Command::new(clang);
    command
        .args(["--target=wasm32-unknown-unknown", "-std=c11", "-O2"])
        .args(["-Wall", "-Wextra", "-mbulk-memory", "-msimd128"])
        // The SDK contains the few functions of a C library that the bindings need.
        .args(["-nostdlib", "-nostdlibinc", "-isystem", "pbg_plugin/libc"])
        .args(["-Ipbg_plugin", "-Ibindings"])
        .args(["-Wl,--no-entry", "-Wl,-z,stack-size=65536", "-o"])
        .arg(&module)
        .args(sources(folder, &manifest.name)?);
    tool::run(&mut command, folder)?;
    componentize(&folder.join(module), component)
}

/// Returns the author's module, every source of the SDK except those for native tests, and the bindings.
fn sources(folder: &Path, name: &str) -> Result<Vec<PathBuf>, BuildError> {
    let mut sources = vec![PathBuf::from(format!("{name}.c"))];
    for place in ["pbg_plugin", "pbg_plugin/libc", BINDINGS] {
        let path = folder.join(place);
        let entries = fs::read_dir(&path).map_err(|e| BuildError::io("read", &path, e))?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut files: Vec<PathBuf> = names.map(|name| Path::new(place).join(name)).collect();
        files.retain(|file| {
            let kind = file.extension().unwrap_or_default();
            (kind == "c" || kind == "o") && file.file_stem().is_none_or(|stem| stem != "native")
        });
        files.sort();
        sources.extend(files);
    }
    Ok(sources)
}

/// Generates the header and the glue code from the project's WIT files. The world is always called `plugin` in them, so
/// that one SDK serves all worlds.
pub(crate) fn write_bindings(folder: &Path, world: World) -> Result<(), BuildError> {
    let wit = folder.join("wit");
    let wrong = |error: &dyn Display| BuildError::Wit {
        path: wit.clone(),
        reason: format!("{error:#}"),
    };
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(&wit).map_err(|error| wrong(&error))?;
    let world = resolve.select_world(&[package], Some(world.name()));
    let world = world.map_err(|error| wrong(&error))?;
    let options = wit_bindgen_c::Opts {
        rename_world: Some("plugin".to_owned()),
        ..Default::default()
    };
    let mut files = Files::default();
    options
        .build()
        .generate(&mut resolve, world, &mut files)
        .map_err(|error| wrong(&error))?;
    for (name, content) in files.iter() {
        let path = folder.join(BINDINGS).join(name);
        let written =
            fs::create_dir_all(folder.join(BINDINGS)).and_then(|()| fs::write(&path, content));
        written.map_err(|e| BuildError::io("write", &path, e))?;
    }
    Ok(())
}
