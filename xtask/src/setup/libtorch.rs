//! libtorch, taken out of the wheels that PyPI has for PyTorch.
//!
//! The whole of `pip install torch` is 4.7 GB; the three wheels here are 0.6 GB, and what is kept of them 0.5 GB.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use zip::ZipArchive;

use crate::repo::Repo;
use crate::step;

/// A wheel, and what of it goes where.
struct Wheel {
    requirement: &'static str,
    sha256: &'static str,
    /// File name up to the first dash, and version.
    stem: &'static str,
    /// Paths in the wheel (a folder ends with `/`) and in the installation.
    takes: &'static [(&'static str, &'static str)],
}

/// libtorch_cpu.so of the CUDA build needs the libraries of the last two wheels even if no GPU is used.
const WHEELS: [Wheel; 3] = [
    Wheel {
        requirement: "torch==2.11.0",
        sha256: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
        stem: "torch-2.11.0-",
        takes: &[
            ("torch/include/", "include/"),
            ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
            ("torch/lib/libc10.so", "lib/libc10.so"),
            ("torch/lib/libgomp.so.1", "lib/libgomp.so.1"),
        ],
    },
    Wheel {
        requirement: "nvidia-cuda-runtime==13.0.96",
        sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        stem: "nvidia_cuda_runtime-13.0.96-",
        takes: &[("nvidia/cu13/lib/libcudart.so.13", "lib/libcudart.so.13")],
    },
    Wheel {
        requirement: "nvidia-cuda-cupti==13.0.85",
        sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
        stem: "nvidia_cuda_cupti-13.0.85-",
        takes: &[("nvidia/cu13/lib/libcupti.so.13", "lib/libcupti.so.13")],
    },
];

/// The wheels are chosen for libtorch, not for the Python that happens to be here.
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

/// Stands in a complete installation; another content means another version or layout.
const STAMP: (&str, &str) = (
    "stamp",
    "torch 2.11.0, nvidia-cuda-runtime 13.0.96, nvidia-cuda-cupti 13.0.85; layout 1\n",
);

/// Brings `repo.libtorch` into being, or leaves it alone if it is complete or the user's own.
pub(crate) fn install(repo: &Repo) -> Result<()> {
    let to = &repo.libtorch;
    if !repo.owns_libtorch() {
        step::announce(&format!("using the libtorch of LIBTORCH={}", to.display()));
        return Ok(());
    }
    if fs::read_to_string(to.join(STAMP.0)).is_ok_and(|stamp| stamp == STAMP.1) {
        return Ok(());
    }
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "libtorch is only installed on x86-64 Linux\nwhat to do: set LIBTORCH to the folder of a libtorch 2.11"
    );

    let wheels = repo.deps.join("wheels");
    download(&wheels)?;
    step::announce(&format!(
        "unpacking libtorch into {} (0.5 GB)",
        repo.short(to)
    ));
    let partial = repo.deps.join("libtorch.partial");
    unpack(&wheels, &partial)?;
    replace(&partial, to)?;
    fs::remove_dir_all(&wheels).with_context(|| format!("cannot remove {}", wheels.display()))
}

/// pip leaves alone what an interrupted run has already downloaded as a whole.
fn download(into: &Path) -> Result<()> {
    let what_to_do = format!(
        "install Python 3 with pip (`apt-get install python3-pip`) and check that `python3 -m pip download --no-deps {}` works",
        WHEELS[1].requirement
    );
    step::output(
        Command::new("python3").args(["-m", "pip", "--version"]),
        &what_to_do,
    )?;

    step::announce("downloading libtorch 2.11.0 with pip (0.6 GB)");
    fs::create_dir_all(into).with_context(|| format!("cannot create {}", into.display()))?;
    let list = into.join("requirements.txt");
    let lines: String = WHEELS
        .iter()
        .map(|wheel| format!("{} --hash=sha256:{}\n", wheel.requirement, wheel.sha256))
        .collect();
    fs::write(&list, lines).with_context(|| format!("cannot write {}", list.display()))?;
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "download"])
        .args(PIP_TAGS);
    pip.arg("--dest").arg(into).arg("--requirement").arg(&list);
    let what_to_do = format!(
        "put the wheels of {} into {}",
        WHEELS.map(|wheel| wheel.requirement).join(", "),
        into.display()
    );
    step::run(&mut pip, &what_to_do)
}

fn unpack(wheels: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    for wheel in &WHEELS {
        let path = find(wheels, wheel.stem)?;
        take(&path, wheel.takes, to).with_context(|| {
            format!(
                "cannot unpack {}\nwhat to do: remove {} and try again",
                path.display(),
                wheels.display()
            )
        })?;
    }
    // Asked for `-ltorch`, the linker finds the part that is there.
    let script = to.join("lib/libtorch.so");
    fs::write(&script, "INPUT ( -ltorch_cpu )\n")
        .with_context(|| format!("cannot write {}", script.display()))
}

fn find(wheels: &Path, stem: &str) -> Result<PathBuf> {
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

fn take(wheel: &Path, takes: &[(&str, &str)], to: &Path) -> Result<()> {
    let mut archive = ZipArchive::new(BufReader::new(File::open(wheel)?))?;
    let mut n_taken = vec![0; takes.len()];
    for i in 0..archive.len() {
        let mut entry = archive.by_index(i)?;
        let name = entry
            .enclosed_name()
            .with_context(|| format!("entry {i} leads out of the wheel"))?;
        if entry.is_dir() {
            continue;
        }
        for ((from, into), n) in takes.iter().zip(&mut n_taken) {
            let Ok(rest) = name.strip_prefix(from) else {
                continue;
            };
            let path = if from.ends_with('/') {
                to.join(into).join(rest)
            } else {
                to.join(into)
            };
            fs::create_dir_all(path.parent().unwrap_or(to))?;
            io::copy(&mut entry, &mut File::create(&path)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
            *n += 1;
        }
    }
    match takes.iter().zip(n_taken).find(|(_, n)| *n == 0) {
        Some(((from, _), _)) => bail!("it has no {from}"),
        None => Ok(()),
    }
}

/// The stamp is written last and the folder renamed after that: an interruption leaves either nothing or everything.
fn replace(partial: &Path, to: &Path) -> Result<()> {
    fs::write(partial.join(STAMP.0), STAMP.1)
        .with_context(|| format!("cannot write into {}", partial.display()))?;
    if to.exists() {
        fs::remove_dir_all(to)
            .with_context(|| format!("cannot remove the incomplete {}", to.display()))?;
    }
    fs::rename(partial, to)
        .with_context(|| format!("cannot move {} to {}", partial.display(), to.display()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    const TAKES: &[(&str, &str)] = &[
        ("torch/include/", "include/"),
        ("torch/lib/libc10.so", "lib/libc10.so"),
    ];

    fn wheel(at: &Path, names: &[&str]) -> PathBuf {
        let path = at.join("torch-2.11.0-py3.whl");
        let mut zip = ZipWriter::new(File::create(&path).unwrap());
        for name in names {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(name.as_bytes()).unwrap();
        }
        zip.finish().unwrap();
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
        take(&wheel(dir.path(), &names), TAKES, &to).unwrap();
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
        let error = |path: &Path| format!("{:#}", take(path, TAKES, &to).unwrap_err());
        let lacking = wheel(dir.path(), &["torch/include/a.h"]);
        assert!(error(&lacking).contains("it has no torch/lib/libc10.so"));
        let hostile = wheel(
            dir.path(),
            &["torch/include/a.h", "torch/lib/libc10.so", "../../escape"],
        );
        assert!(error(&hostile).contains("leads out"));
        let bytes = fs::read(&hostile).unwrap();
        fs::write(&hostile, &bytes[..bytes.len() / 2]).unwrap();
        take(&hostile, TAKES, &to).unwrap_err();
        find(&to, "torch-2.11.0-").unwrap_err();
    }

    #[test]
    fn an_installation_counts_only_once_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let (partial, to) = (dir.path().join("partial"), dir.path().join("libtorch"));
        for folder in [&partial, &to] {
            fs::create_dir(folder).unwrap();
        }
        fs::write(to.join("left over"), "").unwrap();
        replace(&partial, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join(STAMP.0)).unwrap(), STAMP.1);
        assert!(!to.join("left over").exists() && !partial.exists());
    }
}
