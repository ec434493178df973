//! Pages generated from the program and the SDK.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::gallery;
use super::pages::{read, save};
use xtask::repo::Repo;
use xtask::step;

/// Entry of the table of contents before which the generated pages are inserted.
const BEFORE: &str = "- [Bucket orders]";
const COMMANDS: &str = "docs/commands.md";
const SDK: &str = "docs/rust-sdk.md";
/// Folder for the documentation of the SDK's crate.
const RUST: &str = "docs/rust";

/// Writes the pages, and adds them to the table of contents.
pub(super) fn write(repo: &Repo, source: &Path) -> Result<()> {
    step::announce("writing the reference of commands and of the SDK");
    let mut commands = "# Commands\n\nThe output of `pbg-host COMMAND --help`.\n".to_owned();
    describe(&repo.program(), &[], &mut commands)?;
    save(&source.join(COMMANDS), commands)?;
    let mut cargo = repo.cargo("doc");
    cargo.args([
        "--release",
        "--no-deps",
        "--quiet",
        "--package",
        "pbg-plugin-sdk",
    ]);
    step::run(&mut cargo, "see the compiler's message above")?;
    copy(&repo.target.join("doc"), &source.join(RUST))?;
    save(
        &source.join(SDK),
        "# The SDK for plugins in Rust\n\nEvery type and function: [pbg_plugin_sdk](rust/pbg_plugin_sdk/index.html).\n",
    )?;
    gallery::write(repo, source)?;
    let contents = source.join("SUMMARY.md");
    let listed = format!(
        "- [Commands]({COMMANDS})\n- [Standard plugins]({})\n- [The SDK for plugins in Rust]({SDK})\n{BEFORE}",
        gallery::PAGE
    );
    let text = read(&contents)?.replacen(BEFORE, &listed, 1);
    save(&contents, text)
}

/// Appends the help of a command and of its subcommands.
fn describe(program: &Path, path: &[String], page: &mut String) -> Result<()> {
    let mut command = Command::new(program);
    command.args(path).arg("--help").env("COLUMNS", "82");
    let help = step::output(&mut command, "run it by hand")?;
    if !path.is_empty() {
        let level = "#".repeat(path.len().min(2) + 1);
        let name = path.join(" ");
        let _ = writeln!(
            page,
            "\n{level} {name}\n\n```text\n{}\n```",
            help.trim_end()
        );
    }
    for name in below(&help) {
        let path = [path, &[name]].concat();
        describe(program, &path, page)?;
    }
    Ok(())
}

/// Returns the commands that a help text lists.
fn below(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let lines = list.lines().take_while(|line| !line.is_empty());
    // A line with deeper indentation continues the explanation above.
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Copies a folder recursively.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            let bytes =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            save(&target, bytes)?;
        }
    }
    Ok(())
}
