//! From the program without libtorch to the one with it.
//!
//! Most of what is asked of the program needs no libtorch, which takes half a second and a hundred MiB of
//! every start. So `pbg-host` is linked without it. What does need it goes on in the same process as
//! `pbg-host-torch`, the same program with libtorch, which is installed beside it.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pbg_config::Config;
use pbg_core::model::Precision;

use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};

/// The program with libtorch.
const WITH_LIBTORCH: &str = "pbg-host-torch";

/// Goes on with libtorch where `config` asks for what it computes.
///
/// # Errors
/// When the other program cannot be started.
pub(crate) fn for_config(config: &Config) -> Result<()> {
    let execution = &config.execution;
    if execution.precision == Precision::Bf16 {
        return to_libtorch("execution.precision = \"bf16\"", "fp32 does without");
    }
    if execution.device != "cpu" {
        let what = format!("execution.device = {:?}", execution.device);
        return to_libtorch(&what, "\"cpu\" does without");
    }
    Ok(())
}

/// Goes on with libtorch, which `what` needs; `without` says what does not.
///
/// # Errors
/// When the other program cannot be started.
pub(crate) fn to_libtorch(what: &str, without: &str) -> Result<()> {
    if pbg_train::has_libtorch() {
        return Ok(());
    }
    let (place, error) = match beside() {
        Ok(path) => (path.display().to_string(), replace(&path)),
        Err(error) => (WITH_LIBTORCH.to_owned(), error),
    };
    let text = format!("{what} needs libtorch, which is in the program {place}");
    let help = format!(
        "install {WITH_LIBTORCH} beside this program (`cargo xtask build` builds both); {without}"
    );
    Err(Failure::new(Kind::Io, error).context(text).help(help))
}

fn beside() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(WITH_LIBTORCH))
}

/// Becomes the program at `path`, with the same arguments; returns only where that fails.
fn replace(path: &Path) -> io::Error {
    let name = env::args_os().next().unwrap_or_default();
    let arguments = env::args_os().skip(1);
    Command::new(path).arg0(name).args(arguments).exec()
}
