//! Builds of projects in Rust: Cargo compiles a core module, and the encoder makes it a component.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::component::componentize;
use super::shared_builds::SharedBuilds;
use super::tool;
use crate::error::BuildError;

const TARGET: &str = "wasm32-unknown-unknown";

const CARGO: &str = "install Rust with rustup (https://rustup.rs), then \
    `rustup target add wasm32-unknown-unknown`";

/// Builds the project in `folder` into `component`. Dependencies are compiled in the folder `shared`, if it is given and
/// free.
pub(crate) fn build(
    folder: &Path,
    shared: Option<&Path>,
    component: &Path,
) -> Result<(), BuildError> {
    let shared = shared.and_then(SharedBuilds::open_unless_chosen);
    let module = compile(folder, shared.as_ref())?;
    componentize(&module, component)
}

/// Compiles the project in `folder`, and returns the path of the module.
fn compile(folder: &Path, shared: Option<&SharedBuilds>) -> Result<PathBuf, BuildError> {
    let cargo = tool::find("cargo", &[], CARGO)?;
    let mut command = Command::new(&cargo);
    command.args(["build", "--release", "--target", TARGET]);
    command.arg("--message-format=json-render-diagnostics");
    if let Some(shared) = shared {
        shared.prepare(&cargo, folder, TARGET)?;
        shared.arrange(&mut command);
    }
    let messages = tool::output(&mut command, folder)?;
    module(&messages).ok_or_else(|| BuildError::NoOutput {
        command: tool::line(&command),
        expected: "WebAssembly module; does Cargo.toml have `crate-type = [\"cdylib\"]`?"
            .to_owned(),
    })
}

/// Returns the last module in Cargo's messages; those of dependencies come before it.
fn module(messages: &[u8]) -> Option<PathBuf> {
    let lines = messages.split(|&byte| byte == b'\n');
    let artifacts = lines
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact");
    let files = artifacts.flat_map(|message| {
        let names = message["filenames"].as_array().cloned();
        names.unwrap_or_default().into_iter()
    });
    let mut files = files.filter_map(|name| name.as_str().map(PathBuf::from));
    files.rfind(|file| file.extension().is_some_and(|ending| ending == "wasm"))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::SystemTime;

    use super::*;

    /// Writes a project whose module contains a text. Its files are of 1970 if they are `old`.
    fn project(folder: &Path, text: &str, old: bool) -> PathBuf {
        let manifest = "[package]\nname = \"order\"\nedition = \"2024\"\n[lib]\ncrate-type = [\"cdylib\"]\n\
                        [dependencies]\nlibrary = { path = \"library\" }\n[workspace]\n";
        let library = "[package]\nname = \"library\"\nedition = \"2024\"\n";
        let constant = format!("pub static TEXT: [u8; {}] = *b{text:?};", text.len());
        let export = "#[unsafe(no_mangle)]\npub extern \"C\" fn text() -> *const u8 { library::TEXT.as_ptr() }";
        for (path, content) in [
            ("Cargo.toml", manifest),
            ("src/lib.rs", export),
            ("library/Cargo.toml", library),
            ("library/src/lib.rs", &constant),
        ] {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            if old {
                let file = File::options().write(true).open(&path).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
            }
        }
        folder.to_owned()
    }

    #[test]
    fn projects_of_one_name_are_not_taken_for_each_other() {
        let scratch = tempfile::tempdir().unwrap();
        let shared = scratch.path().join("shared");
        let projects = [("a", "the first", false), ("b", "the other", true)]
            .map(|(folder, text, old)| (project(&scratch.path().join(folder), text, old), text));
        for (folder, text) in [&projects[0], &projects[1], &projects[1], &projects[0]] {
            let shared = SharedBuilds::open(&shared).unwrap();
            let module = fs::read(compile(folder, Some(&shared)).unwrap()).unwrap();
            let has = |text: &str| {
                module
                    .windows(text.len())
                    .any(|part| part == text.as_bytes())
            };
            assert!(has(text), "{text}");
            for (_, other) in projects.iter().filter(|(_, other)| other != text) {
                assert!(!has(other), "{other} instead of {text}");
            }
        }
    }

    #[test]
    fn one_project_at_a_time_uses_the_shared_folder() {
        let scratch = tempfile::tempdir().unwrap();
        let first = SharedBuilds::open(scratch.path()).unwrap();
        assert!(SharedBuilds::open(scratch.path()).is_none());
        drop(first);
        assert!(SharedBuilds::open(scratch.path()).is_some());
    }

    #[test]
    fn the_module_is_the_one_that_cargo_names_last() {
        let messages = br#"
{"reason":"compiler-artifact","filenames":["/t/libserde.rlib"]}
{"reason":"compiler-artifact","filenames":["/t/dep.wasm"]}
{"reason":"compiler-message","message":{"rendered":"x"}}
{"reason":"compiler-artifact","filenames":["/t/snake.wasm","/t/libsnake.rlib"]}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(module(messages), Some("/t/snake.wasm".into()));
        assert_eq!(module(b"{\"reason\":\"build-finished\"}\n"), None);
    }
}
