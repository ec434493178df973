//! Inner products of many queries with many candidates, with the same bits for a pair wherever it occurs.
//!
//! Ranks count ties, so equal embeddings must have equal scores. A general matrix product does not guarantee that,
//! since it may add in another order at the edges of a matrix. Here every score is one chain of multiply-adds from the
//! first coordinate to the last, in a block of a matrix and for a single pair alike.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use pbg_rows::vector::fma;

/// Candidates per panel.
pub(super) const PANEL: usize = 16;
/// Queries per group: with two vectors of candidates for each, as many accumulators as the registers of AVX2 can hold.
pub(super) const GROUP: usize = 6;

/// Interleaves rows of `width` floats in groups of `N`, coordinate by coordinate; the last group is padded with zeros.
pub(super) fn interleave<const N: usize>(rows: &[f32], width: usize, out: &mut Vec<f32>) {
    let count = rows.len() / width;
    out.clear();
    out.resize(count.div_ceil(N) * N * width, 0.0);
    for (group, target) in rows.chunks(N * width).zip(out.chunks_exact_mut(N * width)) {
        for (i, row) in group.chunks_exact(width).enumerate() {
            for (&value, slot) in row.iter().zip(target[i..].iter_mut().step_by(N)) {
                *slot = value;
            }
        }
    }
}

/// Computes `queries candidates'` of one group and one panel, both interleaved.
#[inline(always)]
fn tile<const FMA: bool>(queries: &[f32], candidates: &[f32]) -> [[f32; PANEL]; GROUP] {
    let mut sums = [[0.0_f32; PANEL]; GROUP];
    let (queries, _) = queries.as_chunks::<GROUP>();
    let (candidates, _) = candidates.as_chunks::<PANEL>();
    for (q, k) in queries.iter().zip(candidates) {
        for i in 0..GROUP {
            for j in 0..PANEL {
                sums[i][j] = fma::<FMA>(q[i], k[j], sums[i][j]);
            }
        }
    }
    sums
}

#[inline(always)]
fn tiles<const FMA: bool>(
    queries: &[f32],
    panels: &[f32],
    width: usize,
    columns: usize,
    out: &mut [f32],
) {
    for (p, panel) in panels.chunks_exact(PANEL * width).enumerate() {
        let first = p * PANEL;
        let filled = (columns - first).min(PANEL);
        // A panel stays in the first-level cache while all queries are compared with it.
        for (g, group) in queries.chunks_exact(GROUP * width).enumerate() {
            let sums = tile::<FMA>(group, panel);
            let rows = out[g * GROUP * columns..].chunks_mut(columns);
            for (row, sums) in rows.zip(&sums) {
                row[first..first + filled].copy_from_slice(&sums[..filled]);
            }
        }
    }
}

/// Computes the inner products, `[rows, columns]`, of interleaved queries and candidates.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn products(
    queries: &[f32],
    panels: &[f32],
    width: usize,
    columns: usize,
    out: &mut [f32],
) {
    if target_cfg_f!(target_feature = "fma") {
        tiles::<true>(queries, panels, width, columns, out);
    } else {
        tiles::<false>(queries, panels, width, columns, out);
    }
}

/// Returns the inner product of one pair, with the same bits as [`products`].
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn pair(query: &[f32], candidate: &[f32]) -> f32 {
    let pairs = query.iter().zip(candidate);
    if target_cfg_f!(target_feature = "fma") {
        pairs.fold(0.0, |sum, (&q, &k)| fma::<true>(q, k, sum))
    } else {
        pairs.fold(0.0, |sum, (&q, &k)| fma::<false>(q, k, sum))
    }
}
