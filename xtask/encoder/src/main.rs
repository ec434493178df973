//! `xtask-encoder`: encodes core WebAssembly modules as components.
//!
//! This is the last step of `pbg-host plugin build` alone, for modules that other tools have built.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a terminal program prints its messages"
)]

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Encodes core WebAssembly modules as components.

Usage: xtask-encoder MODULE.wasm... FOLDER

The modules implement the interfaces of wit/ and contain the types of their world, as those built with the SDK for
Rust and with wit-bindgen do. FOLDER, which is created, gets a component of each module under the same file name.
A file whose content stays the same is not written.
";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Some((folder, modules @ [_, ..])) = arguments.split_last() else {
        eprint!("error: needs a module and a folder\n\n{HELP}");
        return ExitCode::from(2);
    };
    match modules
        .iter()
        .try_for_each(|module| encode(Path::new(module), Path::new(folder)))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the component of one module.
fn encode(module: &Path, folder: &Path) -> Result<(), String> {
    let shown = module.display();
    let name = module
        .file_name()
        .ok_or_else(|| format!("{shown} has no file name"))?;
    let bytes = fs::read(module).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let component = pbg_author::encode(&bytes).map_err(|error| format!("{shown} {error}"))?;
    let path = folder.join(name);
    write_if_changed(&path, &component)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Replaces a file atomically, but only if its content has changed: an unchanged file keeps its modification time, so
/// that a program that embeds it is not rebuilt.
fn write_if_changed(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let partial: PathBuf = path.with_extension("partial");
    fs::write(&partial, bytes)?;
    fs::rename(&partial, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Module without imports, exports or types of a world, whose component is empty.
    const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn only_changed_files_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plugins/y.wasm");
        write_if_changed(&path, b"1").unwrap();
        let before = fs::metadata(&path).unwrap().modified().unwrap();
        write_if_changed(&path, b"1").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
        write_if_changed(&path, b"2").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"2");
        assert_eq!(fs::read_dir(dir.path().join("plugins")).unwrap().count(), 1);
    }

    #[test]
    fn a_component_has_the_name_of_its_module() {
        let dir = tempfile::tempdir().unwrap();
        let (module, folder) = (dir.path().join("y.wasm"), dir.path().join("out"));
        fs::write(&module, EMPTY).unwrap();
        encode(&module, &folder).unwrap();
        let component = fs::read(folder.join("y.wasm")).unwrap();
        // The same magic number, and the version of components.
        assert!(component.starts_with(b"\0asm\x0d\0\x01\0"), "{component:?}");
    }

    #[test]
    fn messages_name_the_module() {
        let dir = tempfile::tempdir().unwrap();
        let module = dir.path().join("y.wasm");
        let message = || encode(&module, dir.path()).unwrap_err();
        assert!(message().contains("cannot read") && message().contains("y.wasm"));
        fs::write(&module, "text").unwrap();
        assert!(message().contains("y.wasm is not a WebAssembly module"));
        assert_eq!(fs::read(&module).unwrap(), b"text");
    }
}
