//! The interface to libtorch, which computes products of bfloat16 on the cores and the whole step on a GPU.
//!
//! Loading libtorch takes half a second of every start and as much memory as a small run, so nothing here needs
//! it. A program that has loaded it registers it with [`install`]; code that needs it calls [`installed`].

use std::fmt;
use std::sync::OnceLock;

use pbg_core::model::Precision;
use pbg_rows::spec::ModelSpec;

use crate::device::{OpenDevice, OpenError};
pub use crate::error::LibtorchNotLoaded;
use crate::error::{StepError, WorkerError};

/// The operations of libtorch that the kernels and benchmarks use.
pub trait Libtorch: fmt::Debug + Send + Sync {
    /// Computes `out = a b` of bfloat16 matrices, matrix by matrix, or `out += a b` with `accumulate`. Numbers between
    /// two matrices of `out` keep their values.
    ///
    /// # Errors
    /// When libtorch fails.
    ///
    /// # Panics
    /// If a matrix extends beyond the end of its slice.
    fn multiply(
        &self,
        out: &mut [u16],
        layout: HalfLayout,
        a: HalfMatrices<'_>,
        b: HalfMatrices<'_>,
        accumulate: bool,
    ) -> Result<(), StepError>;

    /// Opens GPU `index`, counted from 0.
    ///
    /// # Errors
    /// When the GPU does not exist, or a library that computes on it is missing.
    fn open(&self, index: u32) -> Result<Box<dyn OpenDevice>, OpenError>;

    /// Returns the reason why `spec` cannot be trained on a GPU, if there is one.
    fn refusal(&self, spec: &ModelSpec, precision: Precision) -> Option<String>;

    /// Creates a product of random factors, for benchmarks that compare other products with libtorch's.
    ///
    /// # Errors
    /// When libtorch fails.
    fn product(
        &self,
        shape: ProductShape,
        precision: Precision,
    ) -> Result<Box<dyn BenchmarkProduct>, WorkerError>;
}

/// Layout of equally large matrices in a slice of numbers: `count` matrices of `rows` x `columns`, row-major, of which
/// the first starts at the first number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfLayout {
    /// Number of matrices.
    pub count: usize,
    /// Numbers from the start of one matrix to the start of the next.
    pub stride: usize,
    /// Rows per matrix.
    pub rows: usize,
    /// Columns per matrix; rows follow each other without gaps.
    pub columns: usize,
}

impl HalfLayout {
    /// Returns the numbers from the start of the first matrix to the end of the last.
    #[must_use]
    pub fn reach(&self) -> usize {
        let before = self.count.saturating_sub(1) * self.stride;
        before + self.rows * self.columns
    }
}

/// A factor of a product: matrices of bfloat16.
#[derive(Clone, Copy, Debug)]
pub struct HalfMatrices<'a> {
    /// The numbers, each as the upper half of an `f32`.
    pub bits: &'a [u16],
    /// Layout of the matrices in `bits`.
    pub layout: HalfLayout,
    /// Whether each matrix is transposed before it is multiplied.
    pub transposed: bool,
}

/// Shape of a batched matrix product `[batch, rows, inner] x [batch, inner, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// Number of matrices.
    pub batch: i64,
    /// Rows of the left factor.
    pub rows: i64,
    /// Columns of the left factor, rows of the right one.
    pub inner: i64,
    /// Columns of the right factor.
    pub columns: i64,
}

/// A product that libtorch can compute repeatedly, on the calling thread.
pub trait BenchmarkProduct {
    /// Multiplies the factors once.
    ///
    /// # Errors
    /// When libtorch fails.
    fn multiply(&self) -> Result<(), WorkerError>;
}

static INSTALLED: OnceLock<&'static dyn Libtorch> = OnceLock::new();

/// Registers libtorch for the kernels of this process; only the first call has an effect.
pub fn install(libtorch: &'static dyn Libtorch) {
    INSTALLED.get_or_init(|| libtorch);
}

/// Returns the registered libtorch.
///
/// # Errors
/// When the program has registered none.
pub fn installed() -> Result<&'static dyn Libtorch, LibtorchNotLoaded> {
    INSTALLED.get().copied().ok_or(LibtorchNotLoaded)
}
