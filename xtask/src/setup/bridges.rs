//! Bridges to libtorch: the C functions of `torch-sys` that the program calls, compiled for one version of PyTorch.
//!
//! A bridge needs no newer C or C++ library than PyTorch itself, so that it can be part of a release.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::step;

/// Program that writes the source of a bridge.
const WRITER: &str = include_str!("bridge.py");
/// List of the functions, in the repository.
const FUNCTIONS: &str = "host/torch/src/bridge/functions.rs";

const SEE_ABOVE: &str = "see the compiler's message above";

/// Options of the compiler. The bridge consists of the functions that it exports, and what they need.
const OPTIONS: [&str; 8] = [
    "-O1",
    "-fPIC",
    "-shared",
    "-w",
    "-ffunction-sections",
    "-fdata-sections",
    "-Wl,--gc-sections",
    "-Wl,-s",
];

/// Headers of one version of PyTorch.
#[derive(Clone, Debug)]
pub struct TorchHeaders {
    /// First two numbers of the version.
    pub version: (u32, u32),
    /// Folder of the headers.
    pub include: PathBuf,
}

/// Compiles the bridges for versions of PyTorch into `folder`, except those that are there, and removes all others.
pub fn compile(repo: &Repo, headers: &[TorchHeaders], folder: &Path) -> Result<()> {
    let torch_sys = torch_sys(repo)?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut kept = Vec::new();
    for headers in headers {
        kept.extend(compile_one(repo, headers, &torch_sys, folder)?);
    }
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if !kept.contains(&path) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// Compiles one bridge, unless it is there. Returns the paths of its source and of the library.
fn compile_one(
    repo: &Repo,
    headers: &TorchHeaders,
    torch_sys: &Path,
    folder: &Path,
) -> Result<[PathBuf; 2]> {
    let (major, minor) = headers.version;
    let version = format!("{major}.{minor}");
    let mut writer = Command::new("python3");
    // Isolated from the user's packages and environment variables.
    writer.args(["-I", "-c", WRITER]).arg(torch_sys);
    writer.arg(repo.root.join(FUNCTIONS));
    let functions = step::output(&mut writer, "install Python 3, and see the message above")?;
    let compiler = env::var_os("CXX").unwrap_or_else(|| OsString::from("c++"));
    let compiler_version = step::output(Command::new(&compiler).arg("--version"), SEE_ABOVE)?;
    let compiler_version = compiler_version.lines().next().unwrap_or_default();
    // A bridge is compiled again if anything in its source is another, and this is what it was compiled with.
    let source = format!(
        "// {compiler_version} {} {}\n// {}\n{functions}",
        OPTIONS.join(" "),
        standard(headers.version),
        headers.include.display()
    );
    let (file, bridge) = (
        folder.join(format!("torch-{version}.cpp")),
        folder.join(format!("torch-{version}.so")),
    );
    if bridge.exists() && fs::read_to_string(&file).is_ok_and(|existing| existing == source) {
        return Ok([file, bridge]);
    }
    step::announce(&format!("compiling the bridge to libtorch {version}"));
    let staged = folder.join(format!("torch-{version}.partial"));
    let temporary = staged.with_extension("cpp.partial");
    write(&temporary, &source)?;
    let mut command = Command::new(compiler);
    command.args(OPTIONS).arg(standard(headers.version));
    let api = headers.include.join("torch/csrc/api/include");
    for folder in [torch_sys, &headers.include, &api] {
        command.arg("-isystem").arg(folder);
    }
    command
        .args(["-x", "c++"])
        .arg(&temporary)
        .arg("-o")
        .arg(&staged);
    step::run(&mut command, SEE_ABOVE)?;
    rename(&staged, &bridge)?;
    rename(&temporary, &file)?;
    Ok([file, bridge])
}

/// Returns the option for the version of C++ that the headers of a PyTorch need.
fn standard(version: (u32, u32)) -> &'static str {
    match version < (2, 14) {
        true => "-std=c++17",
        false => "-std=c++20",
    }
}

/// Returns the folder with the C functions of the package `torch-sys`.
fn torch_sys(repo: &Repo) -> Result<PathBuf> {
    let mut cargo = repo.plain_cargo("metadata");
    cargo.args(["--locked", "--format-version", "1"]);
    cargo.args(["--filter-platform", crate::repo::NATIVE]);
    let said = step::output(&mut cargo, "see Cargo's message above")?;
    let metadata: serde_json::Value = serde_json::from_str(&said).context("Cargo's metadata")?;
    let packages = metadata["packages"].as_array();
    let manifest = packages
        .into_iter()
        .flatten()
        .find(|package| package["name"] == "torch-sys")
        .and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.context("the workspace has no package torch-sys")?;
    Ok(Path::new(manifest).with_file_name("libtch"))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to)
        .with_context(|| format!("cannot move {} to {}", from.display(), to.display()))
}
