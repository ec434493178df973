//! Comparison of benchmarks with libtorch.

use crate::failure::Result;
use crate::libtorch;

/// Loads libtorch, with whose matrix product a benchmark compares.
///
/// # Errors
/// When libtorch is not found, or cannot be loaded.
pub(super) fn load_for_comparison() -> Result<()> {
    libtorch::load(
        "a comparison with libtorch's own matrix product",
        "`bench scale-up`, `bench storage` and `bench import` do not need it",
    )
}
