//! Builds the program and the standard plugins.

use anyhow::Result;

use crate::repo::Repo;
use crate::{plugins, setup, step};

/// Builds everything that users install.
pub fn run(repo: &Repo) -> Result<()> {
    setup::run(repo)?;
    setup::libtorch(repo)?;
    program(repo)
}

/// Builds the program without installing libtorch, which training on the cores in single precision does not need.
pub fn without_libtorch(repo: &Repo) -> Result<()> {
    setup::run(repo)?;
    program(repo)
}

/// Builds the standard plugins in `target/plugins`, and nothing else.
pub fn plugins(repo: &Repo) -> Result<()> {
    setup::run(repo)?;
    plugins::build(repo)
}

/// Builds the plugins, which the program embeds, then the program.
fn program(repo: &Repo) -> Result<()> {
    plugins::build(repo)?;
    step::announce("building pbg-host (the first time takes a few minutes)");
    let mut cargo = repo.cargo("build");
    cargo.args(["--release", "--workspace", "--bin", "pbg-host"]);
    step::run(&mut cargo, "see the compiler's message above")?;
    for (name, folder) in repo.libtorch_variables().into_iter().flatten() {
        println!("for half precision, set {name}={}", folder.display());
    }
    Ok(())
}
