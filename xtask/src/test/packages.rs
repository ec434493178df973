//! Check of the packages that the build uses, by the rules of `deny.toml`.

use std::process::Command;

use anyhow::Result;

use super::Scope;
use crate::repo::Repo;
use crate::{setup, step};

/// Checks the packages: [`Scope::Long`] also for known vulnerabilities, whose list is downloaded. Otherwise nothing is
/// downloaded, and the check is skipped if something is missing.
pub(super) fn check(repo: &Repo, scope: Scope) -> Result<()> {
    let see_above = "change the dependency or deny.toml; see the messages above";
    if scope == Scope::Long {
        let mut deny = Command::new(setup::cargo_deny::install(repo)?);
        deny.arg("check").current_dir(&repo.root);
        return step::run(&mut deny, see_above);
    }
    let Some(program) = setup::cargo_deny::find(repo) else {
        skipped("cargo-deny is missing; `cargo xtask test --long` installs it");
        return Ok(());
    };
    let mut metadata = repo.plain_cargo("metadata");
    metadata.args(["--offline", "--locked", "--format-version", "1"]);
    if !step::succeeds(&mut metadata) {
        skipped("packages of other platforms are missing; `cargo fetch --locked` downloads them");
        return Ok(());
    }
    let mut deny = Command::new(program);
    deny.args(["--offline", "check", "bans", "licenses", "sources"]);
    step::output(deny.current_dir(&repo.root), see_above).map(drop)
}

fn skipped(reason: &str) {
    step::announce(&format!(
        "licences and sources of packages are not checked: {reason}"
    ));
}
