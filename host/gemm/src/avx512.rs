//! Products with AVX-512.

pub(super) use std::arch::x86_64::__m512 as Vector;
use std::arch::x86_64::{
    __mmask16 as Mask, _mm512_add_ps as add, _mm512_castpd_ps, _mm512_castps_pd,
    _mm512_fmadd_ps as multiply_add, _mm512_loadu_ps as load, _mm512_mask_storeu_ps as store_some,
    _mm512_maskz_loadu_ps as load_some, _mm512_set1_ps as splat, _mm512_setzero_ps as zero,
    _mm512_shuffle_f32x4, _mm512_storeu_ps as store, _mm512_unpackhi_pd, _mm512_unpackhi_ps,
    _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};
use std::ops::Range;

use super::blocks::{blocks, tiles_of};
use super::prefetch::{prefetch_read, prefetch_write};
use super::product::{CheckedProduct, DEPTH, L2_FLOATS, MANY_TERMS};

const LANES: usize = 16;

/// Returns the mask of the lanes that `width` floats occupy in the last of their vectors.
fn mask(width: usize) -> Mask {
    match width % LANES {
        0 => !0,
        some => (1 << some) - 1,
    }
}

/// Transposes: float `i` of vector `j` becomes float `j` of vector `i`.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transpose(x: [Vector; LANES]) -> [Vector; LANES] {
    // First within quarters of vectors: 2 x 2, then 4 x 4.
    let mut pairs = x;
    for (i, pair) in pairs.chunks_exact_mut(2).enumerate() {
        pair[0] = _mm512_unpacklo_ps(x[2 * i], x[2 * i + 1]);
        pair[1] = _mm512_unpackhi_ps(x[2 * i], x[2 * i + 1]);
    }
    let mut fours = pairs;
    for (four, from) in fours.chunks_exact_mut(4).zip(pairs.chunks_exact(4)) {
        let from: [_; 4] = std::array::from_fn(|i| _mm512_castps_pd(from[i]));
        four[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(from[0], from[2]));
        four[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(from[0], from[2]));
        four[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(from[1], from[3]));
        four[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(from[1], from[3]));
    }
    // Then the quarters: quarter `q` of the vectors `r`, `4 + r`, `8 + r`, `12 + r` makes vector `4 q + r`.
    let mut out = fours;
    for r in 0..4 {
        let [a, b, c, d] = [fours[r], fours[4 + r], fours[8 + r], fours[12 + r]];
        let even = [
            _mm512_shuffle_f32x4::<0x88>(a, b),
            _mm512_shuffle_f32x4::<0x88>(c, d),
        ];
        let odd = [
            _mm512_shuffle_f32x4::<0xdd>(a, b),
            _mm512_shuffle_f32x4::<0xdd>(c, d),
        ];
        out[r] = _mm512_shuffle_f32x4::<0x88>(even[0], even[1]);
        out[8 + r] = _mm512_shuffle_f32x4::<0xdd>(even[0], even[1]);
        out[4 + r] = _mm512_shuffle_f32x4::<0x88>(odd[0], odd[1]);
        out[12 + r] = _mm512_shuffle_f32x4::<0xdd>(odd[0], odd[1]);
    }
    out
}

blocks!("avx512f", 8: 1 2 3 4 5 6 7 8, 3: [1 2 3]);
