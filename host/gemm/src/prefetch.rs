//! Requests to the processor to bring memory into its cache. They change no value and cannot fault.

/// Floats of a line of the cache.
const LINE: usize = 16;

/// Asks for floats that will be read or written soon.
#[inline]
pub fn prefetch(values: &[f32]) {
    prefetch_at(values.as_ptr(), values.len());
}

/// Asks for `len` floats from `start` on, of which there need not be a slice: nothing is read.
#[inline]
pub fn prefetch_at(start: *const f32, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..len).step_by(LINE) {
        prefetch_read(start.wrapping_add(offset));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len, LINE);
}

/// Asks for a float's line of the cache, which will be written.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch_write(to: *const f32) {
    use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(to.cast()) };
}

/// Asks for a float's line of the cache, which will be read.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn prefetch_read(from: *const f32) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) };
}
