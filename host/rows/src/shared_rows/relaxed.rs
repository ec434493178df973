//! Relaxed atomic access to floats of shared memory.
//!
//! Every access to a shared float is a relaxed atomic load or store of its bits. So a race is not undefined behaviour:
//! a reader sees the float of one worker or of another.
//!
//! Compilers do not vectorise atomic accesses, and float by float a row takes several times as long. On x86-64 with
//! AVX, blocks of assembly move whole vectors. The compiler does not look into such a block; to it, the block stands
//! for one relaxed access to each float of its vectors, in any order. This relies on the processor not tearing an
//! aligned float. Intel and AMD guarantee that for aligned accesses of 4 bytes. For wider accesses they guarantee less,
//! but their processors split them into parts that are no smaller than a float.

use std::sync::atomic::{AtomicU32, Ordering};

/// Copies shared floats to private memory of the same length.
#[inline]
pub(super) fn read(shared: &[AtomicU32], out: &mut [f32]) {
    debug_assert_eq!(shared.len(), out.len());
    let vectors = vectors(shared.len());
    #[cfg(target_arch = "x86_64")]
    if vectors > 0 {
        // SAFETY: `vectors` vectors lie in both slices, AVX was detected, and the caller has `out` exclusively.
        unsafe { avx::copy(shared.as_ptr().cast(), out.as_mut_ptr(), vectors) };
    }
    let rest = vectors * LANES..;
    for (shared, out) in shared[rest.clone()].iter().zip(&mut out[rest]) {
        *out = f32::from_bits(shared.load(Ordering::Relaxed));
    }
}

/// Copies private memory over shared floats of the same length.
#[inline]
pub(super) fn write(shared: &[AtomicU32], values: &[f32]) {
    debug_assert_eq!(shared.len(), values.len());
    let vectors = vectors(shared.len());
    #[cfg(target_arch = "x86_64")]
    if vectors > 0 {
        let target = shared.as_ptr().cast_mut().cast();
        // SAFETY: `vectors` vectors lie in both slices, AVX was detected, and atomics may be written through a shared
        // reference.
        unsafe { avx::copy(values.as_ptr(), target, vectors) };
    }
    let rest = vectors * LANES..;
    for (shared, value) in shared[rest.clone()].iter().zip(&values[rest]) {
        shared.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// Computes `shared[i] += factor * values[i]` by a load and a store of each float; an update that another worker stores
/// in between is lost.
#[inline]
pub(super) fn add_scaled(shared: &[AtomicU32], factor: f32, values: &[f32]) {
    debug_assert_eq!(shared.len(), values.len());
    let vectors = vectors(shared.len());
    #[cfg(target_arch = "x86_64")]
    if vectors > 0 {
        let target = shared.as_ptr().cast_mut().cast();
        // SAFETY: as in `write`.
        unsafe { avx::add_scaled(target, factor, values.as_ptr(), vectors) };
    }
    let rest = vectors * LANES..;
    for (shared, value) in shared[rest.clone()].iter().zip(&values[rest]) {
        let sum = f32::from_bits(shared.load(Ordering::Relaxed)) + factor * value;
        shared.store(sum.to_bits(), Ordering::Relaxed);
    }
}

/// Floats per vector.
const LANES: usize = 8;

/// Returns the number of whole vectors among `len` floats; 0 where the processor lacks AVX.
#[inline]
fn vectors(len: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if len >= LANES && is_x86_feature_detected!("avx") {
        return len / LANES;
    }
    let _ = len;
    0
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::asm;
    use std::arch::x86_64::_mm256_set1_ps;

    /// Copies `vectors` vectors, at least one.
    ///
    /// # Safety
    /// The vectors lie in memory that may be read and written, and do not overlap.
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn copy(from: *const f32, to: *mut f32, vectors: usize) {
        let (fours, rest) = (vectors / 4, vectors % 4);
        // SAFETY: the moves touch the caller's vectors alone, each float once.
        unsafe {
            asm!(
                "test {fours}, {fours}",
                "jz 3f",
                "2:",
                "vmovups {a}, [{from}]",
                "vmovups {b}, [{from} + 32]",
                "vmovups {c}, [{from} + 64]",
                "vmovups {d}, [{from} + 96]",
                "vmovups [{to}], {a}",
                "vmovups [{to} + 32], {b}",
                "vmovups [{to} + 64], {c}",
                "vmovups [{to} + 96], {d}",
                "add {from}, 128",
                "add {to}, 128",
                "dec {fours}",
                "jnz 2b",
                "3:",
                "test {rest}, {rest}",
                "jz 5f",
                "4:",
                "vmovups {a}, [{from}]",
                "vmovups [{to}], {a}",
                "add {from}, 32",
                "add {to}, 32",
                "dec {rest}",
                "jnz 4b",
                "5:",
                from = inout(reg) from => _, to = inout(reg) to => _,
                fours = inout(reg) fours => _, rest = inout(reg) rest => _,
                a = out(ymm_reg) _, b = out(ymm_reg) _, c = out(ymm_reg) _, d = out(ymm_reg) _,
                options(nostack),
            );
        }
    }

    /// Adds `factor` times `vectors` vectors, at least one, to the same number of vectors at `to`. The product is
    /// rounded before it is added, as in the scalar loop.
    ///
    /// # Safety
    /// As [`copy`].
    #[target_feature(enable = "avx")]
    pub(super) unsafe fn add_scaled(to: *mut f32, factor: f32, values: *const f32, vectors: usize) {
        // SAFETY: the moves touch the caller's vectors alone, each float of `to` twice.
        unsafe {
            asm!(
                "2:",
                "vmulps {a}, {factor}, [{values}]",
                "vaddps {a}, {a}, [{to}]",
                "vmovups [{to}], {a}",
                "add {values}, 32",
                "add {to}, 32",
                "dec {vectors}",
                "jnz 2b",
                values = inout(reg) values => _, to = inout(reg) to => _,
                vectors = inout(reg) vectors => _,
                factor = in(ymm_reg) _mm256_set1_ps(factor), a = out(ymm_reg) _,
                options(nostack),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(values: &[f32]) -> Vec<AtomicU32> {
        let of = |value: &f32| AtomicU32::new(value.to_bits());
        values.iter().map(of).collect()
    }

    fn numbers(len: usize, phase: f32) -> Vec<f32> {
        (0..len).map(|i| i as f32 * 0.37 + phase).collect()
    }

    #[test]
    fn every_float_is_moved_once_whatever_the_length() {
        for len in 0..140 {
            let (before, values) = (numbers(len + 2, 1.0), numbers(len, -7.5));
            let cells = shared(&before);
            // Unaligned to whole vectors on purpose.
            let some = &cells[1..=len];
            let mut out = vec![0.0; len];
            read(some, &mut out);
            assert_eq!(out, before[1..=len], "{len}");
            add_scaled(some, 0.3, &values);
            read(some, &mut out);
            let expected: Vec<f32> = before[1..=len]
                .iter()
                .zip(&values)
                .map(|(b, v)| b + 0.3 * v)
                .collect();
            assert_eq!(out, expected, "{len}");
            write(some, &values);
            read(some, &mut out);
            assert_eq!(out, values, "{len}");
            let mut ends = [0.0];
            for end in [0, len + 1] {
                read(&cells[end..=end], &mut ends);
                assert_eq!(ends[0], before[end], "{len}");
            }
        }
    }
}
