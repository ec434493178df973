//! What libtorch computes for the kernels: products of bfloat16 on the cores, and the whole step on a GPU.
//!
//! libtorch takes half a second of every start and as much memory as a small run. So nothing here is
//! linked with it. The program that is hands it over with [`install`] as it starts; what needs it asks for
//! it with [`installed`].

use std::fmt;
use std::sync::OnceLock;

use pbg_core::model::Precision;

use crate::device::{OpenError, Place};
use crate::error::{StepError, WorkerError};
use crate::spec::ModelSpec;

/// libtorch, as the kernels and those who measure them see it.
pub trait Libtorch: fmt::Debug + Send + Sync {
    /// `out = a b` of bfloat16 matrices, matrix by matrix, or `out += a b` with `accumulate`. What lies
    /// between two matrices of `out` stays as it is.
    ///
    /// # Errors
    /// When libtorch fails.
    ///
    /// # Panics
    /// If matrices reach beyond their numbers.
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
    /// When there is no such GPU, or what computes on it is missing.
    fn open(&self, index: u32) -> Result<Box<dyn Place>, OpenError>;

    /// Why `spec` cannot be trained on a GPU, if so.
    fn refusal(&self, spec: &ModelSpec, precision: Precision) -> Option<String>;

    /// Random factors of a product, for those who compare other products with libtorch's.
    ///
    /// # Errors
    /// When libtorch fails.
    fn product(
        &self,
        shape: ProductShape,
        precision: Precision,
    ) -> Result<Box<dyn Product>, WorkerError>;
}

/// Where equal matrices lie in a slice of numbers, from its first number on: `count` of `rows` x `columns`, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfLayout {
    /// How many matrices.
    pub count: usize,
    /// From the start of one matrix to the start of the next, in numbers.
    pub stride: usize,
    /// Rows of each.
    pub rows: usize,
    /// Columns of each; rows follow each other without a gap.
    pub columns: usize,
}

impl HalfLayout {
    /// Numbers from the start of the first matrix to the end of the last.
    #[must_use]
    pub fn reach(&self) -> usize {
        let before = self.count.saturating_sub(1) * self.stride;
        before + self.rows * self.columns
    }
}

/// Matrices of bfloat16: a factor.
#[derive(Clone, Copy, Debug)]
pub struct HalfMatrices<'a> {
    /// The numbers, as the upper halves of floats.
    pub bits: &'a [u16],
    /// Where the matrices are among them.
    pub layout: HalfLayout,
    /// Whether each is multiplied transposed.
    pub transposed: bool,
}

/// Shape of a batched matrix product `[batch, rows, inner] x [batch, inner, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// Matrices.
    pub batch: i64,
    /// Rows of the left factor.
    pub rows: i64,
    /// Columns of the left factor, rows of the right one.
    pub inner: i64,
    /// Columns of the right factor.
    pub columns: i64,
}

/// A product of libtorch's that can be computed again and again, on the thread that asks.
pub trait Product {
    /// Multiplies the factors once.
    ///
    /// # Errors
    /// When libtorch fails.
    fn multiply(&self) -> Result<(), WorkerError>;
}

/// The program was linked without libtorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this program is linked without it")]
pub struct NotLinked;

static INSTALLED: OnceLock<&'static dyn Libtorch> = OnceLock::new();

/// Hands libtorch over to the kernels of this process; only the first time counts.
pub fn install(libtorch: &'static dyn Libtorch) {
    INSTALLED.get_or_init(|| libtorch);
}

/// What was handed over.
///
/// # Errors
/// When nothing was.
pub fn installed() -> Result<&'static dyn Libtorch, NotLinked> {
    INSTALLED.get().copied().ok_or(NotLinked)
}

impl From<NotLinked> for StepError {
    fn from(error: NotLinked) -> Self {
        Self::Tensor(error.to_string())
    }
}

impl From<NotLinked> for WorkerError {
    fn from(error: NotLinked) -> Self {
        Self::Tensor(error.to_string())
    }
}
