//! Comparison of benchmarks with libtorch.

use crate::failure::Result;
use crate::libtorch_program::exec_with_libtorch;

/// Switches to the program with libtorch, with whose matrix product a benchmark compares.
///
/// # Errors
/// When the other program cannot be started, or does not find libtorch.
pub(super) fn exec_for_comparison() -> Result<()> {
    exec_with_libtorch(
        "a comparison with libtorch's own matrix product",
        "`bench storage` and `bench import` do not need it",
    )
}
