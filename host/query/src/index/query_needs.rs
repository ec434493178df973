//! Upper bounds of the memory for querying an index.

use pbg_model::resolved::ResolvedConfig;

/// Bytes of a walk: its candidates, the visited entities, and the buffers of the library.
const WALK: u64 = 1 << 20;

/// Returns the memory of `threads` threads that walk.
pub(crate) fn walks(threads: u64) -> (String, u64) {
    let what = match threads {
        1 => "1 thread, a walk".to_owned(),
        n => format!("{n} threads, a walk each"),
    };
    (what, threads * WALK)
}

/// Returns the memory of the checksums of the rows in the largest partition.
pub(crate) fn sums(resolved: &ResolvedConfig) -> (String, u64) {
    let layout = &resolved.blueprint().layout;
    let rows = layout.types.iter().flat_map(|of| &of.rows);
    let most = rows.max().copied().unwrap_or(0);
    ("checksums of a partition's rows".to_owned(), 8 * most)
}
