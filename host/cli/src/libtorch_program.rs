//! Switches from the program without libtorch to the program with it.
//!
//! Most commands do not need libtorch, which costs half a second and a hundred MiB at every start, so `pbg-host` is
//! linked without it. A command that needs libtorch replaces the process image with `pbg-host-torch`, the same program
//! with libtorch, which is installed in the same folder.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// File name of the program with libtorch.
const WITH_LIBTORCH: &str = "pbg-host-torch";

/// Environment variables for the script of that name in the Python package, which prints them if it does not find
/// libtorch: the feature that needs libtorch, and the alternative that does not.
const FOR: &str = "PBG_HOST_LIBTORCH_FOR";
const WITHOUT: &str = "PBG_HOST_WITHOUT_LIBTORCH";

/// Switches to the program with libtorch, which `what` needs; `without` is the advice on doing without it. Returns at
/// once if this program has libtorch.
///
/// # Errors
/// When the other program cannot be started, or does not find libtorch.
pub(crate) fn exec_with_libtorch(what: &str, without: &str) -> Result<()> {
    if pbg_model::model_bytes::has_libtorch() {
        return Ok(());
    }
    if let Ok(path) = sibling_program() {
        let missing = missing_libraries(&path);
        if !missing.is_empty() {
            let text = format!(
                "{what} needs libtorch, which {} does not find: {}",
                path.display(),
                missing.join(", ")
            );
            let help = format!(
                "`cargo xtask build` installs libtorch where `target/release/{WITH_LIBTORCH}` finds it; for a program in \
                 another folder set the path of libtorch, as in `LD_LIBRARY_PATH=.deps/libtorch/lib`; {without}"
            );
            return Err(Failure::message(FailureKind::Io, text).help(help));
        }
    }
    let (place, error) = match sibling_program() {
        Ok(path) => (
            path.display().to_string(),
            exec(Command::new(&path).env(FOR, what).env(WITHOUT, without)),
        ),
        Err(error) => (WITH_LIBTORCH.to_owned(), error),
    };
    let text = format!("{what} needs libtorch, which is part of the program {place}");
    let help = format!(
        "install {WITH_LIBTORCH} in the folder of this program (`cargo xtask build` builds both); {without}"
    );
    Err(Failure::new(FailureKind::Io, error)
        .context(text)
        .help(help))
}

/// Returns the shared libraries of a program that the system's loader does not find. glibc's loader lists libraries
/// without starting the program. Other loaders start it without arguments, so that it prints its help, and no library
/// is reported missing.
fn missing_libraries(program: &Path) -> Vec<String> {
    let mut command = Command::new(program);
    command.env("LD_TRACE_LOADED_OBJECTS", "1");
    // A program that cannot be started is reported later, when it replaces this process.
    let said = command.output().map(|output| output.stdout);
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    said.lines()
        .filter_map(|line| Some(line.trim().strip_suffix("=> not found")?.trim().to_owned()))
        .collect()
}

fn sibling_program() -> io::Result<PathBuf> {
    Ok(env::current_exe()?.with_file_name(WITH_LIBTORCH))
}

/// Replaces this process by `program` with the same arguments; returns only on failure.
pub(crate) fn exec(program: &mut Command) -> io::Error {
    let name = env::args_os().next().unwrap_or_default();
    let arguments = env::args_os().skip(1);
    program.arg0(name).args(arguments).exec()
}
