//! Zig as the C compiler and the linker for other systems: it has the headers and the symbols of every version of the
//! GNU C library, and of macOS's system library.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask::repo::Repo;
use xtask::{setup, step};

use super::archive::create;
use super::target::{DistTarget, MACOS};

/// Packages from PyPI with their checksums. cargo-zigbuild translates the compiler's arguments for Zig.
const PACKAGES: [(&str, &str); 2] = [
    (
        "ziglang==0.17.1",
        "ea6cc5d87b033cf0aedfbc8f9549a908cae6c50ac31f1698188fa48a74524b54",
    ),
    (
        "cargo-zigbuild==0.24.0",
        "484412e39e4c6039474535ce97ee75a22bab22d58233056f8ec8a8f9034bb957",
    ),
];

/// Version of Zig, whose libraries for unwinding and for arithmetic are linked into what is built.
pub(super) const VERSION: &str = "0.17.1";

/// Frameworks of macOS that packages use, which Zig lacks: the names that are linked.
const FRAMEWORKS: [(&str, &str); 2] = [
    (
        "CoreFoundation",
        include_str!("frameworks/CoreFoundation.tbd"),
    ),
    ("Security", include_str!("frameworks/Security.tbd")),
];

/// Installed compilers for other systems.
pub(super) struct Zig {
    /// Build folder of what is for other systems.
    pub(super) cross: PathBuf,
    wrappers: PathBuf,
    root: PathBuf,
}

impl Zig {
    /// Installs Zig into `.deps` if it is missing, and Rust's library for `targets`.
    pub(super) fn install(repo: &Repo, targets: &[DistTarget]) -> Result<Self> {
        let _lock = setup::lock(repo)?;
        let tools = repo.deps.join("zig");
        let python = tools.join("bin/python");
        if !step::succeeds(Command::new(&python).args(["-m", "ziglang", "version"]))
            || !tools.join("bin/cargo-zigbuild").exists()
        {
            install_packages(repo, &tools)?;
        }
        for target in targets {
            add_target(target.triple())?;
        }
        let cross = repo.target.join("cross");
        let zig = Self {
            wrappers: cross.join("wrappers"),
            cross,
            root: repo.root.clone(),
        };
        zig.write_wrappers(&tools)?;
        Ok(zig)
    }

    /// Writes programs that Cargo and C build scripts call like a compiler for one target. Their paths are part of what
    /// Cargo compares, so Cargo and maturin use the same.
    fn write_wrappers(&self, tools: &Path) -> Result<()> {
        create(&self.wrappers)?;
        let (python, zigbuild) = (
            quoted(&tools.join("bin/python")),
            quoted(&tools.join("bin/cargo-zigbuild")),
        );
        let cache = quoted(&self.cross.join("zig"));
        let beginning =
            format!("#!/bin/sh\nexport ZIG_GLOBAL_CACHE_DIR={cache} ZIG_LOCAL_CACHE_DIR={cache}\n");
        let frameworks = self.cross.join("frameworks");
        for (name, text) in FRAMEWORKS {
            let folder = frameworks.join(format!("{name}.framework"));
            create(&folder)?;
            let path = folder.join(format!("{name}.tbd"));
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        for target in DistTarget::ALL {
            let frameworks = match target {
                DistTarget::Macos => format!("-F{} ", quoted(&frameworks)),
                _ => String::new(),
            };
            for mode in ["cc", "c++"] {
                let text = format!(
                    "{beginning}export CARGO_ZIGBUILD_ZIG_VERSION={VERSION} CARGO_ZIGBUILD_ZIG_COMMAND_ARGS='-m ziglang'\n\
                     export CARGO_ZIGBUILD_ZIG_COMMAND={python}\n\
                     exec {zigbuild} zig {mode} -- -g -fno-sanitize=all -target {} {frameworks}\"$@\"\n",
                    target.zig()
                );
                write_program(&self.wrapper(target, mode), &text)?;
            }
        }
        for tool in ["ar", "ranlib"] {
            let text = format!("{beginning}exec {python} -m ziglang {tool} \"$@\"\n");
            write_program(&self.wrappers.join(tool), &text)?;
        }
        Ok(())
    }

    fn wrapper(&self, target: DistTarget, name: &str) -> PathBuf {
        self.wrappers.join(format!("{}-{name}", target.triple()))
    }

    /// Lets a command of Cargo, or of a program that starts Cargo, build for `target` with the profile `dist`.
    pub(super) fn arrange(&self, command: &mut Command, target: DistTarget) {
        command.args([
            "--profile",
            "dist",
            "--target",
            target.triple(),
            "--target-dir",
        ]);
        command.arg(&self.cross);
        let under = target.triple().replace('-', "_");
        let compiler = self.wrapper(target, "cc");
        command.env(
            format!("CARGO_TARGET_{}_LINKER", under.to_uppercase()),
            &compiler,
        );
        command.env(format!("CC_{under}"), &compiler);
        command.env(format!("CXX_{under}"), self.wrapper(target, "c++"));
        for (name, tool) in [("AR", "ar"), ("RANLIB", "ranlib")] {
            command.env(format!("{name}_{under}"), self.wrappers.join(tool));
        }
        if target == DistTarget::Macos {
            command.env("MACOSX_DEPLOYMENT_TARGET", MACOS.to_string());
        }
        // Messages of panics name source files: without the folders of this machine, two machines build the same.
        let mut flags = Vec::new();
        for (from, to) in [
            (cargo_home(), "/cargo"),
            (Some(self.root.clone()), "/pbg-host"),
        ] {
            if let Some(from) = from {
                flags.push(format!("--remap-path-prefix={}={to}", from.display()));
            }
        }
        command.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    }
}

fn cargo_home() -> Option<PathBuf> {
    let usual = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(usual)
}

fn install_packages(repo: &Repo, tools: &Path) -> Result<()> {
    let names = PACKAGES.map(|(name, _)| name).join(" and ");
    step::announce(&format!(
        "installing {names} into {} with pip (100 MB)",
        repo.short(tools)
    ));
    let list = repo.deps.join("zig.txt");
    let lines = PACKAGES.map(|(name, sha256)| format!("{name} --hash=sha256:{sha256}\n"));
    fs::write(&list, lines.concat()).with_context(|| format!("cannot write {}", list.display()))?;
    let list = list.to_string_lossy();
    let what_to_do = format!(
        "install Python 3 with venv and pip on Linux, x86-64, then create a virtual environment in {} with {names}",
        tools.display()
    );
    setup::environment(
        tools,
        &["--require-hashes", "--no-deps", "--requirement", &list],
        &what_to_do,
    )
}

/// Adds Rust's library for a target with rustup if it is missing.
fn add_target(triple: &str) -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", triple]);
    let what_to_do = "install Rust with rustup (https://rustup.rs)";
    let folder = step::output(&mut rustc, what_to_do)?;
    if fs::read_dir(folder.trim()).is_ok_and(|mut entries| entries.next().is_some()) {
        return Ok(());
    }
    step::announce(&format!(
        "adding the compilation target {triple} with rustup"
    ));
    step::run(
        Command::new("rustup").args(["target", "add", triple]),
        what_to_do,
    )
}

fn write_program(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    fs::write(path, text).with_context(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(failed)
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_package() {
        assert!(PACKAGES[0].0.ends_with(&format!("=={VERSION}")));
    }

    #[test]
    fn paths_are_quoted_for_a_shell() {
        let path = Path::new("/a folder/it's");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("printf %s {}", quoted(path)));
        let said = step::output(&mut shell, "").unwrap();
        assert_eq!(Path::new(&said), path);
    }
}
