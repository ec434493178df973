//! Speed of our own matrix products on the shapes of a training step, on several threads at once.

use std::convert::Infallible;
use std::sync::Barrier;
use std::time::Duration;

use pbg_core::model::Precision;
use pbg_gemm::buffer::FloatBuffer;
use pbg_gemm::{OutputMatrix, StridedMatrix, multiply};
use pbg_kernels::libtorch::ProductShape;
use pbg_model::ResolvedConfig;

use crate::throughput::{ChunkProducts, operations};

/// Time for which each product is measured.
const DURATION: Duration = Duration::from_millis(200);

/// Returns the edges per second of `workers` threads at once if a step consisted only of its matrix products, computed
/// by our own kernels; `None` if the configuration's products are not in single precision, or its comparator needs
/// none. Threads share caches, memory and the processor's power, so this is less than `workers` times the speed of one.
#[must_use]
pub fn products_together(resolved: &ResolvedConfig, workers: usize) -> Option<f64> {
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let spec = &blueprint.spec;
    if config.execution.precision != Precision::Fp32 || spec.comparator.formula().is_some() {
        return None;
    }
    let (batch, entities) = (config.batch_size as usize, crate::entities(resolved));
    let products = ChunkProducts::new(spec, batch, entities);
    let barrier = Barrier::new(workers);
    let edges_per_second = || {
        // All threads measure the same product at the same time.
        let rate = |shape| {
            barrier.wait();
            Ok::<_, Infallible>(multiply_rate(shape))
        };
        let Ok(seconds) = products.seconds(rate);
        products.edges as f64 / seconds
    };
    let rates = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers)
            .map(|_| scope.spawn(edges_per_second))
            .collect();
        let rates = threads.into_iter().map(|thread| thread.join());
        rates
            .map(|rate| rate.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    });
    Some(rates)
}

/// Returns the floating-point operations per second of one product on this thread.
fn multiply_rate(shape: ProductShape) -> f64 {
    let [rows, inner, columns] = [shape.rows, shape.inner, shape.columns].map(|n| n as usize);
    let a = FloatBuffer::zeros(rows * inner);
    let b = FloatBuffer::zeros(inner * columns);
    let mut out = FloatBuffer::zeros(rows * columns);
    let matrix = |buffer, row_stride| StridedMatrix {
        values: FloatBuffer::as_slice(buffer),
        row_stride,
        column_stride: 1,
    };
    let (start, mut repetitions) = (pbg_clock::now(), 0);
    while repetitions < 3 || start.elapsed() < DURATION {
        let out = OutputMatrix::dense(out.as_mut_slice(), columns);
        let factors = (matrix(&a, inner), matrix(&b, columns));
        multiply(out, [rows, inner, columns], factors.0, factors.1, false);
        repetitions += 1;
    }
    operations(shape) * f64::from(repetitions) / start.elapsed().as_secs_f64()
}
