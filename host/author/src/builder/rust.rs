//! Builds of projects in Rust: Cargo compiles a core module, and the encoder makes it a component.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::component::componentize;
use super::tool;
use crate::error::BuildError;

const TARGET: &str = "wasm32-unknown-unknown";

const CARGO: &str = "install Rust with rustup (https://rustup.rs), then \
    `rustup target add wasm32-unknown-unknown`";

/// Builds the project in `folder` into `component`.
pub(crate) fn build(folder: &Path, component: &Path) -> Result<(), BuildError> {
    let cargo = tool::find("cargo", &[], CARGO)?;
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--target", TARGET]);
    command.arg("--message-format=json-render-diagnostics");
    let messages = tool::output(&mut command, folder)?;
    let module = module(&messages).ok_or_else(|| BuildError::NoOutput {
        command: tool::line(&command),
        expected: "WebAssembly module; does Cargo.toml have `crate-type = [\"cdylib\"]`?"
            .to_owned(),
    })?;
    componentize(&module, component)
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
    use super::*;

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
