//! Trials of what was built on the systems that it is for: Debian in a folder, with its own C library and Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use xtask::repo::Repo;
use xtask::step;

use super::archive::{copy, create, remove};
use super::libtorch;
use super::target::DistTarget;
use super::zig::Zig;

/// What was built for a target.
pub(super) struct Built {
    pub(super) target: DistTarget,
    pub(super) wheel: PathBuf,
    pub(super) archive: PathBuf,
    /// Name of the archive without its ending, which is that of its folder.
    pub(super) name: String,
}

/// Debian releases with their own C library and Python: 2.31 and 3.9, 2.36 and 3.11.
const DEBIAN: [&str; 2] = ["bullseye", "bookworm"];

/// Packages whose tests are run on another processor, since they have code for processors of one kind.
const PACKAGES: [&str; 3] = ["pbg-gemm", "pbg-rows", "pbg-kernels"];

const SEE_ABOVE: &str = "see the messages above";
const PROGRAM_TRIAL: &str = include_str!("trial.sh");
const PACKAGE_TRIAL: &str = include_str!("trial.py");

/// Tries what was built, and returns a line about each trial that was not possible.
///
/// # Errors
/// When a trial was possible and failed.
pub(super) fn run(repo: &Repo, zig: &Zig, built: &Built) -> Result<Vec<String>> {
    match built.target {
        DistTarget::X86_64 => {
            let mut untested = Vec::new();
            for suite in DEBIAN {
                untested.extend(in_debian(repo, zig, built, suite)?);
            }
            Ok(untested)
        }
        DistTarget::Aarch64 => {
            if let Some(reason) = emulated()? {
                return Ok(vec![format!("nothing of {} was run: {reason}", built.name)]);
            }
            let untested = in_debian(repo, zig, built, "bookworm")?;
            if untested.is_none() {
                unit_tests(repo, zig)?;
            }
            Ok(untested.into_iter().collect())
        }
        DistTarget::Macos => Ok(vec![format!(
            "nothing of {} was run: it was linked for macOS, which this machine is not",
            built.name
        )]),
    }
}

/// Tries program and package in a folder with Debian. Returns the reason if that is not possible.
fn in_debian(repo: &Repo, zig: &Zig, built: &Built, suite: &str) -> Result<Option<String>> {
    let machine = match built.target {
        DistTarget::Aarch64 => "arm64",
        _ => "amd64",
    };
    let root = match debian(&zig.cross, suite, machine)? {
        Ok(root) => root,
        Err(reason) => {
            return Ok(Some(format!(
                "{} was not tried on Debian {suite}: {reason}",
                built.name
            )));
        }
    };
    step::announce(&format!(
        "trying {} on Debian {suite}, {machine}",
        built.name
    ));
    let inside = root.join("tmp/pbg-dist");
    remove(&inside)?;
    create(&inside)?;
    fs::write(inside.join("trial.sh"), PROGRAM_TRIAL).context("trial.sh")?;
    fs::write(inside.join("trial.py"), PACKAGE_TRIAL).context("trial.py")?;
    let wheel = built.wheel.file_name().context("a wheel has a name")?;
    copy(&built.wheel, &inside.join(wheel))?;
    let mut tar = Command::new("tar");
    tar.arg("-xzf").arg(&built.archive).arg("-C").arg(&inside);
    step::run(&mut tar, "GNU tar and gzip are needed")?;

    let program = format!("/tmp/pbg-dist/{}/pbg-host", built.name);
    step::run(enter(&root).args(["sh", "trial.sh", &program]), SEE_ABOVE)?;
    if built.target == DistTarget::X86_64 {
        fs::write(inside.join("libtorch.sh"), libtorch::TRIAL).context("libtorch.sh")?;
        let versions = libtorch::copy_into(repo, &inside)?;
        let folders = versions.iter().map(|name| format!("/tmp/pbg-dist/{name}"));
        let mut compute = enter(&root);
        compute.args(["sh", "libtorch.sh", &program]).args(folders);
        step::run(&mut compute, SEE_ABOVE)?;
    }
    import(&root, &inside, &built.wheel, is_emulated(machine))?;
    Ok(None)
}

/// Installs the wheel in the system below `root`, and tries the package and the installed program.
fn import(root: &Path, inside: &Path, wheel: &Path, emulated: bool) -> Result<()> {
    let (path, program) = match emulated {
        false => {
            let mut pip = enter(root);
            pip.env("PIP_BREAK_SYSTEM_PACKAGES", "1")
                .env("PIP_ROOT_USER_ACTION", "ignore");
            pip.args([
                "python3",
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-index",
                "--force-reinstall",
                "--no-deps",
            ]);
            step::run(pip.arg(wheel.file_name().unwrap_or_default()), SEE_ABOVE)?;
            ("PYTHONPATH=", "pbg-host")
        }
        true => {
            pip_for_arm(wheel, &inside.join("packages"))?;
            ("PYTHONPATH=/tmp/pbg-dist/packages", "packages/bin/pbg-host")
        }
    };
    step::run(
        enter(root).args(["env", path, "python3", "trial.py"]),
        SEE_ABOVE,
    )?;
    step::run(enter(root).args([program, "--version"]), SEE_ABOVE)
}

/// Returns whether programs for a machine, as Debian names it, are run by an emulator.
fn is_emulated(machine: &str) -> bool {
    cfg!(target_arch = "x86_64") && machine == "arm64"
}

/// Installs the wheel and NumPy into a folder for 64-bit Arm with this machine's pip, which knows the tags of others. An
/// emulated pip would be slow.
fn pip_for_arm(wheel: &Path, packages: &Path) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.env("PIP_ROOT_USER_ACTION", "ignore");
    pip.args([
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--only-binary=:all:",
    ]);
    pip.args([
        "--python-version=3.11",
        "--implementation=cp",
        "--abi=cp311",
        "--abi=abi3",
    ]);
    for tag in [
        "manylinux_2_28",
        "manylinux_2_27",
        "manylinux_2_17",
        "manylinux2014",
    ] {
        pip.arg(format!("--platform={tag}_aarch64"));
    }
    pip.arg("--target").arg(packages).arg(wheel);
    step::run(&mut pip, "install Python 3 with pip")
}

/// Returns a command in `/tmp/pbg-dist` of the system below `root`, whose processes see their own `/proc`.
fn enter(root: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c"]);
    command.arg("mount -t proc proc \"$0/proc\" && root=$0 && exec chroot \"$root\" sh -c 'cd /tmp/pbg-dist && exec \"$@\"' sh \"$@\"");
    command.arg(root);
    command
        .env("LC_ALL", "C")
        .env("PBG_HOST_CACHE", "/tmp/pbg-dist/cache")
        .env_remove("TMPDIR");
    command
}

/// Returns a folder with Debian, which is made if it is missing; the reason if it cannot be made.
fn debian(cross: &Path, suite: &str, machine: &str) -> Result<Result<PathBuf, String>> {
    if !is_root() {
        return Ok(Err("only root can change the root folder".to_owned()));
    }
    let root = cross.join(format!("chroots/{suite}-{machine}"));
    if root.exists() {
        return Ok(Ok(root));
    }
    if let Some(reason) = install("debootstrap", "debootstrap") {
        return Ok(Err(reason));
    }
    step::announce(&format!(
        "installing Debian {suite}, {machine}, into a folder (some minutes)"
    ));
    let partial = root.with_extension("partial");
    remove(&partial)?;
    create(partial.parent().context("a folder")?)?;
    let mut command = Command::new("debootstrap");
    let packages = match is_emulated(machine) {
        true => "--include=python3",
        false => "--include=python3,python3-numpy,python3-pip",
    };
    command.args(["--variant=minbase", packages, "--arch", machine, suite]);
    if let Err(error) = step::output(command.arg(&partial), "see its log") {
        let said = format!("{error:#}");
        let last = said.lines().rev().find(|line| line.starts_with("E:"));
        return Ok(Err(format!(
            "debootstrap failed: {}",
            last.unwrap_or("see its log")
        )));
    }
    fs::rename(&partial, &root).with_context(|| format!("cannot name {}", root.display()))?;
    Ok(Ok(root))
}

/// Makes programs for 64-bit Arm run on this machine. Returns the reason if that is not possible.
fn emulated() -> Result<Option<String>> {
    const FORMATS: &str = "/proc/sys/fs/binfmt_misc";
    const FORMAT: &str = "/usr/lib/binfmt.d/qemu-aarch64.conf";
    if cfg!(target_arch = "aarch64") || Path::new(FORMATS).join("qemu-aarch64").exists() {
        return Ok(None);
    }
    if !is_root() {
        return Ok(Some(
            "the kernel does not know how to run programs for 64-bit Arm; install qemu-user-static"
                .to_owned(),
        ));
    }
    if let Some(reason) = install("qemu-aarch64-static", "qemu-user-static") {
        return Ok(Some(reason));
    }
    let register = Path::new(FORMATS).join("register");
    if !register.exists() {
        step::succeeds(Command::new("mount").args(["-t", "binfmt_misc", "binfmt_misc", FORMATS]));
    }
    if Path::new(FORMATS).join("qemu-aarch64").exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(FORMAT).with_context(|| format!("cannot read {FORMAT}"))?;
    let line = text.lines().find(|line| line.starts_with(':'));
    let line = line.with_context(|| format!("{FORMAT} has no format"))?;
    let written = fs::write(&register, line);
    Ok(written.err().map(|error| {
        format!("the kernel does not accept the format of programs for 64-bit Arm: {error}")
    }))
}

/// Runs the tests of the packages with code for one kind of processor, for 64-bit Arm.
fn unit_tests(repo: &Repo, zig: &Zig) -> Result<()> {
    step::announce(&format!(
        "running the tests of {} for aarch64",
        PACKAGES.join(", ")
    ));
    let mut cargo = repo.plain_cargo("test");
    zig.arrange(&mut cargo, DistTarget::Aarch64);
    for package in PACKAGES {
        cargo.args(["--package", package]);
    }
    cargo.args(["--lib", "--tests", "--no-fail-fast"]);
    let libraries = zig.cross.join("chroots/bookworm-arm64");
    let runner = format!("qemu-aarch64-static -L {}", libraries.display());
    ensure!(
        !runner.contains('\''),
        "the path of the clone has no quotes"
    );
    cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    step::run(&mut cargo, SEE_ABOVE)
}

/// Installs a Debian package unless its program is there. Returns the reason if that is not possible.
fn install(program: &str, package: &str) -> Option<String> {
    let is_there = || step::succeeds(Command::new("which").arg(program));
    if is_there() {
        return None;
    }
    step::announce(&format!("installing the Debian package {package}"));
    for arguments in [
        &["update", "--quiet"][..],
        &[
            "install",
            "--yes",
            "--quiet",
            "--no-install-recommends",
            package,
        ],
    ] {
        let mut apt = Command::new("apt-get");
        step::succeeds(apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"));
    }
    (!is_there()).then(|| format!("the Debian package {package} could not be installed"))
}

fn is_root() -> bool {
    step::output(Command::new("id").arg("-u"), "").is_ok_and(|id| id.trim() == "0")
}
