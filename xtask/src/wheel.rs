//! Wheel with the programs and the Python package, to be installed by pip.
//!
//! maturin makes it from `host/python/pyproject.toml`. It builds one library; the other native files of the wheel are
//! built before, by the same Cargo in the same folder, and passed to maturin as data files.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::repo::Repo;
use crate::test::scratch::TestScratch;
use crate::{build, setup, step};

/// Python package.
const PACKAGE: &str = "pbg_host";
/// Python package for authors of plugins.
const SDK: &str = "pbg_plugin";
/// Package that makes components of Python plugins, with the same version as in `host/python/pyproject.toml`.
const COMPONENTIZE: &str = "componentize-py==0.25.1";

/// Cargo package of the library with libtorch. Building it also builds everything that the other library consists of.
pub(crate) const EXTENSION: &str = "pbg-python-torch";
/// Name of the library with libtorch in Cargo's build folder, and in the package.
const WITH_TORCH: (&str, &str) = ("libpbg_python_torch.so", "_native_torch.abi3.so");

/// Builds everything and the wheel. `tested` also tests it; `pbg` also tests with models of PBG itself.
pub(crate) fn run(repo: &Repo, tested: bool, pbg: bool) -> Result<()> {
    build::run(repo)?;
    extension(repo)?;
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

/// Builds the native library of the package with libtorch.
fn extension(repo: &Repo) -> Result<()> {
    let mut cargo = repo.cargo("build");
    cargo.args(["--release", "--package", EXTENSION]);
    step::run(&mut cargo, "see the compiler's message above")
}

/// Packs the built files into the wheel and returns its path.
pub(crate) fn pack(repo: &Repo) -> Result<PathBuf> {
    let program = setup::maturin(repo)?;
    let folder = repo.target.join("wheel");
    remove(&folder)?;
    step::announce("packing the wheel");
    copy_data_files(repo)?;
    let mut maturin = repo.maturin(program, "build");
    maturin.args(["--quiet", "--release", "--compatibility", &platform()?]);
    maturin.args(["--manifest-path", "host/python/Cargo.toml", "--out"]);
    step::run(maturin.arg(&folder), "see the message above")?;
    let made = fs::read_dir(&folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    made.with_context(|| format!("maturin has left no wheel in {}", folder.display()))
}

/// Fills the folder `data` of `host/python/pyproject.toml` with files that pip installs next to the package, and the
/// programs.
fn copy_data_files(repo: &Repo) -> Result<()> {
    // The path is relative to the manifest, independent of Cargo's build folder.
    let data = repo.root.join("target/wheel/data");
    remove(&data)?;
    let packages = data.join("platlib");
    let package = packages.join(PACKAGE);
    // Orders that are Python functions use the same SDK as plugins in Python.
    let sdk = repo.root.join("plugins/sdk-python").join(SDK);
    copy_package(&sdk, &packages.join(SDK))?;
    fs::create_dir_all(&package).with_context(|| format!("cannot create {}", package.display()))?;
    let (built, name) = WITH_TORCH;
    stripped(
        &repo.target.join("release").join(built),
        &package.join(name),
    )?;
    program(repo, "pbg-host", &data.join("scripts"))?;
    // The script of the same name looks for libtorch and executes this program.
    program(repo, "pbg-host-torch", &package.join("_bin"))
}

const SEE_ABOVE: &str = "see the messages above";
const FOR_PIP: &str = "install Python 3 with venv and pip, and see the message above";

/// Additional packages for the tests: libraries that the package supports, and test tools.
const FOR_TESTS: [&str; 15] = [
    COMPONENTIZE,
    "h5py",
    "ipykernel",
    "matplotlib",
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
    "tqdm",
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

fn program(repo: &Repo, name: &str, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let to = folder.join(name);
    stripped(&repo.program().with_file_name(name), &to)?;
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

/// Returns the platform tag of the build, which needs a C library at least as new as this machine's.
fn platform() -> Result<String> {
    let mut getconf = Command::new("getconf");
    getconf.arg("GNU_LIBC_VERSION");
    let said = step::output(&mut getconf, "build on a Linux with the GNU C library")?;
    let version = said.split_whitespace().last().unwrap_or_default();
    let (major, minor) = version
        .split_once('.')
        .with_context(|| format!("{said:?} is not a version of the C library"))?;
    Ok(format!("manylinux_{major}_{minor}"))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
