//! Products with AVX2 and fused multiply-add.

use std::arch::x86_64::{
    __m256 as Vector, __m256i as Mask, _mm256_add_ps as add, _mm256_castpd_ps, _mm256_castps_pd,
    _mm256_cmpgt_epi32, _mm256_fmadd_ps as multiply_add, _mm256_loadu_ps as load,
    _mm256_maskload_ps, _mm256_maskstore_ps as store_some, _mm256_permute2f128_ps,
    _mm256_set1_epi32, _mm256_set1_ps as splat, _mm256_setr_epi32, _mm256_setzero_ps as zero,
    _mm256_storeu_ps as store, _mm256_unpackhi_pd, _mm256_unpackhi_ps, _mm256_unpacklo_pd,
    _mm256_unpacklo_ps,
};
use std::ops::Range;

use super::blocks::{blocks, tiles_of};
use super::prefetch::{prefetch_read, prefetch_write};
use super::product::{CheckedProduct, DEPTH, L2_FLOATS, MANY_TERMS};

const LANES: usize = 8;

/// # Safety
/// The floats of `mask` can be read at `from`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn load_some(mask: Mask, from: *const f32) -> Vector {
    // SAFETY: the caller guarantees it.
    unsafe { _mm256_maskload_ps(from, mask) }
}

/// Returns the mask of the lanes that `width` floats occupy in the last of their vectors.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mask(width: usize) -> Mask {
    let last = match width % LANES {
        0 => LANES,
        some => some,
    };
    let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(last as i32), lanes)
}

/// Transposes: float `i` of vector `j` becomes float `j` of vector `i`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose(x: [Vector; LANES]) -> [Vector; LANES] {
    // First within halves of vectors: 2 x 2, then 4 x 4.
    let mut pairs = x;
    for (i, pair) in pairs.chunks_exact_mut(2).enumerate() {
        pair[0] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        pair[1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
    let mut fours = pairs;
    for (four, from) in fours.chunks_exact_mut(4).zip(pairs.chunks_exact(4)) {
        let from: [_; 4] = std::array::from_fn(|i| _mm256_castps_pd(from[i]));
        four[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(from[0], from[2]));
        four[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(from[0], from[2]));
        four[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(from[1], from[3]));
        four[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(from[1], from[3]));
    }
    // Then the halves.
    let mut out = fours;
    for r in 0..4 {
        out[r] = _mm256_permute2f128_ps::<0x20>(fours[r], fours[4 + r]);
        out[4 + r] = _mm256_permute2f128_ps::<0x31>(fours[r], fours[4 + r]);
    }
    out
}

blocks!("avx2,fma", 6: 1 2 3 4 5 6, 2: [1 2]);
