//! Bugs put in on purpose: builds a copy of the program with each, and counts the seeds until the simulation finds it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;

use crate::programs::{SEEDS, simulate_some};

/// Number of seeds within which a mutation must be found.
const MOST_SEEDS: u64 = 2000;

/// The list of mutations.
const LIST: &str = include_str!("../mutations.toml");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MutationList {
    mutation: Vec<Mutation>,
}

/// A bug.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    name: String,
    /// What goes wrong.
    why: String,
    edit: Vec<Edit>,
}

/// Replacement of a text that occurs once in a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file: PathBuf,
    find: String,
    replace: String,
}

/// Result of the search for a mutation.
enum Search {
    Found {
        /// Number of seeds that were simulated.
        seeds: u64,
        /// What was violated first.
        violation: String,
    },
    NotFound,
}

/// Searches for all mutations whose name contains `text`. Returns whether each is found.
///
/// # Errors
/// When the copy cannot be made or built.
pub(crate) fn find_all(text: &str, folder: &Path) -> Result<bool> {
    let list: MutationList = toml::from_str(LIST)?;
    let chosen = list.mutation.iter().filter(|m| m.name.contains(text));
    let chosen: Vec<&Mutation> = chosen.collect();
    ensure!(!chosen.is_empty(), "no mutation has {text:?} in its name");
    let copy = Copy::make()?;
    copy.build()?;
    // Otherwise anything would be found.
    let simulated = simulate_some(Some(&copy.program()), 0, folder)?;
    ensure!(
        simulated.failed == 0,
        "the program without a mutation violates something: {}",
        simulated.lines.join("\n")
    );
    let mut missed = Vec::new();
    for mutation in chosen {
        let searched = copy.mutated(mutation, |program| search(program, folder))?;
        match searched {
            Search::Found { seeds, violation } => {
                println!("{:<42} {seeds:>5} seeds  {violation}", mutation.name);
            }
            Search::NotFound => {
                println!("{:<42} not found: {}", mutation.name, mutation.why);
                missed.push(&mutation.name);
            }
        }
    }
    Ok(missed.is_empty())
}

fn search(program: &Path, folder: &Path) -> Result<Search> {
    for seed in (0..MOST_SEEDS).step_by(SEEDS as usize) {
        let seeds = seed + SEEDS;
        match simulate_some(Some(program), seed, folder) {
            Err(error) => {
                let violation = format!("{error:#}");
                return Ok(Search::Found { seeds, violation });
            }
            Ok(simulated) if simulated.failed > 0 => {
                let first = simulated.lines.into_iter().next().unwrap_or_default();
                let violation = first.chars().take(100).collect();
                return Ok(Search::Found { seeds, violation });
            }
            Ok(_) => {}
        }
    }
    Ok(Search::NotFound)
}

/// A copy of the repository's tracked files, with a build folder of its own.
struct Copy {
    source: PathBuf,
    target: PathBuf,
}

impl Copy {
    /// Makes the copy, or updates that of an earlier run: files that are the same keep their time, so that they are not
    /// compiled again.
    fn make() -> Result<Self> {
        let root = repository()?;
        let place = root.join("target/mutations");
        let copy = Self {
            source: place.join("source"),
            target: place.join("target"),
        };
        let mut git = Command::new("git");
        let listed = git.args(["ls-files", "-z"]).current_dir(&root).output();
        let listed = listed.context("git ls-files")?;
        ensure!(listed.status.success(), "git ls-files failed");
        let names = String::from_utf8(listed.stdout)?;
        for name in names.split_terminator('\0') {
            let Ok(content) = fs::read(root.join(name)) else {
                // It is removed, and the removal not committed.
                continue;
            };
            write_if_changed(&copy.source.join(name), &content)?;
        }
        Ok(copy)
    }

    /// Builds the simulation with a mutation, and gives it to `use_it`.
    fn mutated<T>(
        &self,
        mutation: &Mutation,
        use_it: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        let mut originals = Vec::new();
        for Edit {
            file,
            find,
            replace,
        } in &mutation.edit
        {
            let path = self.source.join(file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            check_fits(mutation, file, find, &text)?;
            fs::write(&path, text.replacen(find, replace, 1))?;
            originals.push((path, text));
        }
        let used = self.build().and_then(|()| use_it(&self.program()));
        // The first edit of a file is undone last.
        for (path, text) in originals.iter().rev() {
            fs::write(path, text)?;
        }
        used.with_context(|| format!("mutation {}", mutation.name))
    }

    fn program(&self) -> PathBuf {
        self.target.join("release/xtask-sim")
    }

    fn build(&self) -> Result<()> {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--quiet", "--release", "--package", "xtask-sim"]);
        cargo.arg("--target-dir").arg(&self.target);
        // The place of the Python extension's settings is relative to the copy.
        let built = cargo.current_dir(&self.source).status()?;
        ensure!(built.success(), "it does not compile");
        Ok(())
    }
}

fn repository() -> Result<PathBuf> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().nth(2).context("no repository")?;
    Ok(root.to_owned())
}

fn write_if_changed(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|found| found == content) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, content).with_context(|| path.display().to_string())
}

fn check_fits(mutation: &Mutation, file: &Path, find: &str, text: &str) -> Result<()> {
    let found = text.matches(find).count();
    if found != 1 {
        let (name, file) = (&mutation.name, file.display());
        bail!("{name}: the text to replace occurs {found} times in {file}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_fits_the_source() {
        let list: MutationList = toml::from_str(LIST).unwrap();
        let root = repository().unwrap();
        assert!(list.mutation.len() >= 15);
        for mutation in &list.mutation {
            for edit in &mutation.edit {
                let text = fs::read_to_string(root.join(&edit.file)).unwrap();
                check_fits(mutation, &edit.file, &edit.find, &text).unwrap();
                assert_ne!(edit.find, edit.replace, "{}", mutation.why);
            }
        }
    }
}
