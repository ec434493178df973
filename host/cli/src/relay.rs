//! From the program without libtorch to the one with it.
//!
//! Most of what is asked of the program needs no libtorch, which takes half a second and a hundred MiB of
//! every start. So `pbg-host` is linked without it. What does need it goes on in the same process as
//! `pbg-host-torch`, the same program with libtorch, which is installed beside it.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// The program with libtorch.
const WITH_LIBTORCH: &str = "pbg-host-torch";

/// What a script of that name, as the Python package has one, says where it finds no libtorch: who needs it, and what
/// does without.
const FOR: &str = "PBG_HOST_LIBTORCH_FOR";
const WITHOUT: &str = "PBG_HOST_WITHOUT_LIBTORCH";

/// Goes on with libtorch, which `what` needs; `without` says what does not.
///
/// # Errors
/// When the other program cannot be started.
pub(crate) fn to_libtorch(what: &str, without: &str) -> Result<()> {
    if pbg_train::has_libtorch() {
        return Ok(());
    }
    let (place, error) = match beside() {
        Ok(path) => (
            path.display().to_string(),
            replace(Command::new(&path).env(FOR, what).env(WITHOUT, without)),
        ),
        Err(error) => (WITH_LIBTORCH.to_owned(), error),
    };
    let text = format!("{what} needs libtorch, which is in the program {place}");
    let help = format!(
        "install {WITH_LIBTORCH} beside this program (`cargo xtask build` builds both); {without}"
    );
    Err(Failure::new(FailureKind::Io, error)
        .context(text)
        .help(help))
}

fn beside() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(WITH_LIBTORCH))
}

/// Becomes `program`, with the same arguments; returns only where that fails.
pub(crate) fn replace(program: &mut Command) -> io::Error {
    let name = env::args_os().next().unwrap_or_default();
    let arguments = env::args_os().skip(1);
    program.arg0(name).args(arguments).exec()
}
