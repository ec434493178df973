//! cargo-deny, which checks the licences, the sources and known vulnerabilities of packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::lock;
use crate::repo::Repo;
use crate::step;

/// The version that is installed.
const VERSION: &str = "0.20.2";

/// Returns a cargo-deny in `.deps` or on the `PATH`, if there is one.
pub(crate) fn find(repo: &Repo) -> Option<PathBuf> {
    let candidates = [program(repo), "cargo-deny".into()];
    candidates.into_iter().find(|path| version(path).is_some())
}

/// Returns the path of cargo-deny in `.deps`, where it is compiled if this version is missing.
pub(crate) fn install(repo: &Repo) -> Result<PathBuf> {
    let _lock = lock(repo)?;
    let program = program(repo);
    if version(&program).is_some_and(|version| version.ends_with(VERSION)) {
        return Ok(program);
    }
    step::announce(&format!(
        "installing cargo-deny {VERSION} with cargo (several minutes, 15 MB on disk)"
    ));
    let mut cargo = repo.plain_cargo("install");
    cargo.args(["cargo-deny", "--version", VERSION, "--locked", "--force"]);
    cargo.arg("--root").arg(folder(repo));
    let help = "without a network, put cargo-deny's program at .deps/cargo-deny/bin/cargo-deny";
    step::run(&mut cargo, help)?;
    Ok(program)
}

fn folder(repo: &Repo) -> PathBuf {
    repo.deps.join("cargo-deny")
}

fn program(repo: &Repo) -> PathBuf {
    folder(repo).join("bin/cargo-deny")
}

/// Returns what the program says about its version, if it starts.
fn version(program: &Path) -> Option<String> {
    let said = step::output(Command::new(program).arg("--version"), "").ok()?;
    Some(said.trim().to_owned())
}
