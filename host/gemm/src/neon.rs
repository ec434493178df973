//! Products with NEON, which every 64-bit Arm processor has. A vector here is a pair of the processor's vectors of four
//! floats; so tiles have the shape that they have with AVX2, and use 29 of the 32 registers.

use std::arch::aarch64::{
    float32x4x2_t as Vector, vaddq_f32, vdupq_n_f32, vfmaq_f32, vld1q_f32_x2, vst1q_f32_x2,
};
use std::ops::Range;

use super::blocks::{blocks, tiles_of};
use super::prefetch::{prefetch_read, prefetch_write};
use super::product::{CheckedProduct, DEPTH, L2_FLOATS, MANY_TERMS};

const LANES: usize = 8;

/// Number of lanes, from the first on.
type Mask = usize;

#[inline]
#[target_feature(enable = "neon")]
fn zero() -> Vector {
    splat(0.0)
}

#[inline]
#[target_feature(enable = "neon")]
fn splat(value: f32) -> Vector {
    let four = vdupq_n_f32(value);
    Vector(four, four)
}

/// # Safety
/// A vector can be read at `from`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load(from: *const f32) -> Vector {
    // SAFETY: the caller guarantees it.
    unsafe { vld1q_f32_x2(from) }
}

/// # Safety
/// A vector can be written at `to`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store(to: *mut f32, vector: Vector) {
    // SAFETY: the caller guarantees it.
    unsafe { vst1q_f32_x2(to, vector) }
}

/// # Safety
/// The floats of `mask` can be read at `from`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn load_some(mask: Mask, from: *const f32) -> Vector {
    let mut lanes = [0.0; LANES];
    // SAFETY: the caller guarantees it; a mask has no more than `LANES`, and the array is a whole vector.
    unsafe {
        std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), mask);
        load(lanes.as_ptr())
    }
}

/// # Safety
/// The floats of `mask` can be written at `to`.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn store_some(to: *mut f32, mask: Mask, vector: Vector) {
    let mut lanes = [0.0; LANES];
    // SAFETY: as in `load_some`.
    unsafe {
        store(lanes.as_mut_ptr(), vector);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, mask);
    }
}

#[inline]
#[target_feature(enable = "neon")]
fn add(a: Vector, b: Vector) -> Vector {
    Vector(vaddq_f32(a.0, b.0), vaddq_f32(a.1, b.1))
}

/// Returns `a b + sum`, rounded once.
#[inline]
#[target_feature(enable = "neon")]
fn multiply_add(a: Vector, b: Vector, sum: Vector) -> Vector {
    Vector(vfmaq_f32(sum.0, a.0, b.0), vfmaq_f32(sum.1, a.1, b.1))
}

/// Returns the mask of the lanes that `width` floats occupy in the last of their vectors.
#[inline]
#[target_feature(enable = "neon")]
fn mask(width: usize) -> Mask {
    match width % LANES {
        0 => LANES,
        some => some,
    }
}

/// Transposes: float `i` of vector `j` becomes float `j` of vector `i`.
#[inline]
#[target_feature(enable = "neon")]
fn transpose(x: [Vector; LANES]) -> [Vector; LANES] {
    let mut rows = [[0.0; LANES]; LANES];
    for (j, vector) in x.into_iter().enumerate() {
        let mut lanes = [0.0; LANES];
        // SAFETY: the array has room for a vector.
        unsafe { store(lanes.as_mut_ptr(), vector) };
        for (row, lane) in rows.iter_mut().zip(lanes) {
            row[j] = lane;
        }
    }
    // SAFETY: each row is a whole vector.
    rows.map(|row| unsafe { load(row.as_ptr()) })
}

blocks!("neon", 6: 1 2 3 4 5 6, 2: [1 2]);
