//! Saves address space where it is limited (`ulimit -v`), as is usual on clusters.
//!
//! The C library reserves an arena of 64 MiB of addresses for each thread that allocates. With one worker per core, the
//! arenas exceed such limits, and allocations fail although there is enough memory. The only safe way to limit the
//! number of arenas is an environment variable, which the library reads when a program starts.

use std::env;
use std::process::Command;

use crate::libtorch_program;

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
        let _failed = libtorch_program::exec(Command::new(program).env(ARENAS, "1"));
    }
}
