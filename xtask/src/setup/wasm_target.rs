//! Compiler for plugins: rustup's target, or Debian's packages if rustup cannot download it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::repo::{NATIVE, Repo};
use crate::step;

/// Target of plugins.
pub(crate) const TARGET: &str = "wasm32-unknown-unknown";

const PACKAGES: [&str; 3] = ["rustc-web", "cargo-web", "rust-web-src"];

/// Compiler for plugins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WasmToolchain {
    /// The compiler that builds everything else.
    Usual,
    /// Debian's compiler, which compiles the standard library from source and uses this linker.
    Debian { linker: PathBuf },
}

/// Returns the compiler that set-up has chosen.
pub(crate) fn toolchain(repo: &Repo) -> Result<WasmToolchain> {
    if has_target()? || !choice(repo).exists() {
        return Ok(WasmToolchain::Usual);
    }
    let sysroot = step::output(
        Command::new("rustc").args(["--print", "sysroot"]),
        "install Rust with rustup",
    )?;
    let linker = Path::new(sysroot.trim())
        .join("lib/rustlib")
        .join(NATIVE)
        .join("bin/rust-lld");
    Ok(WasmToolchain::Debian { linker })
}

/// Returns the path of the file that marks that this checkout uses Debian's packages.
fn choice(repo: &Repo) -> PathBuf {
    repo.deps.join("wasm-toolchain-debian")
}

fn has_target() -> Result<bool> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    let dir = step::output(&mut rustc, "install Rust with rustup (https://rustup.rs)")?;
    let Ok(entries) = fs::read_dir(dir.trim()) else {
        return Ok(false);
    };
    Ok(entries
        .flatten()
        .any(|entry| entry.file_name().to_string_lossy().starts_with("libcore-")))
}

pub(crate) fn install(repo: &Repo) -> Result<()> {
    if has_target()? || choice(repo).exists() {
        return Ok(());
    }
    step::announce(&format!(
        "adding the compilation target {TARGET} with rustup"
    ));
    let by_rustup = step::run(
        Command::new("rustup").args(["target", "add", TARGET]),
        "see the next step",
    );
    if by_rustup.is_ok() && has_target()? {
        return Ok(());
    }
    if !step::succeeds(Command::new("apt-get").arg("--version")) {
        bail!(
            "the compilation target {TARGET} is missing\nwhat to do: `rustup target add {TARGET}`"
        );
    }
    step::announce(&format!(
        "rustup cannot download it; installing the Debian packages {}",
        PACKAGES.join(", ")
    ));
    let what_to_do = format!(
        "`rustup target add {TARGET}`, or as root `apt-get install --no-install-recommends {}`; then try again",
        PACKAGES.join(" ")
    );
    step::run(
        Command::new("apt-get").args(["update", "--quiet"]),
        &what_to_do,
    )?;
    let mut apt = Command::new("apt-get");
    apt.args(["install", "--yes", "--quiet", "--no-install-recommends"])
        .args(PACKAGES);
    step::run(apt.env("DEBIAN_FRONTEND", "noninteractive"), &what_to_do)?;
    fs::write(choice(repo), "").with_context(|| format!("cannot write {}", choice(repo).display()))
}
