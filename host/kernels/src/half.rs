//! Factors of matrix products in bfloat16, the upper half of an `f32`.

use std::ops::Range;

/// Size of a cache line in bytes, to which buffers are aligned.
const LINE: usize = 64;

/// A preallocated buffer of bfloat16 numbers, to which floats are rounded and from which they are widened.
#[derive(Default)]
pub(crate) struct HalfBuffer {
    memory: Vec<u16>,
    /// Index of the first number, which is aligned to a cache line.
    start: usize,
    len: usize,
}

impl std::fmt::Debug for HalfBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HalfBuffer {{ len: {} }}", self.len)
    }
}

impl HalfBuffer {
    /// Creates a buffer of `len` zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let memory = match len {
            0 => Vec::new(),
            _ => vec![0; len + LINE / size_of::<u16>()],
        };
        let start = memory.as_ptr().align_offset(LINE).min(memory.len() - len);
        Self { memory, start, len }
    }

    /// Makes room for `len` numbers, which become zero if the buffer grows; allocates only for batches larger than all
    /// previous ones.
    pub(crate) fn reserve(&mut self, len: usize) {
        if self.len < len {
            *self = Self::zeros(len);
        }
    }

    /// Returns the number of numbers that fit.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Rounds `values` to the nearest bfloat16 numbers, ties to even, and stores them from the buffer's start on.
    ///
    /// # Panics
    /// If the buffer is too short.
    pub(crate) fn load(&mut self, values: &[f32]) {
        round(&mut self.bits_mut()[..values.len()], values);
    }

    /// Widens the first `out.len()` numbers into `out`.
    ///
    /// # Panics
    /// If the buffer is too short.
    pub(crate) fn store(&self, out: &mut [f32]) {
        widen(out, &self.bits()[..out.len()]);
    }

    /// Widens the first `out.len()` numbers and adds them to `out`.
    ///
    /// # Panics
    /// If the buffer is too short.
    pub(crate) fn add_to(&self, out: &mut [f32]) {
        widen_and_add(out, &self.bits()[..out.len()]);
    }

    /// Returns the numbers' bits.
    pub(crate) fn bits(&self) -> &[u16] {
        &self.memory[self.range()]
    }

    /// Returns the numbers' bits, for writing.
    pub(crate) fn bits_mut(&mut self) -> &mut [u16] {
        let range = self.range();
        &mut self.memory[range]
    }

    fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn round(out: &mut [u16], values: &[f32]) {
    for (out, value) in out.iter_mut().zip(values) {
        let bits = value.to_bits();
        let nearest = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
        // NaN must stay NaN: rounding its bits up could yield a number.
        *out = if value.is_nan() { 0x7fc0 } else { nearest };
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn widen(out: &mut [f32], bits: &[u16]) {
    for (out, &bits) in out.iter_mut().zip(bits) {
        *out = f32::from_bits(u32::from(bits) << 16);
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn widen_and_add(out: &mut [f32], bits: &[u16]) {
    for (out, &bits) in out.iter_mut().zip(bits) {
        *out += f32::from_bits(u32::from(bits) << 16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_the_nearest_and_ties_to_even() {
        // Sign, exponent and seven bits of the fraction are kept.
        for (value, kept) in [
            (0x3f80_0000, 0x3f80),
            (0x3f80_7fff, 0x3f80),
            (0x3f80_8000, 0x3f80),
            (0x3f80_8001, 0x3f81),
            (0x3f81_8000, 0x3f82),
            (0xbf81_8000, 0xbf82),
            (0x7f7f_ffff, 0x7f80),
            (0x7f80_0000, 0x7f80),
            (0x0000_8000, 0x0000),
            (0x8000_0000, 0x8000),
        ] {
            let mut buffer = HalfBuffer::zeros(1);
            buffer.load(&[f32::from_bits(value)]);
            assert_eq!(buffer.bits(), [kept], "{value:x}");
        }
        let mut buffer = HalfBuffer::zeros(2);
        assert_eq!(buffer.bits().as_ptr().align_offset(LINE), 0);
        let mut ours = [0.0; 2];
        buffer.load(&[1.5, -3.0]);
        buffer.store(&mut ours);
        buffer.add_to(&mut ours);
        assert_eq!(ours, [3.0, -6.0]);
        buffer.load(&[f32::NAN, f32::from_bits(0x7fff_ffff)]);
        buffer.store(&mut ours);
        assert!(ours[0].is_nan() && ours[1].is_nan());
    }
}
