//! Prepares a release: dates the changelog, sets the version wherever it is written, and says what remains to be done by
//! hand. Nothing is committed or sent.

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

use anyhow::{Context as _, Error, Result, bail, ensure};
use xtask::repo::Repo;
use xtask::step;

/// End of the heading of what will be in the next release.
const UNRELEASED: &str = ", not released yet";
/// What the README says before the first release.
const NOT_YET: &str = ", which is not released yet";
/// Folder whose files name the image of a version.
const EXAMPLES: &str = "examples/cluster";

/// Version of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReleaseVersion([u32; 3]);

impl FromStr for ReleaseVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("{text:?} is not a version such as 1.2.3");
        let parts: Vec<&str> = text.split('.').collect();
        let parts: [&str; 3] = parts.try_into().ok().with_context(wrong)?;
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = part.parse().with_context(wrong)?;
            ensure!(number.to_string() == part, wrong());
        }
        Ok(Self(numbers))
    }
}

impl fmt::Display for ReleaseVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// Prepares the release of `version`.
pub(crate) fn run(repo: &Repo, version: ReleaseVersion) -> Result<()> {
    let changed = git(repo, &["status", "--porcelain"])?;
    ensure!(
        changed.is_empty(),
        "there are changes that are not committed: commit or remove them first\n{changed}"
    );
    let tag = format!("v{version}");
    let tagged = git(repo, &["tag", "--list", &tag])?;
    ensure!(tagged.is_empty(), "{tag} was released already");
    let date = git(repo, &["show", "--no-patch", "--format=%cs", "HEAD"])?;

    let (manifest, changelog) = (repo.root.join("Cargo.toml"), repo.root.join("CHANGELOG.md"));
    let before = current(&read(&manifest)?)?;
    ensure!(
        before <= version,
        "the version is {before} already, and {version} is older"
    );
    step::announce(&format!("dating the changelog ({date})"));
    let (text, changes) = dated(&read(&changelog)?, version, &date)?;
    write(&changelog, &text)?;
    let readme = repo.root.join("README.md");
    write(&readme, &read(&readme)?.replace(NOT_YET, ""))?;
    step::announce(&format!("setting the version ({before} -> {version})"));
    write(&manifest, &with_version(&read(&manifest)?, version)?)?;
    for entry in fs::read_dir(repo.root.join(EXAMPLES)).context(EXAMPLES)? {
        let path = entry?.path();
        let text = read(&path)?;
        let named = |version| format!("pbg-host:{version}");
        write(&path, &text.replace(&named(before), &named(version)))?;
    }
    let mut cargo = repo.plain_cargo("update");
    cargo.args(["--workspace", "--offline", "--quiet"]);
    step::run(&mut cargo, "see cargo's message above")?;

    let message = repo.target.join(format!("dist/{tag}.txt"));
    fs::create_dir_all(message.parent().context("a folder")?)?;
    write(&message, &format!("pbg-host {version}\n\n{changes}\n"))?;
    println!("{}", remaining(version, &repo.short(&message).to_string()));
    Ok(())
}

/// Returns what remains to be done.
fn remaining(version: ReleaseVersion, message: &str) -> String {
    format!(
        "\nprepared; nothing was committed or sent. What remains:\n\n\
         cargo xtask test                                  # the state that is released\n\
         cargo xtask wheel --test                          # target/wheel, with libtorch\n\
         cargo xtask dist --test                           # target/dist\n\
         git commit -am 'Release {version}'\n\
         git tag -a v{version} --cleanup=verbatim -F {message}\n\
         git push origin main v{version}\n\
         (cd target/dist && sha256sum --check SHA256SUMS)\n\
         twine upload target/dist/*-{version}-*.whl             # asks the package index for an account\n\
         podman build -f examples/cluster/Containerfile -t pbg-host:{version} target/wheel"
    )
}

/// Returns the version of this state.
pub(crate) fn current_version(repo: &Repo) -> Result<ReleaseVersion> {
    current(&read(&repo.root.join("Cargo.toml"))?)
}

/// Returns the version of the workspace.
fn current(manifest: &str) -> Result<ReleaseVersion> {
    version_line(manifest)?
        .trim_start_matches("version = ")
        .trim_matches('"')
        .parse()
}

/// Returns the manifest of the workspace with another version.
fn with_version(manifest: &str, version: ReleaseVersion) -> Result<String> {
    let line = version_line(manifest)?;
    Ok(manifest.replacen(line, &format!("version = \"{version}\""), 1))
}

/// Returns the line with the version of the workspace.
fn version_line(manifest: &str) -> Result<&str> {
    let package = manifest.split_once("[workspace.package]");
    let (_, package) = package.context("Cargo.toml has no [workspace.package]")?;
    let mut lines = package.lines().take_while(|line| !line.starts_with('['));
    let line = lines.find(|line| line.starts_with("version = \""));
    line.context("[workspace.package] has no version")
}

/// Returns the changelog with a date for what was not released, and the changes of this release.
fn dated(changelog: &str, version: ReleaseVersion, date: &str) -> Result<(String, String)> {
    let mut headings = changelog.lines().filter(|line| line.starts_with("## "));
    let heading = headings.next().context("the changelog has no section")?;
    if !heading.ends_with(UNRELEASED) {
        bail!(
            "the first section of CHANGELOG.md is {heading:?}: begin one with `## {version}{UNRELEASED}` that says what \
             users notice"
        );
    }
    let (_, changes) = changelog.split_once(heading).unwrap_or_default();
    let changes = changes.split("\n## ").next().unwrap_or_default().trim();
    ensure!(!changes.is_empty(), "{heading:?} in CHANGELOG.md is empty");
    let text = changelog.replacen(heading, &format!("## {version}, {date}"), 1);
    Ok((text, changes.to_owned()))
}

fn git(repo: &Repo, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    let output = command.args(arguments).current_dir(&repo.root).output();
    let output = output.context("cannot start git")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "git {}: {said}",
        arguments.join(" ")
    );
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        let version: ReleaseVersion = "1.20.3".parse().unwrap();
        assert_eq!(version.to_string(), "1.20.3");
        assert!(version < "1.100.0".parse().unwrap());
        for wrong in [
            "",
            "1.2",
            "1.2.3.4",
            "1.2.x",
            "01.2.3",
            "1.2.3-rc1",
            "v1.2.3",
            "1..3",
        ] {
            wrong.parse::<ReleaseVersion>().unwrap_err();
        }
    }

    #[test]
    fn the_changelog_gets_a_date_and_gives_the_changes() {
        let version = "0.2.0".parse().unwrap();
        let text = "# Changelog\n\n## 0.2.0, not released yet\n\n* New.\n\n### Fixed\n\n* Old.\n\n## 0.1.0, 2026-01-02\n\n* First.\n";
        let (dated_text, changes) = dated(text, version, "2026-03-04").unwrap();
        assert_eq!(changes, "* New.\n\n### Fixed\n\n* Old.");
        assert_eq!(
            dated_text,
            text.replace(", not released yet", ", 2026-03-04")
        );
        let again = dated(&dated_text, version, "2026-03-05").unwrap_err();
        assert!(again.to_string().contains("begin one with"), "{again}");
        let empty = "## 0.2.0, not released yet\n\n## 0.1.0, 2026-01-02\n\n* First.\n";
        dated(empty, version, "2026-03-04").unwrap_err();
    }

    #[test]
    fn only_the_version_of_the_workspace_changes() {
        let text = "[workspace]\n\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
                    [workspace.dependencies]\nversion = \"9\"\nother = { version = \"0.1.0\" }\n";
        assert_eq!(current(text).unwrap().to_string(), "0.1.0");
        let changed = with_version(text, "0.2.0".parse().unwrap()).unwrap();
        assert_eq!(changed, text.replacen("0.1.0", "0.2.0", 1));
        current("[package]\nversion = \"0.1.0\"\n").unwrap_err();
    }

    /// The release of this state would find everything that it changes.
    #[test]
    fn this_repository_can_be_released() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let version = current(&read(&root.join("Cargo.toml")).unwrap()).unwrap();
        let changelog = read(&root.join("CHANGELOG.md")).unwrap();
        dated(&changelog, version, "2026-01-02").unwrap();
        // Before the first release, the README says that there is none.
        let readme = read(&root.join("README.md")).unwrap();
        let is_first = changelog.matches("\n## ").count() == 1;
        assert_eq!(
            readme.contains(NOT_YET),
            is_first && changelog.contains(UNRELEASED)
        );
        let named = format!("pbg-host:{version}");
        for name in [
            "Containerfile",
            "compose.yaml",
            "jobset.yaml",
            "kubernetes.yaml",
        ] {
            let text = read(&root.join(EXAMPLES).join(name)).unwrap();
            assert!(text.contains(&named), "{name} has another version");
        }
    }
}
