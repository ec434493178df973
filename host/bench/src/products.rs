//! Speed of our own matrix products on the shapes of a training step, on several threads at once.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, RwLock};
use std::time::Duration;

use pbg_core::model::{Precision, Update};
use pbg_gemm::buffer::FloatBuffer;
use pbg_gemm::{OutputMatrix, StridedMatrix, multiply};
use pbg_kernels::libtorch::ProductShape;
use pbg_model::{ResolvedConfig, RunError};
use pbg_rows::spec::step_plan;

use crate::throughput::{ChunkProducts, operations};

/// Time for which each product is measured.
const DURATION: Duration = Duration::from_millis(200);
/// Largest extent of a measured product, so that its memory is bounded. Larger ones are no faster or slower per
/// operation: they are computed in blocks.
const MAX_EXTENT: i64 = 16 << 10;
/// Positives of a slice with all negatives, at most: more do not share a product.
const MAX_SLICE: usize = 256;

/// Returns the edges per second of `workers` threads at once if a step consisted only of its matrix products, computed
/// by our own kernels; `None` if the configuration's products are not in single precision, or it has none. Threads share
/// caches, memory and the processor's power, so this is less than `workers` times the speed of one.
///
/// # Errors
/// When a thread cannot be started.
pub fn products_together(
    resolved: &ResolvedConfig,
    workers: usize,
) -> Result<Option<f64>, RunError> {
    let (config, spec) = (resolved.config(), &resolved.blueprint().spec);
    if config.execution.precision != Precision::Fp32 || spec.comparator.formula().is_some() {
        return Ok(None);
    }
    let all = spec.relations[0].all_negs;
    let batch = match all {
        true => (config.batch_size as usize).min(MAX_SLICE),
        false => config.batch_size as usize,
    };
    // Workers that share a batch divide the entities among them, and have its edges in common.
    let shared = if spec.shares_batches() { workers } else { 1 };
    let entities = crate::entities(resolved).div_ceil(shared);
    let step = step_plan(0, &spec.step_spec(0, false), Update::Batch)?;
    let shares_products = step.passes.iter().any(|pass| pass.shares_products);
    let products = ChunkProducts::new(spec, batch, entities, shares_products);
    if products.shapes.is_empty() {
        return Ok(None);
    }
    Ok(Some(measure(&products, workers)? / shared as f64))
}

/// Returns the sum of the edges per second of all threads, of which each computes the products of its own.
fn measure(products: &ChunkProducts, workers: usize) -> Result<f64, RunError> {
    let barrier = Barrier::new(workers);
    // Nobody waits at the barrier before all threads are there.
    let (gate, stopped) = (RwLock::new(()), AtomicBool::new(false));
    let edges_per_second = || {
        let passed = gate.read();
        if stopped.load(Ordering::Acquire) {
            return 0.0;
        }
        drop(passed);
        let rate = |shape| Ok::<_, Infallible>(multiply_rate(shape, &barrier));
        let Ok(seconds) = products.seconds(rate);
        products.edges as f64 / seconds
    };
    std::thread::scope(|scope| {
        let closed = gate.write();
        let mut threads = Vec::with_capacity(workers);
        for _ in 0..workers {
            let thread = std::thread::Builder::new().spawn_scoped(scope, edges_per_second);
            threads.push(thread.map_err(|e| {
                stopped.store(true, Ordering::Release);
                RunError::Thread(e.to_string())
            })?);
        }
        drop(closed);
        let rates = threads.into_iter().map(|thread| thread.join());
        Ok(rates
            .map(|rate| rate.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum())
    })
}

/// Returns the floating-point operations per second of one product on this thread, while all threads measure it.
fn multiply_rate(shape: ProductShape, barrier: &Barrier) -> f64 {
    let [rows, inner, columns] =
        [shape.rows, shape.inner, shape.columns].map(|extent| extent.min(MAX_EXTENT));
    let measured = ProductShape {
        rows,
        inner,
        columns,
        ..shape
    };
    let [rows, inner, columns] = [rows, inner, columns].map(|extent| extent as usize);
    let (a, b) = (filled(rows * inner), filled(inner * columns));
    let mut out = FloatBuffer::zeros(rows * columns);
    let matrix = |buffer, row_stride| StridedMatrix {
        values: FloatBuffer::as_slice(buffer),
        row_stride,
        column_stride: 1,
    };
    let mut once = || {
        let out = OutputMatrix::dense(out.as_mut_slice(), columns);
        let factors = (matrix(&a, inner), matrix(&b, columns));
        multiply(out, [rows, inner, columns], factors.0, factors.1, false);
    };
    // The first product allocates, and the system provides memory when it is written.
    once();
    barrier.wait();
    let (start, mut repetitions) = (pbg_clock::now(), 0);
    while repetitions < 3 || start.elapsed() < DURATION {
        once();
        repetitions += 1;
    }
    operations(measured) * f64::from(repetitions) / start.elapsed().as_secs_f64()
}

/// Returns numbers that are not zero: some processors are faster with zeros.
fn filled(count: usize) -> FloatBuffer {
    let mut buffer = FloatBuffer::zeros(count);
    for (i, value) in buffer.as_mut_slice().iter_mut().enumerate() {
        *value = (i % 101) as f32 / 50.0 - 0.99;
    }
    buffer
}
