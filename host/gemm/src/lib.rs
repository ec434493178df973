//! Products of single-precision matrices on the calling thread, and memory for them on huge pages.
//!
//! [`multiply`] selects the fastest [`Kernel`] that the processor has for the shape. Kernels with vector instructions
//! follow Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008): the sums of a tile stay in
//! registers, and factors are packed into panels that are as wide as a tile. A thread allocates memory for packed
//! factors at its first product, and none afterwards. `docs/gemm.md` explains why libtorch does not compute these
//! products, and how fast they are.
//!
//! [`buffer::FloatBuffer`] is memory for matrices; [`pages`] places memory on huge pages.

#![expect(
    unsafe_code,
    reason = "instructions of the processor on raw pointers, and advice to the system about pages"
)]

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::cell::RefCell;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use buffer::FloatBuffer;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod blocks;
pub mod buffer;
#[cfg(target_arch = "aarch64")]
mod neon;
pub mod pages;
mod prefetch;
mod product;

pub use prefetch::{prefetch, prefetch_at};
use product::CheckedProduct;
pub use product::{OutputMatrix, StridedMatrix};

/// Floats of a thread's memory for packed factors, which stay in the third-level cache.
const PACKED_FLOATS: usize = 512 << 10;
/// Bytes of memory for packed factors that each multiplying thread keeps.
pub const PACKED_BYTES: usize = 4 * PACKED_FLOATS;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
thread_local! {
    static PACKED: RefCell<FloatBuffer> = RefCell::new(FloatBuffer::zeros(PACKED_FLOATS));
}

/// Computes `out = a b`, or `out += a b` with `accumulate`, where `out [rows, columns]` has contiguous rows, and
/// `a [rows, inner]` and `b [inner, columns]` are each row-major or the transpose of a row-major matrix.
///
/// # Panics
/// If a matrix extends beyond its slice, neither its rows nor its columns are contiguous, or rows of `out` overlap.
pub fn multiply(
    out: OutputMatrix<'_>,
    [rows, inner, columns]: [usize; 3],
    a: StridedMatrix<'_>,
    b: StridedMatrix<'_>,
    accumulate: bool,
) {
    if let Some(product) = CheckedProduct::new(out, [rows, inner, columns], a, b, accumulate) {
        let fastest = Kernel::fastest(rows, columns);
        product.run(fastest);
    }
}

/// Implementation of products for an instruction set. All are as precise as single precision, but round differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Loops without processor-specific instructions.
    Portable,
    /// NEON, of 64-bit Arm processors.
    Neon,
    /// AVX2 and fused multiply-add.
    Avx2,
    /// AVX-512.
    Avx512,
    /// AMX for bfloat16, from which single precision is composed.
    Amx,
}

impl Kernel {
    /// All kernels, slowest first.
    pub const ALL: [Self; 5] = [
        Self::Portable,
        Self::Neon,
        Self::Avx2,
        Self::Avx512,
        Self::Amx,
    ];

    /// Returns whether the processor has the instructions, and the system permits this process to use them.
    #[must_use]
    pub fn is_usable(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f"),
            #[cfg(target_arch = "x86_64")]
            Self::Amx => amx::is_usable(),
            _ => false,
        }
    }

    /// Computes [`multiply`] with this kernel, whatever the shape, for tests and measurements.
    ///
    /// # Panics
    /// As for [`multiply`], and if the kernel is not usable.
    pub fn multiply(
        self,
        out: OutputMatrix<'_>,
        shape: [usize; 3],
        a: StridedMatrix<'_>,
        b: StridedMatrix<'_>,
        accumulate: bool,
    ) {
        if let Some(product) = CheckedProduct::new(out, shape, a, b, accumulate) {
            product.run(self);
        }
    }

    /// Returns the kernel that [`multiply`] uses for a result of this shape.
    fn fastest(rows: usize, columns: usize) -> Self {
        let suits = |kernel: &Self| *kernel != Self::Amx || pays_to_pack_both(rows, columns);
        let mut fastest_first = Self::ALL.into_iter().rev();
        fastest_first
            .find(|kernel| suits(kernel) && kernel.is_usable())
            .unwrap_or(Self::Portable)
    }
}

/// Returns whether AMX is faster although both factors must be packed for it. As measured, packing a float takes 48
/// times what AMX saves at each multiply-add of it, so AMX saves more in all if `1 / rows + 1 / columns < 1 / 48`.
fn pays_to_pack_both(rows: usize, columns: usize) -> bool {
    48 * (rows + columns) < rows * columns
}

impl CheckedProduct<'_> {
    fn run(self, kernel: Kernel) {
        assert!(kernel.is_usable(), "the processor supports {kernel:?}");
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if kernel != Kernel::Portable {
            return PACKED.with_borrow_mut(|packed| self.run_with_vectors(kernel, packed));
        }
        self.run_portably();
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn run_with_vectors(self, kernel: Kernel, packed: &mut FloatBuffer) {
        let packed = packed.as_mut_slice();
        // SAFETY: `run` has checked that the kernel is usable, and `new` that the matrices lie within their slices.
        unsafe {
            match kernel {
                #[cfg(target_arch = "x86_64")]
                Kernel::Amx => amx::run(self, packed),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512 => avx512::run(self, packed),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => avx2::run(self, packed),
                #[cfg(target_arch = "aarch64")]
                Kernel::Neon => neon::run(self, packed),
                _ => self.run_portably(),
            }
        }
    }

    fn run_portably(self) {
        let at = |m: &StridedMatrix<'_>, i: usize, j: usize| {
            m.values[i * m.row_stride + j * m.column_stride]
        };
        for (i, out) in self.out.chunks_mut(self.out_stride).enumerate() {
            let out = &mut out[..self.columns];
            if !self.accumulate {
                out.fill(0.0);
            }
            for k in 0..self.inner {
                let factor = at(&self.a, i, k);
                for (j, out) in out.iter_mut().enumerate() {
                    *out += factor * at(&self.b, k, j);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thin_products_are_not_packed_for_amx() {
        let usable = |kernel: Kernel| kernel.is_usable();
        let fastest = |rows, columns| Kernel::fastest(rows, columns);
        assert_eq!(fastest(1000, 1000) == Kernel::Amx, usable(Kernel::Amx));
        assert_ne!(fastest(40, 4000), Kernel::Amx);
        assert_eq!(fastest(40, 40) == Kernel::Avx512, usable(Kernel::Avx512));
    }
}
