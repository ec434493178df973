//! Builds the programs and the standard plugins.

use anyhow::Result;

use crate::repo::Repo;
use crate::{plugins, setup, step};

/// Builds everything that users install.
pub fn run(repo: &Repo) -> Result<()> {
    setup::run(repo)?;
    setup::libtorch(repo)?;
    programs(repo, &["pbg-host", "pbg-host-torch"])
}

/// Builds the program that trains on the cores in single precision, which needs no libtorch.
pub fn without_libtorch(repo: &Repo) -> Result<()> {
    setup::run(repo)?;
    programs(repo, &["pbg-host"])
}

/// Builds the standard plugins in `target/plugins`, and nothing else.
pub fn plugins(repo: &Repo) -> Result<()> {
    setup::run(repo)?;
    plugins::build(repo)
}

/// Builds the plugins, which the programs embed, then the programs.
fn programs(repo: &Repo, names: &[&str]) -> Result<()> {
    plugins::build(repo)?;
    let shown = names.join(" and ");
    step::announce(&format!(
        "building {shown} (the first time takes a few minutes)"
    ));
    let mut cargo = repo.cargo("build");
    cargo.args(["--release", "--workspace"]);
    for name in names {
        cargo.args(["--bin", name]);
    }
    step::run(&mut cargo, "see the compiler's message above")
}
