//! Saves address space where it is limited (`ulimit -v`), as is usual on clusters.
//!
//! The C library reserves an arena of 64 MiB of addresses for each thread that allocates. With one worker per core, the
//! arenas exceed such limits, and allocations fail although there is enough memory. The only safe way to limit the
//! number of arenas is an environment variable, which the library reads when a program starts.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Environment variable with the maximum number of arenas of the C library (`mallopt(3)`).
const ARENAS: &str = "MALLOC_ARENA_MAX";

/// Restarts this program with one arena for all threads, if address space is limited and the variable is not set.
/// Sharing one arena costs no speed, since workers do not allocate while they train.
pub(crate) fn limit_arenas() {
    if env::var_os(ARENAS).is_some() || !pbg_model::memory::addresses_are_limited() {
        return;
    }
    if let Ok(program) = env::current_exe() {
        // If the restart fails, the address space may still be sufficient.
        let mut again = Command::new(program);
        again.arg0(env::args_os().next().unwrap_or_default());
        again.args(env::args_os().skip(1)).env(ARENAS, "1");
        let _failed = again.exec();
    }
}
