//! Runs: rows of a slice whose gradients are propagated back together.

use crate::step::gather::SideOfSlice;

/// Consecutive rows whose gradients are propagated back together.
#[derive(Clone, Copy)]
pub(super) struct ScatterRun<'a> {
    /// First row among the prepared rows.
    pub(super) first: usize,
    /// First row among the gradients.
    pub(super) from: usize,
    /// Number of rows.
    pub(super) count: usize,
    /// Entities of the rows; `None`: consecutive entities from `entity` on.
    pub(super) entities: Option<&'a [u32]>,
    pub(super) entity: usize,
    /// First edge, for parameters per edge.
    pub(super) edge: usize,
}

/// Returns the positives of a slice, chunk by chunk, in runs of at most `at_once` rows.
pub(super) fn positives<'a>(
    side: &SideOfSlice<'a>,
    at_once: usize,
) -> impl Iterator<Item = ScatterRun<'a>> + use<'a> {
    let SideOfSlice {
        slice,
        layout,
        positives,
        ..
    } = *side;
    (0..slice.chunks).flat_map(move |chunk| {
        let filled = slice.filled(chunk);
        (0..filled).step_by(at_once).map(move |row| {
            let (from, count) = (chunk * slice.chunk + row, at_once.min(filled - row));
            ScatterRun {
                first: layout.first(chunk) + row,
                from,
                count,
                entities: Some(&positives[from..from + count]),
                entity: 0,
                edge: slice.rows.start + from,
            }
        })
    })
}

/// Returns the uniform negatives of a slice, one run per chunk. Their gradients follow `skipped` other rows in each
/// chunk.
pub(super) fn draws<'a>(
    side: &SideOfSlice<'a>,
    skipped: usize,
) -> impl Iterator<Item = ScatterRun<'a>> + use<'a> {
    let side = *side;
    let layout = side.layout;
    (0..side.slice.chunks).map(move |chunk| ScatterRun {
        first: layout.first(chunk) + layout.chunk,
        from: chunk * (skipped + layout.uniform) + skipped,
        count: layout.uniform,
        entities: Some(side.drawn(chunk)),
        entity: 0,
        edge: 0,
    })
}
