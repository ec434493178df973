//! The wheel: the programs and the Python package in one file that pip installs.
//!
//! Cargo builds everything that is native in it, with what the workspace has compiled anyway; the package beside it is
//! plain Python. `wheel pack` of the Python Packaging Authority makes the archive and its list of contents.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::Repo;
use crate::{bench, build, setup, step};

/// The name of the distribution, as pip has it.
const NAME: &str = "pbg-host";
/// As files have it.
const STEM: &str = "pbg_host";
/// Python from 3.10 on, by its stable interface; any Linux whose C library is at least as new as the one here.
const PYTHON_TAG: &str = "cp310-abi3";
/// The first Python that has all of that interface that is used.
const PYTHON: &str = ">=3.10";
/// The PyTorch whose libtorch `setup` installs.
const TORCH: &str = "torch==2.11.0";

/// What authors of plugins in Python import.
const SDK: &str = "pbg_plugin";
/// What makes components of them.
const COMPONENTIZE: &str = "componentize-py==0.25.1";

/// What is native, by its name in Cargo's build folder and in the wheel.
const EXTENSIONS: [(&str, &str); 2] = [
    ("libpbg_python.so", "_native.abi3.so"),
    ("libpbg_python_torch.so", "_native_torch.abi3.so"),
];

/// Builds everything, and the wheel; `tested` also tests it, and `pbg` with models of PBG itself.
pub(crate) fn run(repo: &Repo, tested: bool, pbg: bool) -> Result<()> {
    build::run(repo)?;
    extensions(repo)?;
    let wheel = pack(repo)?;
    println!("{}", wheel.display());
    if pbg {
        bench::install(repo)?;
    }
    if tested {
        test(repo, &wheel)?;
    }
    Ok(())
}

/// Builds the native halves of the package.
pub(crate) fn extensions(repo: &Repo) -> Result<()> {
    let mut cargo = repo.cargo("build");
    cargo.args([
        "--release",
        "--package",
        "pbg-python",
        "--package",
        "pbg-python-torch",
    ]);
    step::run(&mut cargo, "see the compiler's message above")
}

/// Puts together what was built.
pub(crate) fn pack(repo: &Repo) -> Result<PathBuf> {
    let python = setup::packing_python(repo)?;
    let folder = repo.target.join("wheel");
    remove(&folder)?;
    let version = env!("CARGO_PKG_VERSION");
    let tree = folder.join(format!("{STEM}-{version}"));
    let package = tree.join(STEM);
    step::announce("packing the wheel");
    copy_package(&repo.root.join("host/python/package").join(STEM), &package)?;
    // Orders that are functions of Python get what plugins in Python get.
    let sdk = repo.root.join("plugins/sdk-python").join(SDK);
    copy_package(&sdk, &tree.join(SDK))?;
    for (built, name) in EXTENSIONS {
        stripped(
            &repo.target.join("release").join(built),
            &package.join(name),
        )?;
    }
    let scripts = tree.join(format!("{STEM}-{version}.data/scripts"));
    program(repo, "pbg-host", &scripts)?;
    // The script of this name looks for libtorch, and becomes it.
    program(repo, "pbg-host-torch", &package.join("_bin"))?;
    metadata(
        repo,
        &tree.join(format!("{STEM}-{version}.dist-info")),
        version,
    )?;
    let mut pack = Command::new(python);
    pack.args(["-m", "wheel", "pack"])
        .arg(&tree)
        .arg("--dest-dir")
        .arg(&folder);
    step::output(&mut pack, "see the message above")?;
    let tag = tag()?;
    let wheel = folder.join(format!("{STEM}-{version}-{tag}.whl"));
    if !wheel.is_file() {
        bail!("`wheel pack` has not made {}", wheel.display());
    }
    fs::remove_dir_all(&tree).with_context(|| format!("cannot remove {}", tree.display()))?;
    Ok(wheel)
}

/// What the tests of the package need besides: the libraries that it works with, and those that check it.
const FOR_TESTS: [&str; 13] = [
    COMPONENTIZE,
    "h5py",
    "ipykernel",
    "matplotlib",
    "mypy",
    "nbclient",
    "optuna",
    "pandas",
    "polars",
    "pyarrow",
    "pytest",
    "pytest-xdist",
    "tqdm",
];

/// Installs the wheel into a fresh environment, and runs the tests of the package there.
pub(crate) fn test(repo: &Repo, wheel: &Path) -> Result<()> {
    let folder = repo.target.join("wheel/environment");
    step::announce(&format!("installing it into {}", repo.short(&folder)));
    let wheel = wheel
        .to_str()
        .context("the path of the wheel is not Unicode")?;
    let mut packages = vec![wheel];
    packages.extend(FOR_TESTS);
    let what_to_do = "install Python 3 with venv and pip, and see the message above";
    setup::environment(&folder, &packages, what_to_do)?;
    let python = folder.join("bin/python");
    let tests = repo.root.join("tests/python");
    let both = ["--package", STEM, "--package", SDK];
    for checked in [&both[..], &[".", "../../examples/python"]] {
        let mut mypy = Command::new(&python);
        mypy.args(["-m", "mypy", "--config-file", "mypy.ini", "--cache-dir"]);
        mypy.arg(repo.target.join("wheel/mypy")).args(checked);
        step::run(mypy.current_dir(&tests), "see the messages above")?;
    }
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]);
    // Building components and running notebooks take one core each.
    pytest.args(["--numprocesses", "2", "--dist", "loadfile"]);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    // The program is the wheel's.
    pytest.env("PATH", with_first(&folder.join("bin"))?);
    pytest.env("PBG_TEST_LIBTORCH", repo.libtorch.join("lib"));
    // Where it was installed: by `--pbg`, or for a comparison.
    let pbg = bench::pbg_python(repo);
    if pbg.exists() {
        pytest.env("PBG_TEST_PBG", pbg);
    }
    step::run(
        pytest.arg(&tests).current_dir(&folder),
        "see the messages above",
    )
}

/// `PATH` with another folder before the others.
fn with_first(folder: &Path) -> Result<OsString> {
    let others = env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()]
        .into_iter()
        .chain(env::split_paths(&others));
    env::join_paths(folders).context("PATH")
}

/// The sources of the package, and nothing that Python or checkers have left there.
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

/// A copy without the names of functions, which are a quarter of a program.
fn stripped(from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new("strip");
    strip.arg("--strip-unneeded").arg(from).arg("-o").arg(to);
    step::run(
        &mut strip,
        "install binutils, which has `strip`, and build before",
    )
}

/// What pip reads.
fn metadata(repo: &Repo, folder: &Path, version: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let readme = fs::read_to_string(repo.root.join("docs/python.md")).context("docs/python.md")?;
    let metadata = format!(
        "Metadata-Version: 2.1\n\
         Name: {NAME}\n\
         Version: {version}\n\
         Summary: Trains embeddings of graphs larger than memory, with strategies as sandboxed components\n\
         License: MIT OR Apache-2.0\n\
         Requires-Python: {PYTHON}\n\
         Requires-Dist: numpy\n\
         Provides-Extra: torch\n\
         Requires-Dist: {TORCH}; extra == \"torch\"\n\
         Provides-Extra: build\n\
         Requires-Dist: {COMPONENTIZE}; extra == \"build\"\n\
         Provides-Extra: pbg\n\
         Requires-Dist: h5py; extra == \"pbg\"\n\
         Requires-Dist: pyarrow; extra == \"pbg\"\n\
         Provides-Extra: frames\n\
         Requires-Dist: pandas; extra == \"frames\"\n\
         Requires-Dist: pyarrow; extra == \"frames\"\n\
         Requires-Dist: tqdm; extra == \"frames\"\n\
         Description-Content-Type: text/markdown\n\n{readme}"
    );
    let wheel = format!(
        "Wheel-Version: 1.0\nGenerator: cargo-xtask\nRoot-Is-Purelib: false\nTag: {}\n",
        tag()?
    );
    let scripts = format!("[console_scripts]\npbg-host-torch = {STEM}._torch:main\n");
    for (name, text) in [
        ("METADATA", metadata),
        ("WHEEL", wheel),
        ("entry_points.txt", scripts),
    ] {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(repo.root.join(name), folder.join(name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

/// The tag of what was built here: it needs a C library as new as this machine's.
fn tag() -> Result<String> {
    let mut getconf = Command::new("getconf");
    getconf.arg("GNU_LIBC_VERSION");
    let said = step::output(&mut getconf, "build on a Linux with the GNU C library")?;
    let version = said.split_whitespace().last().unwrap_or_default();
    let (major, minor) = version
        .split_once('.')
        .with_context(|| format!("{said:?} is no version of the C library"))?;
    Ok(format!("{PYTHON_TAG}-manylinux_{major}_{minor}_x86_64"))
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
