//! Where things are, and Cargo with the settings that follow from that.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The target of native builds; nothing else is supported.
pub(crate) const NATIVE: &str = "x86_64-unknown-linux-gnu";

/// The folders of one checkout.
#[derive(Debug)]
pub(crate) struct Repo {
    /// The folder of the workspace's manifest.
    pub(crate) root: PathBuf,
    /// What set-up installs, ignored by Git.
    pub(crate) deps: PathBuf,
    /// Cargo's build folder.
    pub(crate) target: PathBuf,
    /// Headers and libraries of libtorch: in `deps`, or wherever the user's `LIBTORCH` says.
    pub(crate) libtorch: PathBuf,
}

impl Repo {
    /// The checkout that this program was started from; `deps` moves what set-up installs.
    pub(crate) fn find(deps: Option<PathBuf>) -> Result<Self> {
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = manifest_dir
            .parent()
            .context("xtask is not in a folder of the repository")?
            .to_owned();
        let usual_deps = root.join(".deps");
        let deps = match deps {
            Some(deps) => std::path::absolute(deps).context("--deps")?,
            None => usual_deps.clone(),
        };
        // Cargo's own configuration sets LIBTORCH to the usual place unless the user did.
        let user_libtorch = env::var_os("LIBTORCH")
            .map(PathBuf::from)
            .filter(|path| !path.as_os_str().is_empty() && *path != usual_deps.join("libtorch"));
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => std::path::absolute(dir).context("CARGO_TARGET_DIR")?,
            None => root.join("target"),
        };
        Ok(Self {
            libtorch: user_libtorch.unwrap_or_else(|| deps.join("libtorch")),
            root,
            deps,
            target,
        })
    }

    /// Whether set-up is in charge of libtorch.
    pub(crate) fn owns_libtorch(&self) -> bool {
        self.libtorch == self.deps.join("libtorch")
    }

    /// The components of the standard plugins, where the build script that embeds them looks for them.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.target.join("plugins")
    }

    /// The program that users run.
    pub(crate) fn program(&self) -> PathBuf {
        self.target.join("release/pbg-host")
    }

    /// Cargo in the repository, with the settings for building.
    pub(crate) fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = self.plain_cargo(subcommand);
        self.add_settings(&mut cargo);
        cargo
    }

    /// maturin in the repository, whose Cargo has the same settings, so that it compiles only its own library once more.
    pub(crate) fn maturin(&self, program: PathBuf, subcommand: &str) -> Command {
        let mut maturin = self.starts_cargo(program, subcommand);
        self.add_settings(&mut maturin);
        // As `.cargo/config.toml` has it; maturin would set another one.
        maturin.env(
            "PYO3_CONFIG_FILE",
            self.root.join("host/python/pyo3-config.txt"),
        );
        maturin
    }

    fn add_settings(&self, command: &mut Command) {
        if let Some(rpath) = self.extra_rpath() {
            let flag = format!("-Clink-arg=-Wl,-rpath,{}", rpath.display());
            command.args(["--config", &format!("target.{NATIVE}.rustflags=[{flag:?}]")]);
        }
    }

    /// Cargo in the repository, without what the Cargo that started this program told it about xtask.
    pub(crate) fn plain_cargo(&self, subcommand: &str) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        self.starts_cargo(cargo.into(), subcommand)
    }

    fn starts_cargo(&self, program: PathBuf, subcommand: &str) -> Command {
        let mut cargo = Command::new(program);
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_"]
                .iter()
                .any(|prefix| text.starts_with(prefix))
            {
                cargo.env_remove(&name);
            }
        }
        if env::var_os("CARGO_TARGET_DIR").is_some() {
            // A relative one was relative to where this program was started.
            cargo.env("CARGO_TARGET_DIR", &self.target);
        }
        cargo
            .current_dir(&self.root)
            .env("LIBTORCH", &self.libtorch)
            .arg(subcommand);
        cargo
    }

    /// `.cargo/config.toml` lets programs find `.deps/libtorch` from a build folder directly below the repository.
    /// Other places need their absolute path in the program.
    fn extra_rpath(&self) -> Option<PathBuf> {
        let usual = self.target.parent() == Some(&self.root)
            && self.libtorch == self.root.join(".deps/libtorch");
        (!usual).then(|| self.libtorch.join("lib"))
    }

    /// `path` as one would type it in the repository's folder.
    pub(crate) fn short<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}
