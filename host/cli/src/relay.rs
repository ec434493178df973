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
/// When the other program cannot be started, or does not find libtorch.
pub(crate) fn to_libtorch(what: &str, without: &str) -> Result<()> {
    if pbg_train::has_libtorch() {
        return Ok(());
    }
    if let Ok(path) = beside() {
        let missing = missing_libraries(&path);
        if !missing.is_empty() {
            let text = format!(
                "{what} needs libtorch, which {} does not find: {}",
                path.display(),
                missing.join(", ")
            );
            let help = format!(
                "`cargo xtask build` puts libtorch where `target/release/{WITH_LIBTORCH}` finds it; for a copy elsewhere \
                 name its folder, as in `LD_LIBRARY_PATH=.deps/libtorch/lib`; {without}"
            );
            return Err(Failure::message(FailureKind::Io, text).help(help));
        }
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

/// The libraries that the system's loader does not find for a program, which it is asked for without starting it.
/// Other loaders start it: without arguments, which prints its help. Then none is missing.
fn missing_libraries(program: &Path) -> Vec<String> {
    let mut command = Command::new(program);
    command.env("LD_TRACE_LOADED_OBJECTS", "1");
    // That it cannot be started is said by whoever starts it.
    let said = command.output().map(|output| output.stdout);
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    said.lines()
        .filter_map(|line| Some(line.trim().strip_suffix("=> not found")?.trim().to_owned()))
        .collect()
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
