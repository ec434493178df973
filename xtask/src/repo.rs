//! Folders of the checkout, and Cargo commands with the settings that follow from them.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// The target of native builds; nothing else is supported.
pub(crate) const NATIVE: &str = "x86_64-unknown-linux-gnu";

/// Folders of one checkout.
#[derive(Debug)]
pub struct Repo {
    /// Folder of the workspace's manifest.
    pub root: PathBuf,
    /// Folder of the dependencies that set-up installs, ignored by Git.
    pub deps: PathBuf,
    /// Cargo's build folder.
    pub target: PathBuf,
    /// Folder of libtorch's headers and libraries: in `deps`, or the user's `LIBTORCH`.
    pub libtorch: PathBuf,
}

impl Repo {
    /// Finds the checkout from which this program was started; `deps` is another folder for dependencies.
    pub fn find(deps: Option<PathBuf>) -> Result<Self> {
        let manifest_dir = env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = manifest_dir
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").exists())
            .context("xtask is not in a folder of the repository")?
            .to_owned();
        let deps = match deps {
            Some(deps) => std::path::absolute(deps).context("--deps")?,
            None => root.join(".deps"),
        };
        let user_libtorch = env::var_os("LIBTORCH").filter(|path| !path.is_empty());
        let user_libtorch = user_libtorch.map(std::path::absolute);
        let user_libtorch = user_libtorch.transpose().context("LIBTORCH")?;
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

    /// Returns whether libtorch is installed by set-up, not by the user.
    pub(crate) fn owns_libtorch(&self) -> bool {
        self.libtorch == self.deps.join("libtorch")
    }

    /// Returns the folder of the bridges to libtorch.
    pub fn bridges(&self) -> PathBuf {
        self.deps.join("torch-bridges")
    }

    /// Returns the folder of the standard plugins' components, where the build script that embeds them expects them.
    pub(crate) fn plugins(&self) -> PathBuf {
        self.target.join("plugins")
    }

    /// Returns the path of the program `pbg-host`.
    pub fn program(&self) -> PathBuf {
        self.target.join("release/pbg-host")
    }

    /// Returns a command that runs the program `pbg-host`, which finds libtorch.
    pub fn run_program(&self) -> Command {
        let mut program = Command::new(self.program());
        self.name_libtorch(&mut program);
        program
    }

    /// Returns a Cargo command in the repository, with the settings for building.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = self.plain_cargo(subcommand);
        self.name_libtorch(&mut cargo);
        cargo
    }

    /// Returns a maturin command in the repository. Its Cargo has the settings of this one's, so that it compiles only its
    /// own library again.
    pub(crate) fn maturin(&self, program: PathBuf, subcommand: &str) -> Command {
        let mut maturin = self.command_for_cargo(program, subcommand);
        // The same as in `.cargo/config.toml`; maturin would set another one.
        maturin.env(
            "PYO3_CONFIG_FILE",
            self.root.join("host/python/pyo3-config.txt"),
        );
        maturin
    }

    /// Returns a Cargo command in the repository, without the environment variables about xtask that Cargo has set for
    /// this program.
    pub fn plain_cargo(&self, subcommand: &str) -> Command {
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        self.command_for_cargo(cargo.into(), subcommand)
    }

    fn command_for_cargo(&self, program: PathBuf, subcommand: &str) -> Command {
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
            // A relative path was relative to the folder in which this program was started.
            cargo.env("CARGO_TARGET_DIR", &self.target);
        }
        cargo.current_dir(&self.root).arg(subcommand);
        cargo
    }

    /// Tells programs and tests where libtorch is, if they do not find it from a build folder directly below the
    /// repository.
    pub fn name_libtorch(&self, command: &mut Command) {
        if let Some(variables) = self.libtorch_variables() {
            command.envs(variables);
        }
    }

    /// Returns the environment variables with which programs find libtorch, unless they find it without.
    pub(crate) fn libtorch_variables(&self) -> Option<[(&'static str, PathBuf); 2]> {
        let is_usual = self.target.parent() == Some(&self.root)
            && self.libtorch == self.root.join(".deps/libtorch");
        (!is_usual).then(|| {
            [
                ("PBG_HOST_LIBTORCH", self.libtorch.join("lib")),
                ("PBG_HOST_TORCH_BRIDGES", self.bridges()),
            ]
        })
    }

    /// Returns `path` relative to the repository's folder, for messages.
    pub fn short<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}
