//! Tests and measurements on a GPU (`benches/gpu.sh`), on this machine or on another one without a compiler.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use xtask::repo::Repo;
use xtask::{build, step};

const SCRIPT: &str = "benches/gpu.sh";
/// Configurations that the script trains.
const CONFIGS: [&str; 3] = [
    "fb15k237_pbg.toml",
    "fb15k237_pbg_partitioned.toml",
    "fb15k237_complex_n3.toml",
];
/// Tests that compare a GPU with the cores and with PBG: package, its kind of tests, and name of the test program.
const TESTS: [(&str, &str, &str); 3] = [
    ("pbg-torch", INTEGRATION, "kernels"),
    ("pbg-library-tests", INTEGRATION, "libraries"),
    ("pbg-torch", UNIT, "torch"),
];
/// Cargo's options for the kinds of tests.
const INTEGRATION: &str = "--tests";
const UNIT: &str = "--lib";

/// Options of the tests on a GPU.
#[derive(Debug, clap::Args)]
pub(crate) struct GpuArgs {
    /// Pack everything into this .tar.xz for another machine instead of running it here.
    #[arg(long, value_name = "FILE")]
    pack: Option<PathBuf>,
    /// Also train FB15k-237 from this folder, which has train.tsv.gz, valid.tsv.gz and test.tsv.gz.
    #[arg(long, value_name = "FOLDER", conflicts_with = "pack")]
    fb15k: Option<PathBuf>,
}

/// Builds, collects the files that the script needs in target/gpu, and runs or packs it.
pub(crate) fn run(repo: &Repo, args: &GpuArgs) -> Result<()> {
    build::run(repo)?;
    step::announce("building the tests that compare a GPU with the cores");
    let tests = TESTS.map(|(package, kind, name)| Ok((compiled(repo, package, kind)?, name)));
    let tests = tests.into_iter().collect::<Result<Vec<_>>>()?;
    let folder = repo.target.join("gpu");
    step::announce("collecting files in target/gpu");
    collect_files(repo, &folder, &tests)?;
    match &args.pack {
        Some(file) => pack(&folder, file),
        None => {
            step::announce("testing and measuring the GPU");
            let mut script = Command::new(folder.join("run.sh"));
            script.args(&args.fb15k);
            step::run(&mut script, "see the lines marked FAILED above")
        }
    }
}

/// Builds a test program of a package with tests for GPUs, and returns its path.
fn compiled(repo: &Repo, package: &str, kind: &str) -> Result<PathBuf> {
    let mut cargo = repo.cargo("test");
    cargo.args([
        "--release",
        "--no-run",
        "--message-format=json",
        "-p",
        package,
        kind,
    ]);
    let said = step::output(&mut cargo, "see the compiler's message above")?;
    let mut programs = said.lines().filter_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_library = message["target"]["kind"][0] == "lib";
        let program = message["executable"].as_str()?;
        (is_library == (kind == UNIT)).then(|| PathBuf::from(program))
    });
    let program = programs.next_back();
    program.with_context(|| format!("Cargo reports no test program of {package}"))
}

fn collect_files(repo: &Repo, folder: &Path, tests: &[(PathBuf, &str)]) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    stripped(&repo.program(), &folder.join("bin/pbg-host"))?;
    xtask::wheel::copy_bridges(&repo.bridges(), &folder.join("torch-bridges"))?;
    for (program, name) in tests {
        stripped(program, &folder.join("tests").join(name))?;
    }
    for config in CONFIGS {
        copy(
            &repo.root.join("configs").join(config),
            &folder.join("configs").join(config),
        )?;
    }
    for set in ["train", "valid", "test"] {
        let file = format!("{set}.tsv.gz");
        let edges = repo.root.join("examples/wordnet").join(&file);
        copy(&edges, &folder.join("edges").join(&file))?;
    }
    let vectors = "vectors/pbg_steps.json";
    copy(
        &repo.root.join("tests").join(vectors),
        &folder.join(vectors),
    )?;
    copy(
        &repo.root.join("benches/gpu_speed.toml"),
        &folder.join("speed.toml"),
    )?;
    copy(&repo.root.join(SCRIPT), &folder.join("run.sh"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let copied = fs::copy(from, to);
    copied.with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Copies a program without debug information, which is half of it.
fn stripped(from: &Path, to: &Path) -> Result<()> {
    copy(from, to)?;
    let mut strip = Command::new("strip");
    step::run(strip.arg(to), "install binutils, as for building")
}

fn pack(folder: &Path, file: &Path) -> Result<()> {
    let (parent, name) = (folder.parent(), folder.file_name());
    let (parent, name) = parent
        .zip(name)
        .context("the folder lies in the build folder")?;
    let mut tar = Command::new("tar");
    tar.arg("-cJf").arg(file).arg("-C").arg(parent).arg(name);
    step::run(&mut tar, "tar and xz are needed")?;
    let bytes = fs::metadata(file).with_context(|| format!("{} is gone", file.display()))?;
    ensure!(bytes.len() > 0, "{} is empty", file.display());
    println!(
        "{}, {} MiB. On the machine with the GPU, which needs Python with torch 2.11, run:\n    tar xf {0} && gpu/run.sh",
        file.display(),
        bytes.len() >> 20
    );
    Ok(())
}
