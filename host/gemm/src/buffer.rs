//! Preallocated buffers of floats.

use crate::pages::{HUGE_PAGE, zeroed};

/// A buffer of floats that is allocated once and reused for slice after slice. A large buffer starts on a huge page, so
/// that few address translations cover it.
#[derive(Default)]
pub struct FloatBuffer {
    values: Vec<f32>,
    /// Index of the first float within the allocation.
    start: usize,
    len: usize,
}

impl std::fmt::Debug for FloatBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FloatBuffer {{ len: {} }}", self.len)
    }
}

impl FloatBuffer {
    /// Creates a buffer of `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        if size_of::<f32>() * len < HUGE_PAGE / 2 {
            let values = vec![0.0; len];
            let start = 0;
            return Self { values, start, len };
        }
        // The last huge page may be used whole; untouched parts of the surplus take no memory.
        let page = HUGE_PAGE / size_of::<f32>();
        let values = zeroed(len.next_multiple_of(page) + page);
        let address = values.as_ptr() as usize;
        let start = (address.next_multiple_of(HUGE_PAGE) - address) / size_of::<f32>();
        Self { values, start, len }
    }

    /// Makes room for at least `len` floats; allocates only for batches larger than all previous ones. The contents are
    /// then lost.
    pub fn reserve(&mut self, len: usize) {
        if self.len < len {
            *self = Self::zeros(len);
        }
    }

    /// Returns the number of floats.
    #[must_use]
    pub fn floats(&self) -> usize {
        self.len
    }

    /// Returns the floats.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[f32] {
        &self.values[self.start..self.start + self.len]
    }

    /// Returns the floats, for writing.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.values[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_start_on_a_huge_page() {
        for len in [0, 1, 1000, 1 << 18, (1 << 20) + 1] {
            let mut buffer = FloatBuffer::zeros(len);
            assert_eq!(buffer.as_slice(), vec![0.0; len]);
            buffer.as_mut_slice().fill(1.0);
            if len >= 1 << 18 {
                assert_eq!(buffer.as_slice().as_ptr() as usize % HUGE_PAGE, 0);
            }
        }
    }

    #[test]
    fn buffers_only_grow() {
        let mut buffer = FloatBuffer::zeros(2);
        buffer.reserve(5);
        buffer.reserve(3);
        assert_eq!(buffer.floats(), 5);
    }
}
