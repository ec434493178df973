//! Packing of floats as sums of bfloat16 numbers, in the order in which tiles need them.

use std::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_castsi512_ps, _mm512_castsi512_si256, _mm512_cvtepu16_epi32,
    _mm512_cvtne2ps_pbh, _mm512_extracti64x4_epi64, _mm512_maskz_loadu_ps,
    _mm512_permutexvar_epi16, _mm512_set_epi16, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_slli_epi32, _mm512_storeu_ps, _mm512_sub_ps,
};

use super::tiles::{LINES, PLANES, STEP, TILE};
use crate::avx512::{Vector, transpose};
use crate::prefetch::prefetch_read;

/// Lines of a factor: rows of the left one or columns of the right one. Either the lines or the terms of a line are
/// contiguous, so one of the strides is 1.
#[derive(Clone, Copy)]
pub(super) struct FactorLines {
    pub(super) from: *const f32,
    pub(super) line_stride: usize,
    pub(super) term_stride: usize,
}

impl FactorLines {
    /// Returns whether the terms of a line are contiguous; otherwise neighbouring lines are.
    pub(super) fn terms_contiguous(&self) -> bool {
        self.term_stride == 1
    }

    /// Returns the lines from line `line` and term `term` on.
    pub(super) fn from(self, line: usize, term: usize) -> Self {
        let from = self
            .from
            .wrapping_add(line * self.line_stride + term * self.term_stride);
        Self { from, ..self }
    }
}

/// Meaning of the rows of a tile.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TileOrder {
    /// Each row is a line with 16 pairs of terms: the left factor.
    Lines,
    /// Each row is a pair of terms of 16 lines: the right factor.
    Pairs,
}

/// Packs a step of a panel: at most 32 terms of `lines` lines, `height` lines per tile, as `[PLANES, 2, TILE]`. Missing
/// terms are zero.
///
/// # Safety
/// The processor has the instructions, the lines have `terms` terms, and `to` has room for the step.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(super) unsafe fn pack_step(
    source: FactorLines,
    lines: usize,
    height: usize,
    terms: usize,
    order: TileOrder,
    to: *mut u32,
) {
    for (tile, first) in (0..lines).step_by(height).enumerate() {
        let (source, lines) = (source.from(first, 0), (lines - first).min(height));
        let to = to.wrapping_add(tile * TILE);
        // SAFETY: these lines are a part of the caller's.
        unsafe {
            match (source.terms_contiguous(), order) {
                (true, TileOrder::Lines) => pack_tile::<true, false>(source, lines, terms, to),
                (true, TileOrder::Pairs) => pack_tile::<true, true>(source, lines, terms, to),
                (false, TileOrder::Lines) => pack_tile::<false, true>(source, lines, terms, to),
                (false, TileOrder::Pairs) => pack_tile::<false, false>(source, lines, terms, to),
            }
        }
    }
}

/// Packs one tile: 16 vectors of pairs along or across lines, transposed if necessary.
///
/// # Safety
/// As for [`pack_step`], with at most 16 lines and 32 terms.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn pack_tile<const ALONG: bool, const TRANSPOSED: bool>(
    source: FactorLines,
    lines: usize,
    terms: usize,
    to: *mut u32,
) {
    let used = if ALONG { lines } else { terms.div_ceil(2) };
    let mut left = [[_mm512_setzero_ps(); 2]; LINES];
    for (i, left) in left.iter_mut().take(used).enumerate() {
        // SAFETY: the masks exclude lines and terms that do not exist.
        *left = unsafe { load_pairs::<ALONG>(source, lines, terms, i) };
    }
    for plane in 0..PLANES {
        let to = to.wrapping_add(2 * plane * TILE);
        let mut tile = [_mm512_setzero_ps(); LINES];
        for (row, left) in tile.iter_mut().zip(&mut left) {
            *row = _mm512_castsi512_ps(if ALONG {
                split_along(left)
            } else {
                split_across(left)
            });
        }
        if TRANSPOSED {
            tile = transpose(tile);
        }
        for (i, &row) in tile.iter().enumerate() {
            // SAFETY: the caller guarantees room for a tile of each plane.
            unsafe { _mm512_storeu_ps(to.add(i * LINES).cast(), row) };
        }
    }
}

/// Loads vector `i` of a tile, 16 pairs of floats to be split into planes.
///
/// # Safety
/// As for [`pack_tile`].
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load_pairs<const ALONG: bool>(
    source: FactorLines,
    lines: usize,
    terms: usize,
    i: usize,
) -> [Vector; 2] {
    // SAFETY: the caller guarantees that the lines and terms exist.
    unsafe {
        if ALONG {
            let from = source.from.wrapping_add(i * source.line_stride);
            prefetch_read(from.wrapping_add(2 * LINES * source.line_stride));
            prefetch_read(from.wrapping_add(2 * LINES * source.line_stride + LINES));
            [
                load(from, terms),
                load(from.wrapping_add(LINES), terms.saturating_sub(LINES)),
            ]
        } else {
            let from = source.from.wrapping_add(2 * i * source.term_stride);
            let next = if 2 * i + 1 < terms { lines } else { 0 };
            prefetch_read(from.wrapping_add(STEP * source.term_stride));
            prefetch_read(from.wrapping_add((STEP + 1) * source.term_stride));
            [
                load(from, lines),
                load(from.wrapping_add(source.term_stride), next),
            ]
        }
    }
}

/// # Safety
/// `count` floats can be read at `from`, or 16 if `count` is more.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(from: *const f32, count: usize) -> Vector {
    if count == 0 {
        return _mm512_setzero_ps();
    }
    let mask = if count >= LINES { !0 } else { (1 << count) - 1 };
    // SAFETY: the caller guarantees it.
    unsafe { _mm512_maskz_loadu_ps(mask, from) }
}

/// Rounds numbers to bfloat16, ties to even: those of `low`, then those of `high`.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn round(low: Vector, high: Vector) -> __m512i {
    // SAFETY: both are vectors of 512 bits.
    unsafe { std::mem::transmute(_mm512_cvtne2ps_pbh(high, low)) }
}

/// Returns the next plane of 32 terms of a line, as 16 pairs of neighbours, and subtracts it from them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn split_along([low, high]: &mut [Vector; 2]) -> __m512i {
    let pairs = round(*low, *high);
    let [first, second] = [
        _mm512_castsi512_si256(pairs),
        _mm512_extracti64x4_epi64::<1>(pairs),
    ];
    *low = _mm512_sub_ps(
        *low,
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(first))),
    );
    *high = _mm512_sub_ps(
        *high,
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(second))),
    );
    pairs
}

/// Returns the next plane of two successive terms of 16 lines, as pairs, and subtracts it from them.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn split_across([term, next]: &mut [Vector; 2]) -> __m512i {
    let interleave = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
        19, 3, 18, 2, 17, 1, 16, 0,
    );
    let pairs = _mm512_permutexvar_epi16(interleave, round(*term, *next));
    *term = _mm512_sub_ps(*term, _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)));
    *next = _mm512_sub_ps(
        *next,
        _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(!0xffff))),
    );
    pairs
}
