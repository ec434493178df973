//! The program and its standard plugins.

use anyhow::Result;

use crate::repo::Repo;
use crate::{plugins, setup, step};

/// Plugins come first: the program embeds them.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    setup::run(repo)?;
    plugins::build(repo)?;
    step::announce("building pbg-host (the first time takes some minutes)");
    step::run(
        repo.cargo("build")
            .args(["--release", "--workspace"])
            .args(["--bin", "pbg-host", "--bin", "pbg-host-torch"]),
        "see the compiler's message above",
    )
}
