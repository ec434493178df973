//! The oldest and the newest libtorch that a release can use, for trials of their bridges.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use xtask::repo::Repo;
use xtask::setup::{CUDA_13, Wheel, wheel_folder};
use xtask::step;

use super::archive::{copy, create, remove};
use super::bridges::VERSIONS;

/// Script that loads libtorch and computes with it.
pub(super) const TRIAL: &str = include_str!("libtorch.sh");

/// libtorch of a version of PyTorch, and the libraries of CUDA that it needs even if no GPU is used.
struct Libtorch {
    version: &'static str,
    cuda: [Wheel<'static>; 2],
    /// Files in the folder `lib`.
    libraries: [&'static str; 5],
}

/// The oldest and the newest of [`VERSIONS`].
const TRIED: [Libtorch; 2] = [
    Libtorch {
        version: "2.9.1",
        cuda: [
            Wheel {
                requirement: "nvidia-cuda-runtime-cu12==12.8.90",
                sha256: "adade8dcbd0edf427b7204d480d6066d33902cab2a4707dcfc48a2d0fd44ab90",
                stem: "nvidia_cuda_runtime_cu12-12.8.90-",
                files: &[(
                    "nvidia/cuda_runtime/lib/libcudart.so.12",
                    "lib/libcudart.so.12",
                )],
            },
            Wheel {
                requirement: "nvidia-cuda-cupti-cu12==12.8.90",
                sha256: "ea0cb07ebda26bb9b29ba82cda34849e73c166c18162d3913575b0c9db9a6182",
                stem: "nvidia_cuda_cupti_cu12-12.8.90-",
                files: &[("nvidia/cuda_cupti/lib/libcupti.so.12", "lib/libcupti.so.12")],
            },
        ],
        libraries: [
            "libtorch_cpu.so",
            "libc10.so",
            "libgomp.so.1",
            "libcudart.so.12",
            "libcupti.so.12",
        ],
    },
    Libtorch {
        version: "2.15.0",
        cuda: CUDA_13,
        libraries: [
            "libtorch_cpu.so",
            "libc10.so",
            "libgomp.so.1",
            "libcudart.so.13",
            "libcupti.so.13",
        ],
    },
];

/// Copies the oldest and the newest libtorch into the folder `to`, each into a folder with the name of its version, and
/// returns these names. They are downloaded the first time.
pub(super) fn copy_into(repo: &Repo, to: &Path) -> Result<Vec<&'static str>> {
    TRIED
        .iter()
        .map(|libtorch| {
            let (from, to) = (folder_of(repo, libtorch)?, to.join(libtorch.version));
            create(&to.join("lib"))?;
            for library in libtorch.libraries {
                copy(
                    &from.join("lib").join(library),
                    &to.join("lib").join(library),
                )?;
            }
            copy(&from.join("version.py"), &to.join("version.py"))?;
            Ok(libtorch.version)
        })
        .collect()
}

/// Returns the folder of a libtorch, which is downloaded if it is missing.
fn folder_of(repo: &Repo, libtorch: &Libtorch) -> Result<PathBuf> {
    let version = libtorch.version;
    let folder = repo.deps.join("torch-libraries").join(version);
    if folder.exists() {
        return Ok(folder);
    }
    step::announce(&format!(
        "downloading PyTorch {version} with pip for its libtorch (0.5 to 0.9 GB)"
    ));
    let (_, sha256) = (VERSIONS.iter().find(|(known, _)| *known == version))
        .with_context(|| format!("PyTorch {version} is not in the list of versions"))?;
    let (requirement, stem) = (format!("torch=={version}"), format!("torch-{version}-"));
    let torch = Wheel {
        requirement: &requirement,
        sha256,
        stem: &stem,
        files: &[
            ("torch/version.py", "version.py"),
            ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
            ("torch/lib/libc10.so", "lib/libc10.so"),
            ("torch/lib/libgomp.so.1", "lib/libgomp.so.1"),
        ],
    };
    let partial = folder.with_extension("partial");
    remove(&partial)?;
    let [runtime, cupti] = libtorch.cuda;
    wheel_folder(
        &[torch, runtime, cupti],
        &repo.deps.join("wheels"),
        &partial,
    )?;
    std::fs::rename(&partial, &folder)
        .with_context(|| format!("cannot name {}", folder.display()))?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_and_the_newest_are_tried() {
        let [oldest, .., newest] = VERSIONS.map(|(version, _)| version);
        assert_eq!(TRIED.map(|libtorch| libtorch.version), [oldest, newest]);
    }
}
