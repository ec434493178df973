//! Bridges to the libtorch of every version of PyTorch that a release can use.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use xtask::repo::Repo;
use xtask::setup::{TorchHeaders, Wheel, compile_bridges, wheel_folder};
use xtask::step;

use super::archive::{create, remove};
use super::target::DistTarget;

/// Newest wheel of each version of PyTorch, oldest first, with its checksum. Only their headers are used.
pub(super) const VERSIONS: [(&str, &str); 7] = [
    (
        "2.9.1",
        "d033ff0ac3f5400df862a51bdde9bad83561f3739ea0046e68f5401ebfa67c1b",
    ),
    (
        "2.10.0",
        "a2f9edd8dbc99f62bc4dfb78af7bf89499bca3d753423ac1b4e06592e467b763",
    ),
    (
        "2.11.0",
        "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
    ),
    (
        "2.12.1",
        "6e29e7e74d05bda7d955c75e99459f878ebd970ef851b4057edbd3b34a5eb4a3",
    ),
    (
        "2.13.0",
        "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7",
    ),
    (
        "2.14.1",
        "305a61f61f35f128579f299c5bd33d475f6a01c6307336139632e30856c4854d",
    ),
    (
        "2.15.0",
        "48c2d861134c0b5697c7602cb5ffa68f62a2989fdcd1717e593356f67996ca1e",
    ),
];

/// Compiles the bridges for `target` with the compiler of this machine, and returns their folder. It is empty for other
/// systems than this one.
pub(super) fn build(repo: &Repo, target: DistTarget) -> Result<PathBuf> {
    let folder = repo
        .target
        .join("cross/torch-bridges")
        .join(target.triple());
    create(&folder)?;
    if target != DistTarget::X86_64 {
        return Ok(folder);
    }
    let mut headers = Vec::new();
    for (version, sha256) in VERSIONS {
        headers.push(TorchHeaders {
            version: minor(version)?,
            include: headers_of(repo, version, sha256)?.join("include"),
        });
    }
    compile_bridges(repo, &headers, &folder)?;
    for TorchHeaders { version, include } in &headers {
        let bridge = folder.join(format!("torch-{}.{}.so", version.0, version.1));
        check(&bridge, &include.with_file_name(SYMBOLS))?;
    }
    Ok(folder)
}

/// Returns the first two numbers of a version.
fn minor(version: &str) -> Result<(u32, u32)> {
    let mut numbers = version.split('.').map(str::parse);
    let wrong = || format!("{version} is not a version");
    let mut next = || numbers.next().with_context(wrong);
    Ok((next()??, next()??))
}

/// File with the names of the functions of a libtorch, beside the folder of its headers.
const SYMBOLS: &str = "symbols.txt";
/// Libraries of a wheel that a bridge calls.
const LIBRARIES: [&str; 2] = ["libtorch_cpu.so", "libc10.so"];

/// Returns a folder with the headers of a version of PyTorch, and the names of its functions. It is downloaded the first
/// time.
fn headers_of(repo: &Repo, version: &str, sha256: &str) -> Result<PathBuf> {
    let folder = repo.deps.join("torch-headers").join(version);
    if folder.join(SYMBOLS).exists() {
        return Ok(folder);
    }
    step::announce(&format!(
        "downloading PyTorch {version} with pip for its headers (0.5 to 0.9 GB)"
    ));
    let (requirement, stem) = (format!("torch=={version}"), format!("torch-{version}-"));
    let files = LIBRARIES.map(|library| (format!("torch/lib/{library}"), format!("lib/{library}")));
    let mut taken = vec![("torch/include/", "include/")];
    taken.extend(files.iter().map(|(from, to)| (from.as_str(), to.as_str())));
    let wheel = Wheel {
        requirement: &requirement,
        sha256,
        stem: &stem,
        files: &taken,
    };
    let partial = folder.with_extension("partial");
    remove(&partial)?;
    wheel_folder(&[wheel], &repo.deps.join("wheels"), &partial)?;
    let mut names = String::new();
    for library in LIBRARIES {
        let library = partial.join("lib").join(library);
        names.push_str(&symbols(&library, "--defined-only")?.join("\n"));
        names.push('\n');
    }
    fs::write(partial.join(SYMBOLS), names).context(SYMBOLS)?;
    remove(&partial.join("lib"))?;
    remove(&folder)?;
    rename(&partial, &folder).map(|()| folder)
}

/// Checks that a libtorch has every function that its bridge calls. `of_libtorch` is the file with their names.
fn check(bridge: &Path, of_libtorch: &Path) -> Result<()> {
    let names =
        fs::read_to_string(of_libtorch).with_context(|| of_libtorch.display().to_string())?;
    let has: BTreeSet<&str> = names.lines().collect();
    let calls = symbols(bridge, "--undefined-only")?;
    // Names of the C and C++ libraries have a version; their needs are checked in `target`.
    let mut of_torch = calls.iter().filter(|name| !name.contains('@'));
    let missing = of_torch.find(|name| !has.contains(name.as_str()));
    ensure!(
        missing.is_none(),
        "{} calls {}, which that libtorch does not have",
        bridge.display(),
        missing.map_or("", String::as_str)
    );
    Ok(())
}

/// Returns the names of the dynamic symbols of a library that are defined in it, or used and not defined.
fn symbols(library: &Path, which: &str) -> Result<Vec<String>> {
    let mut nm = Command::new("nm");
    nm.args(["--dynamic", "--format=posix", which]).arg(library);
    let listed = step::output(&mut nm, "install binutils, which has `nm`")?;
    // A line has the name and the kind; a weak symbol that nothing defines is absent, which is allowed.
    let names = listed.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (name, kind) = (words.next()?, words.next()?);
        (!matches!(kind, "w" | "v")).then(|| name.to_owned())
    });
    Ok(names.collect())
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to)
        .with_context(|| format!("cannot move {} to {}", from.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_the_extra_name_the_versions() {
        let repo = Repo::find(None).unwrap();
        let [first, .., last] = VERSIONS.map(|(version, _)| minor(version).unwrap());
        let [oldest, newest] = [first, last].map(|(major, minor)| format!("{major}.{minor}"));
        let range = format!("{oldest} to {newest}");
        let pages = [
            "CHANGELOG.md",
            "docs/execution.md",
            "docs/python.md",
            "docs/releases.md",
        ];
        let extra = format!("torch = [\"torch>={oldest},<{}.{}\"]", last.0, last.1 + 1);
        let texts = pages.map(|page| (page, range.as_str()));
        for (file, text) in texts
            .into_iter()
            .chain([("host/python/pyproject.toml", &*extra)])
        {
            let content = fs::read_to_string(repo.root.join(file)).unwrap();
            assert!(content.contains(text), "{file} does not say {text}");
        }
    }

    #[test]
    fn a_function_that_libtorch_lacks_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let here = std::env::current_exe().unwrap();
        let names = folder.path().join(SYMBOLS);
        // This program calls functions of the C library, whose names have versions, and no others.
        fs::write(&names, "").unwrap();
        check(&here, &names).unwrap();
        let needs = symbols(&here, "--undefined-only").unwrap();
        assert!(
            needs.iter().any(|name| name.contains("@GLIBC")),
            "{needs:?}"
        );
        let source = folder.path().join("library.cpp");
        let bridge = folder.path().join("torch-2.9.so");
        fs::write(
            &source,
            "int missing(int); int here(int n) { return missing(n); }",
        )
        .unwrap();
        let mut compiler = Command::new("c++");
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .arg(&bridge)
            .arg(&source);
        assert!(compiler.status().unwrap().success());
        let refused = check(&bridge, &names).unwrap_err().to_string();
        assert!(refused.contains("_Z7missingi"), "{refused}");
        fs::write(&names, "_Z7missingi\n").unwrap();
        check(&bridge, &names).unwrap();
    }
}
