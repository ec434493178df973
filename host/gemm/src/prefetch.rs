//! Prefetching: requests to the processor to load memory into its cache. They change no value and cannot fault.

#[cfg(target_arch = "aarch64")]
use std::arch::asm;

/// Floats per cache line.
const LINE: usize = 16;

/// Prefetches floats that will soon be read or written.
#[inline]
pub fn prefetch(values: &[f32]) {
    prefetch_at(values.as_ptr(), values.len());
}

/// Prefetches `len` floats from `start` on. The addresses need not belong to a slice, since nothing is read.
#[inline]
pub fn prefetch_at(start: *const f32, len: usize) {
    for offset in (0..len).step_by(LINE) {
        prefetch_read(start.wrapping_add(offset));
    }
}

/// Prefetches the cache line of a float that will be written.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch_write(to: *const f32) {
    use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    // SAFETY: a prefetch reads no value and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(to.cast()) };
}

/// Prefetches the cache line of a float that will be read.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch_read(from: *const f32) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: as for `prefetch_write`.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) };
}

/// Prefetches the cache line of a float that will be written.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn prefetch_write(to: *const f32) {
    // SAFETY: as on x86-64.
    unsafe {
        asm!("prfm pstl1keep, [{}]", in(reg) to, options(nostack, readonly, preserves_flags))
    };
}

/// Prefetches the cache line of a float that will be read.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) fn prefetch_read(from: *const f32) {
    // SAFETY: as on x86-64.
    unsafe {
        asm!("prfm pldl1keep, [{}]", in(reg) from, options(nostack, readonly, preserves_flags))
    };
}

/// Does nothing where the instruction is not known.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
pub(crate) fn prefetch_read(_: *const f32) {}
