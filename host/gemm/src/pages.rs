//! Memory for floats on huge pages, where the system has them.
//!
//! Rows are read at random, and with small pages the translation of addresses costs as much as the reads.

/// Size of a huge page in bytes, on the processors that matter.
pub const HUGE_PAGE: usize = 2 << 20;

/// Returns zeroed floats on huge pages.
#[must_use]
pub fn zeroed(len: usize) -> Vec<f32> {
    // The memory is fresh from the system, so the advice precedes the first access to every page.
    let mut values = vec![0.0; len];
    advise(&mut values);
    values
}

/// Returns an empty vector with capacity for `len` floats on huge pages.
///
/// A table is best read into such a vector, since the advice does not move pages that were already written. The
/// capacity is 0 if there is not enough memory: `len` may come from a damaged file, and the caller, who fills the
/// vector, finds out how much it really needs.
#[must_use]
pub fn with_capacity(len: usize) -> Vec<f32> {
    let mut values = Vec::new();
    if values.try_reserve_exact(len).is_ok() {
        advise_range(values.as_mut_ptr(), len);
    }
    values
}

/// Asks the system for huge pages under `values`. Without them everything works too, only more slowly.
pub fn advise(values: &mut [f32]) {
    advise_range(values.as_mut_ptr(), values.len());
}

/// Does the same as [`advise`] for `len` floats of the caller's allocation.
fn advise_range(start: *mut f32, len: usize) {
    #[cfg(target_os = "linux")]
    {
        const SMALL_PAGE: usize = 4096;
        let bytes = len * size_of::<f32>();
        let skipped = (start as usize).next_multiple_of(SMALL_PAGE) - start as usize;
        if bytes >= HUGE_PAGE / 2 {
            // SAFETY: the advice changes neither bytes nor permissions, and the range lies within an allocation.
            let _best_effort = unsafe {
                rustix::mm::madvise(
                    start.wrapping_byte_add(skipped).cast(),
                    bytes - skipped,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, len);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_there_is_not_is_no_fault() {
        assert!(with_capacity(1000).capacity() >= 1000);
        assert_eq!(with_capacity(usize::MAX / 8).capacity(), 0);
    }
}
