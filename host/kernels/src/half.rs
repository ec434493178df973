//! Factors of matrix products with half the bits: bfloat16, the upper half of a float.

#![expect(unsafe_code, reason = "the memory of libtorch's tensors as slices")]

use tch::{Device, Kind, TchError, Tensor};

/// A preallocated bfloat16 tensor in main memory that floats are rounded into and widened from.
pub(crate) struct HalfBuffer {
    tensor: Tensor,
    len: usize,
}

impl std::fmt::Debug for HalfBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HalfBuffer {{ len: {} }}", self.len)
    }
}

impl HalfBuffer {
    /// A zeroed buffer of `len` numbers.
    pub(crate) fn zeros(len: usize) -> Result<Self, TchError> {
        // One number at least, so that there is always an address.
        let size = [len.max(1) as i64];
        let tensor = Tensor::f_zeros(size, (Kind::BFloat16, Device::Cpu))?;
        Ok(Self { tensor, len })
    }

    /// Makes room for `len` numbers; only ever allocates when a batch is larger than all before.
    pub(crate) fn reserve(&mut self, len: usize) -> Result<(), TchError> {
        if self.len < len {
            *self = Self::zeros(len)?;
        }
        Ok(())
    }

    /// Numbers it has room for.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A view of the numbers.
    pub(crate) fn view(
        &self,
        size: &[i64],
        strides: &[i64],
        offset: usize,
    ) -> Result<Tensor, TchError> {
        self.tensor.f_as_strided(size, strides, offset as i64)
    }

    /// Rounds `values` to the nearest numbers from the buffer's start on, ties to even.
    ///
    /// # Panics
    /// If there is no room for them.
    pub(crate) fn load(&mut self, values: &[f32]) {
        round(&mut self.bits_mut()[..values.len()], values);
    }

    /// Widens the first numbers into `out`.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn store(&self, out: &mut [f32]) {
        widen(out, &self.bits()[..out.len()]);
    }

    /// Adds the first numbers to `out`.
    ///
    /// # Panics
    /// If there are fewer.
    pub(crate) fn add_to(&self, out: &mut [f32]) {
        widen_and_add(out, &self.bits()[..out.len()]);
    }

    fn bits(&self) -> &[u16] {
        let start = self.tensor.data_ptr().cast::<u16>().cast_const();
        // SAFETY: `zeros` made a contiguous tensor of `len` 2-byte numbers in main memory, which nothing
        // resizes. Views of it are written only by products that take their output's buffer by `&mut`,
        // so nothing writes while this borrow lives.
        unsafe { std::slice::from_raw_parts(start, self.len) }
    }

    fn bits_mut(&mut self) -> &mut [u16] {
        let start = self.tensor.data_ptr().cast::<u16>();
        // SAFETY: as in `bits`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(start, self.len) }
    }
}

#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx2+fma", "x86_64+avx2+fma"))]
fn round(out: &mut [u16], values: &[f32]) {
    for (out, value) in out.iter_mut().zip(values) {
        let bits = value.to_bits();
        let nearest = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
        // What is not a number must stay so: rounding up could make it one.
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
    fn rounds_as_libtorch_does() -> Result<(), TchError> {
        let mut values: Vec<f32> = (0..10_000)
            .map(|i| (i as f32 - 5000.0) * 1.000_37e-3)
            .collect();
        values.extend([0.0, -0.0, f32::MAX, f32::INFINITY, f32::MIN_POSITIVE, 1e-42]);
        let mut buffer = HalfBuffer::zeros(values.len())?;
        buffer.load(&values);
        let mut ours = vec![0.0; values.len()];
        buffer.store(&mut ours);
        let theirs = Tensor::from_slice(&values)
            .to_kind(Kind::BFloat16)
            .to_kind(Kind::Float);
        assert_eq!(ours, Vec::<f32>::try_from(theirs)?);
        buffer.add_to(&mut ours);
        assert_eq!(ours[17], 2.0 * ours[17] / 2.0);
        buffer.load(&[f32::NAN, f32::from_bits(0x7fff_ffff)]);
        buffer.store(&mut ours[..2]);
        assert!(ours[0].is_nan() && ours[1].is_nan());
        Ok(())
    }
}
