//! Archives of the program with its plugins, and checksums of files.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use sha2::{Digest as _, Sha256};
use xtask::repo::Repo;
use xtask::{step, wheel};

/// Files of the repository that an archive has.
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];
/// Folders of the repository that an archive has as well, as they are committed: the README refers to them.
const FOLDERS: [&str; 3] = ["configs", "docs", "examples"];
/// Folder of the bridges to libtorch, in which the program looks for them.
const BRIDGES: &str = "torch-bridges";
/// Name of the list of packages in an archive.
const LIST: &str = "pbg-host.cdx.json";

/// Packs the program in `built`, the bridges to libtorch, the standard plugins and the list of packages into
/// `NAME.tar.gz` in `folder`, and returns its path. The same files give the same bytes.
pub(super) fn pack(
    repo: &Repo,
    (built, bridges): (&Path, &Path),
    name: &str,
    list: &str,
    folder: &Path,
) -> Result<PathBuf> {
    let staged = folder.join("staged");
    remove(&staged)?;
    let inside = staged.join(name);
    create(&inside.join("plugins"))?;
    copy(&built.join("pbg-host"), &inside.join("pbg-host"))?;
    wheel::copy_bridges(bridges, &inside.join(BRIDGES))?;
    for document in DOCUMENTS {
        copy(&repo.root.join(document), &inside.join(document))?;
    }
    copy_folders(repo, &staged, &inside)?;
    let plugins = repo.target.join("plugins");
    for entry in
        fs::read_dir(&plugins).with_context(|| format!("cannot read {}", plugins.display()))?
    {
        let entry = entry?;
        copy(
            &entry.path(),
            &inside.join("plugins").join(entry.file_name()),
        )?;
    }
    fs::write(inside.join(LIST), list).context(LIST)?;

    let archive = folder.join(format!("{name}.tar.gz"));
    let mut git = Command::new("git");
    git.args(["show", "--no-patch", "--format=%ct", "HEAD"])
        .current_dir(&repo.root);
    let date = step::output(&mut git, "build from a clone")?;
    let mut tar = Command::new("tar");
    tar.args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=go=rX,u+rw",
    ]);
    tar.arg(format!("--mtime=@{}", date.trim()))
        .arg("--use-compress-program=gzip -n9");
    tar.arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(&staged)
        .arg(name);
    step::run(&mut tar, "GNU tar and gzip are needed")?;
    remove(&staged)?;
    check(&archive, name)?;
    Ok(archive)
}

/// Copies the committed files of [`FOLDERS`].
fn copy_folders(repo: &Repo, staged: &Path, inside: &Path) -> Result<()> {
    let packed = staged.join("folders.tar");
    let mut git = Command::new("git");
    git.args(["archive", "--format=tar", "--output"])
        .arg(&packed)
        .arg("HEAD")
        .args(FOLDERS)
        .current_dir(&repo.root);
    step::run(&mut git, "build from a clone")?;
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&packed).arg("-C").arg(inside);
    step::run(&mut tar, "GNU tar is needed")?;
    fs::remove_file(&packed).with_context(|| format!("cannot remove {}", packed.display()))
}

/// Checks that an archive has what it should have, in a folder of its name, and nothing else.
pub(super) fn check(archive: &Path, name: &str) -> Result<()> {
    let mut tar = Command::new("tar");
    let listing = step::output(tar.arg("-tzf").arg(archive), "GNU tar and gzip are needed")?;
    check_listing(&listing, name).with_context(|| format!("{}", archive.display()))
}

fn check_listing(listing: &str, name: &str) -> Result<()> {
    let mut files = BTreeSet::new();
    for path in listing.lines().filter(|path| !path.ends_with('/')) {
        let inside = path
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('/'));
        files.insert(inside.with_context(|| format!("{path} is not in the folder {name}"))?);
    }
    for folder in FOLDERS {
        let before = files.len();
        files.retain(|file| !file.starts_with(&format!("{folder}/")));
        ensure!(files.len() < before, "has no files in {folder}");
    }
    let plugins: BTreeSet<&str> = files
        .iter()
        .copied()
        .filter(|file| file.starts_with("plugins/"))
        .collect();
    ensure!(!plugins.is_empty(), "has no plugins");
    let is_bridge = |file: &&str| {
        let name = file.strip_prefix(BRIDGES);
        name.is_some_and(|name| name.starts_with("/torch-") && name.ends_with(".so"))
    };
    files.retain(|file| !is_bridge(file));
    let expected: BTreeSet<_> = DOCUMENTS.into_iter().chain(["pbg-host", LIST]).collect();
    let others: BTreeSet<_> = files.difference(&plugins).copied().collect();
    ensure!(others == expected, "has {others:?} instead of {expected:?}");
    let odd = plugins.iter().find(|file| !file.ends_with(".wasm"));
    ensure!(odd.is_none(), "has {odd:?} among the plugins");
    Ok(())
}

/// Writes `SHA256SUMS` of the files `names` in a folder, for `sha256sum --check`. The folder may have files of other
/// releases.
pub(super) fn write_sums(folder: &Path, names: &[String]) -> Result<()> {
    let mut text = String::new();
    for name in names {
        let bytes = fs::read(folder.join(name)).with_context(|| format!("cannot read {name}"))?;
        for byte in Sha256::digest(bytes) {
            let _ = write!(text, "{byte:02x}");
        }
        let _ = writeln!(text, "  {name}");
    }
    fs::write(folder.join("SHA256SUMS"), text).context("cannot write SHA256SUMS")
}

/// Returns the names of the files of a release in a folder, sorted: those of all systems, whenever they were built.
pub(super) fn release_files(folder: &Path, version: &str) -> Result<Vec<String>> {
    let beginnings = ["pbg-host", "pbg_host"].map(|name| format!("{name}-{version}-"));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if beginnings
            .iter()
            .any(|first| name.starts_with(first.as_str()))
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

pub(super) fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to);
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

pub(super) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive is packed from a checkout and a program, twice.
    #[test]
    fn the_same_files_give_the_same_archive() {
        let scratch = tempfile::tempdir().unwrap();
        let mut repo = Repo::find(None).unwrap();
        repo.target = scratch.path().to_owned();
        let built = scratch.path().join("built");
        create(&built).unwrap();
        create(&repo.target.join("plugins")).unwrap();
        fs::write(repo.target.join("plugins/softmax.wasm"), "wasm").unwrap();
        fs::write(built.join("pbg-host"), "program").unwrap();
        fs::write(built.join("torch-2.9.so"), "bridge").unwrap();
        let name = "pbg-host-1.2.3-here";
        let archives = ["a", "b"].map(|folder| {
            let folder = scratch.path().join(folder);
            create(&folder).unwrap();
            let archive = pack(&repo, (&built, &built), name, "{}\n", &folder).unwrap();
            // A file of another release.
            fs::write(folder.join("pbg-host-1.2.2-here.tar.gz"), "old").unwrap();
            write_sums(&folder, &release_files(&folder, "1.2.3").unwrap()).unwrap();
            let sums_text = fs::read_to_string(folder.join("SHA256SUMS")).unwrap();
            assert_eq!(sums_text.lines().count(), 1);
            assert!(sums_text.ends_with(&format!("  {name}.tar.gz\n")));
            let sums = Command::new("sha256sum")
                .args(["--check", "SHA256SUMS"])
                .current_dir(&folder)
                .status();
            assert!(sums.unwrap().success());
            fs::read(archive).unwrap()
        });
        assert!(archives[0] == archives[1]);
    }

    #[test]
    fn archives_have_nothing_else() {
        let complete: Vec<String> = DOCUMENTS
            .into_iter()
            .chain(["", "plugins/", "plugins/x.wasm", "pbg-host", LIST])
            .chain(["configs/a.toml", "docs/a/b.md", "examples/README.md"])
            .map(|file| format!("name/{file}"))
            .collect();
        check_listing(&complete.join("\n"), "name").unwrap();
        check_listing(&complete.join("\n"), "other").unwrap_err();
        let bridge = format!("{}\nname/{BRIDGES}/torch-2.9.so", complete.join("\n"));
        check_listing(&bridge, "name").unwrap();
        for extra in [
            "name/target/x",
            "name/torch-bridges/x.so",
            "name/plugins/x.py",
            "../name/README.md",
        ] {
            check_listing(&format!("{}\n{extra}", complete.join("\n")), "name").unwrap_err();
        }
        for missing in 0..complete.len() {
            if complete[missing].ends_with('/') {
                continue;
            }
            let mut some = complete.clone();
            some.remove(missing);
            check_listing(&some.join("\n"), "name").unwrap_err();
        }
    }
}
