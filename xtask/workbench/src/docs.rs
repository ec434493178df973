//! Searchable site of the documentation: the pages of docs/, with docs/SUMMARY.md as the table of contents, and pages
//! generated from the program and the SDK.

mod gallery;
mod generated;
mod links;
mod pages;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use xtask::repo::Repo;
use xtask::{build, setup, step};

/// Version of mdBook, which makes the site.
const MDBOOK: &str = "0.5.4";

/// Configuration of mdBook. The site loads nothing from elsewhere.
const BOOK: &str = r#"[book]
title = "pbg-host"
description = "Embeddings of graphs that are larger than memory"
language = "en"
src = "src"

[build]
build-dir = "site"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
additional-css = ["site.css"]
additional-js = ["site.js"]

[output.html.search]
use-boolean-and = true
limit-results = 20
"#;

/// Style sheet that lets wide tables wrap.
const STYLE: &str = include_str!("docs/site.css");
/// Script that lets names in tables wrap.
const SCRIPT: &str = include_str!("docs/site.js");

/// Makes the site in target/docs/site and prints the path of its first page.
pub(crate) fn run(repo: &Repo) -> Result<()> {
    build::without_libtorch(repo)?;
    let mdbook = mdbook(repo)?;
    let folder = repo.target.join("docs");
    step::announce("collecting the pages");
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let source = folder.join("src");
    pages::collect(&repo.root, &source)?;
    generated::write(repo, &source)?;
    pages::save(&folder.join("book.toml"), BOOK)?;
    pages::save(&folder.join("site.css"), STYLE)?;
    pages::save(&folder.join("site.js"), SCRIPT)?;
    step::announce("making the site");
    let mut make = Command::new(&mdbook);
    step::run(make.arg("build").arg(&folder), "see the message above")?;
    println!("\nThe site: {}", folder.join("site/index.html").display());
    Ok(())
}

/// Returns the path of mdBook's program, which is compiled into .deps if it is missing.
fn mdbook(repo: &Repo) -> Result<PathBuf> {
    let _lock = setup::lock(repo)?;
    let folder = repo.deps.join("mdbook");
    let program = folder.join("bin/mdbook");
    let version = step::output(Command::new(&program).arg("--version"), "");
    if version.is_ok_and(|version| version.trim() == format!("mdbook v{MDBOOK}")) {
        return Ok(program);
    }
    step::announce(&format!(
        "installing mdbook {MDBOOK} with cargo (a few minutes, 15 MB on disk)"
    ));
    let mut cargo = repo.plain_cargo("install");
    cargo.args(["mdbook", "--version", MDBOOK, "--locked", "--force"]);
    cargo.args(["--no-default-features", "--features", "search", "--root"]);
    let help = "without a network, put mdbook's program at .deps/mdbook/bin/mdbook";
    step::run(cargo.arg(&folder), help)?;
    Ok(program)
}
