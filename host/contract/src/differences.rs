//! Embeddings for the checks of formulas, and finite differences.

/// Step of the finite differences, which are computed in f64.
const STEP: f64 = 1e-5;

/// Returns pseudo-random numbers in [-1, 1), the same each time.
pub(crate) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Returns the numbers in f64.
pub(crate) fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&number| f64::from(number)).collect()
}

/// Returns the slopes on both sides of `values[i]`, the smaller one first. Where they differ there is a kink, and any
/// slope between them is accepted.
pub(crate) fn one_sided_slopes(
    values: &[f64],
    i: usize,
    value: impl Fn(&[f64]) -> f64,
) -> (f64, f64) {
    let moved = |by: f64| {
        let mut values = values.to_vec();
        values[i] += by;
        value(&values)
    };
    let here = moved(0.0);
    let (left, right) = ((here - moved(-STEP)) / STEP, (moved(STEP) - here) / STEP);
    (left.min(right), left.max(right))
}

/// Returns how far a derivative is outside the range of the finite differences, or an error if it is too far.
pub(crate) fn compare(
    claimed: f64,
    (least, most): (f64, f64),
    of: impl FnOnce() -> String,
) -> Result<f64, String> {
    let outside = (least - claimed).max(claimed - most).max(0.0);
    match outside <= 2e-3 * (1.0 + claimed.abs()) {
        true => Ok(outside),
        false => Err(format!(
            "the gradient is {claimed}, finite differences give {least} to {most}; of {}",
            of()
        )),
    }
}
