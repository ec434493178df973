//! Products of bfloat16 matrices in main memory that libtorch does not own.

#![expect(unsafe_code, reason = "numbers in main memory as libtorch's tensors")]

use pbg_kernels::libtorch::{HalfLayout, HalfMatrices};
use tch::{Device, Kind, TchError, Tensor};

/// Multiplies matrices; see [`Libtorch::multiply`](pbg_kernels::libtorch::Libtorch::multiply).
pub(super) fn multiply(
    out: &mut [u16],
    layout: HalfLayout,
    a: HalfMatrices<'_>,
    b: HalfMatrices<'_>,
    accumulate: bool,
) -> Result<(), TchError> {
    for (numbers, layout) in [
        (out.len(), layout),
        (a.bits.len(), a.layout),
        (b.bits.len(), b.layout),
    ] {
        assert!(
            layout.reach() <= numbers,
            "the matrices lie in their buffer"
        );
    }
    // A single matrix is a few microseconds cheaper without a batch dimension, and its result may be a view.
    let batched = layout.count > 1;
    // SAFETY: all matrices lie within their slices, as was just checked. The slices outlive the tensors, which end with
    // this call and to which libtorch keeps no reference. libtorch writes only to `out`, whose borrow is exclusive, and
    // only reads the factors.
    let (mut out, a, b) = unsafe {
        (
            view(out.as_mut_ptr(), layout, false, batched)?,
            view(a.bits.as_ptr(), a.layout, a.transposed, batched)?,
            view(b.bits.as_ptr(), b.layout, b.transposed, batched)?,
        )
    };
    let _same = match (batched, accumulate) {
        (false, false) => a.f_mm_out(&out, &b)?,
        (false, true) => out.f_addmm_(&a, &b)?,
        (true, false) => a.f_bmm_out(&out, &b)?,
        (true, true) => out.f_baddbmm_(&a, &b)?,
    };
    Ok(())
}

/// Returns matrices as a tensor of two dimensions, or of three if `batched`.
///
/// # Safety
/// All matrices of `layout`, counted from `start`, must lie in memory that is readable for as long as the tensor lives,
/// and writable if the tensor is written.
unsafe fn view(
    start: *const u16,
    layout: HalfLayout,
    transposed: bool,
    batched: bool,
) -> Result<Tensor, TchError> {
    let (rows, columns) = (layout.rows as i64, layout.columns as i64);
    let (mut size, mut strides) = match transposed {
        true => (vec![columns, rows], vec![1, columns]),
        false => (vec![rows, columns], vec![columns, 1]),
    };
    if batched {
        size.insert(0, layout.count as i64);
        strides.insert(0, layout.stride as i64);
    }
    // SAFETY: the caller guarantees the memory; a bfloat16 number has two bytes.
    unsafe { Tensor::f_from_blob(start.cast(), &size, &strides, Kind::BFloat16, Device::Cpu) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(count: usize, stride: usize, rows: usize, columns: usize) -> HalfLayout {
        HalfLayout {
            count,
            stride,
            rows,
            columns,
        }
    }

    /// Returns the upper half of a small number; its lower half is zero.
    fn bits(number: f32) -> u16 {
        (number.to_bits() >> 16) as u16
    }

    #[test]
    fn products_leave_what_lies_between_matrices() -> Result<(), TchError> {
        crate::load_found();
        let number = |i: usize| bits(i as f32);
        let a: Vec<u16> = (0..2 * 6).map(number).collect();
        // The second factor: two matrices of 2 x 3, transposed.
        let b: Vec<u16> = (1..=2 * 6).map(number).collect();
        let mut out = vec![bits(7.0); 2 * 5];
        let factor = |bits, transposed| HalfMatrices {
            bits,
            layout: layout(2, 6, 2, 3),
            transposed,
        };
        for (accumulate, times) in [(false, 1.0), (true, 2.0)] {
            let factors = (factor(&a, false), factor(&b, true));
            multiply(
                &mut out,
                layout(2, 5, 2, 2),
                factors.0,
                factors.1,
                accumulate,
            )?;
            // [0 1 2; 3 4 5] [1 4; 2 5; 3 6], and the same with 6 added to each element.
            let expected = [8.0, 17.0, 26.0, 62.0, 7.0, 170.0, 233.0, 242.0, 332.0];
            for (i, (&bits, &sum)) in out.iter().zip(&expected).enumerate() {
                let found = f32::from_bits(u32::from(bits) << 16);
                let expected = if i == 4 { sum } else { times * sum };
                // bfloat16 keeps eight bits.
                assert!((found - expected).abs() <= expected / 128.0, "{i}: {found}");
            }
            assert_eq!(out[9], bits(7.0));
        }
        Ok(())
    }

    #[test]
    #[should_panic(expected = "the matrices lie in their buffer")]
    fn matrices_that_reach_too_far_are_refused() {
        crate::load_found();
        let a = [0; 6];
        let factor = HalfMatrices {
            bits: &a,
            layout: layout(1, 6, 2, 3),
            transposed: false,
        };
        let longer = HalfMatrices {
            layout: layout(2, 3, 2, 3),
            ..factor
        };
        let _never = multiply(&mut [0; 9], layout(1, 9, 2, 2), factor, longer, false);
    }
}
