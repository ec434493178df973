//! Data and questions of the demo, and the program that answers them.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::repo::Repo;

/// Folder of the data and the configuration.
pub(super) const EXAMPLE: &str = "examples/wordnet";

/// Folder of the demo.
pub(super) const FOLDER: &str = "target/demo";

/// Synsets whose neighbours are looked up: an animal, an artefact, a place, a person, a quality and an action.
pub(super) const WELL_KNOWN: [&str; 6] = [
    "dog.n.01",
    "piano.n.01",
    "paris.n.01",
    "einstein.n.01",
    "happy.a.01",
    "swim.v.01",
];

/// Questions, which are edges of `test` with one side open: hypernyms, parts and wholes.
pub(super) const ASKED: [[&str; 4]; 6] = [
    ["--head", "asp.n.02", "--relation", "hypernym"],
    ["--head", "american_elm.n.01", "--relation", "hypernym"],
    ["--head", "alberta.n.01", "--relation", "instance_hypernym"],
    [
        "--head",
        "gregorian_calendar.n.01",
        "--relation",
        "part_meronym",
    ],
    ["--relation", "part_meronym", "--tail", "leg.n.01"],
    [
        "--relation",
        "part_meronym",
        "--tail",
        "great_barrier_reef.n.01",
    ],
];

/// Runs a command in the repository's folder, so that it can be repeated as it is shown.
pub(super) fn pbg_host(repo: &Repo, args: &[&str]) -> Result<()> {
    let program = repo.program();
    println!("\n$ {} {}", repo.short(&program), args.join(" "));
    let mut command = Command::new(&program);
    let status = command.args(args).current_dir(&repo.root).status();
    let status = status.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(
        status.success(),
        "the command above failed ({status}); it can be repeated by hand"
    );
    Ok(())
}
