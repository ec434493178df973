//! Little address space (`ulimit -v`), which is usual on clusters.
//!
//! The C library sets 64 MiB of addresses aside for each thread that allocates. With as many workers as a machine has
//! cores these are more than such limits allow, and then allocations fail for which there would be memory. The
//! library takes another number of these arenas from the environment, when a program starts, and from nowhere else
//! that is safe to call.

use std::env;
use std::process::Command;

use crate::relay;

/// How many arenas the C library makes (`mallopt(3)`).
const ARENAS: &str = "MALLOC_ARENA_MAX";

/// Starts this program once more, with one arena for all threads, where addresses are limited and nobody has said how
/// many there are to be. Threads that train allocate nothing while they do.
pub(crate) fn save() {
    if env::var_os(ARENAS).is_some() || !pbg_train::addresses_are_limited() {
        return;
    }
    if let Ok(program) = env::current_exe() {
        // Where that fails, the limit may be enough all the same.
        let _failed = relay::replace(Command::new(program).env(ARENAS, "1"));
    }
}
