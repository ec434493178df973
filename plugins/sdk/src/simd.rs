//! Vectorised functions on slices of `f32`, for computed losses.
//!
//! The loops process 16 numbers per step and compile to 128-bit vectors in the sandbox. No function
//! uses fused multiply-add, so the sandbox and a native test give the same bits.
//!
//! Accuracy against exact values, over all arguments whose result is a normal number: [`exp`] and
//! [`log`] within 2 units in the last place, [`sigmoid`] and [`softplus`] within 3. Where `e^x` is
//! below the smallest normal number, `exp` is 0. NaN stays NaN.

use pbg_formula::maths;

/// Numbers per loop step: four vectors of the sandbox, so that their latencies overlap.
const WIDTH: usize = 16;

/// Replaces each x by `e^x`.
///
/// ```
/// let mut x = [0.0, 1.0, -1e9];
/// pbg_plugin_sdk::simd::exp(&mut x);
/// assert_eq!(x, [1.0, std::f32::consts::E, 0.0]);
/// ```
pub fn exp(values: &mut [f32]) {
    map(values, exp_of);
}

/// Replaces each x by `e^(x - shift)`, and returns the sum of the results. With the largest value as
/// `shift` nothing overflows.
///
/// ```
/// let mut x = [1000.0, 1000.0];
/// assert_eq!(pbg_plugin_sdk::simd::exp_shifted(&mut x, 1000.0), 2.0);
/// assert_eq!(x, [1.0, 1.0]);
/// ```
pub fn exp_shifted(values: &mut [f32], shift: f32) -> f32 {
    map_sum(values, |x| {
        let e = exp_of(x - shift);
        (e, e)
    })
}

/// Replaces each x by its natural logarithm; negative infinity for 0, NaN below.
///
/// ```
/// let mut x = [1.0, 0.0];
/// pbg_plugin_sdk::simd::log(&mut x);
/// assert_eq!(x, [0.0, f32::NEG_INFINITY]);
/// ```
pub fn log(values: &mut [f32]) {
    map(values, log_of);
}

/// Replaces each x by `ln(1 + e^x)`, which is finite also where `e^x` overflows.
///
/// ```
/// let mut x = [1e9, 0.0, -1e9];
/// pbg_plugin_sdk::simd::softplus(&mut x);
/// assert_eq!(x, [1e9, std::f32::consts::LN_2, 0.0]);
/// ```
pub fn softplus(values: &mut [f32]) {
    map(values, |x| sigmoid_and_softplus(x).1);
}

/// Replaces each x by `1 / (1 + e^-x)`.
///
/// ```
/// let mut x = [1e9, 0.0, -1e9];
/// pbg_plugin_sdk::simd::sigmoid(&mut x);
/// assert_eq!(x, [1.0, 0.5, 0.0]);
/// ```
pub fn sigmoid(values: &mut [f32]) {
    map(values, |x| sigmoid_and_softplus(x).0);
}

/// Replaces each x by `factor * sigmoid(x)`, the derivative of `factor * softplus(x)`, and returns
/// the sum of `softplus(x)`. Both together cost as much as one of them.
///
/// ```
/// let mut x = [0.0, 0.0];
/// let sum = pbg_plugin_sdk::simd::softplus_with_slope(&mut x, 0.5);
/// assert_eq!((sum, x), (2.0 * std::f32::consts::LN_2, [0.25, 0.25]));
/// ```
pub fn softplus_with_slope(values: &mut [f32], factor: f32) -> f32 {
    map_sum(values, |x| {
        let (sigmoid, softplus) = sigmoid_and_softplus(x);
        (factor * sigmoid, softplus)
    })
}

/// Multiplies each value.
///
/// ```
/// let mut x = [1.0, 2.0];
/// pbg_plugin_sdk::simd::scale(&mut x, 3.0);
/// assert_eq!(x, [3.0, 6.0]);
/// ```
pub fn scale(values: &mut [f32], factor: f32) {
    map(values, |x| factor * x);
}

/// Returns the sum, computed as 16 partial sums.
///
/// ```
/// assert_eq!(pbg_plugin_sdk::simd::sum(&[1.0, 2.0, 3.0]), 6.0);
/// ```
#[must_use]
pub fn sum(values: &[f32]) -> f32 {
    fold(values, 0.0, |a, x| a + x)
}

/// Returns the largest value, negative infinity for an empty slice; NaN is ignored.
///
/// ```
/// assert_eq!(pbg_plugin_sdk::simd::max(&[1.0, 7.0, 3.0]), 7.0);
/// assert_eq!(pbg_plugin_sdk::simd::max(&[]), f32::NEG_INFINITY);
/// ```
#[must_use]
pub fn max(values: &[f32]) -> f32 {
    fold(values, f32::NEG_INFINITY, |a, x| if x > a { x } else { a })
}

/// Returns `ln(sum(e^x))`, without overflow; negative infinity for an empty slice. To compute the
/// gradient as well, use [`max`] and [`exp_shifted`].
///
/// ```
/// let found = pbg_plugin_sdk::simd::logsumexp(&[1000.0, 1000.0]);
/// assert!((found - 1000.0 - std::f32::consts::LN_2).abs() < 1e-4);
/// assert_eq!(pbg_plugin_sdk::simd::logsumexp(&[]), f32::NEG_INFINITY);
/// ```
#[must_use]
pub fn logsumexp(values: &[f32]) -> f32 {
    let largest = max(values);
    if largest == f32::NEG_INFINITY {
        // The slice is empty or has only negative infinities and NaN.
        return fold(values, largest, |a, x| if x.is_nan() { x } else { a });
    }
    let (chunks, rest) = values.as_chunks::<WIDTH>();
    let mut sums = [0.0; WIDTH];
    for chunk in chunks {
        for i in 0..WIDTH {
            sums[i] += exp_of(chunk[i] - largest);
        }
    }
    for (sum, &x) in sums.iter_mut().zip(rest) {
        *sum += exp_of(x - largest);
    }
    largest + log_of(join(sums, |a, b| a + b))
}

/// Applies `f` to each value in place.
#[inline(always)]
fn map(values: &mut [f32], f: impl Fn(f32) -> f32) {
    map_sum(values, |x| (f(x), 0.0));
}

/// Applies `f` to each value in place, and adds up the second results.
#[inline(always)]
fn map_sum(values: &mut [f32], f: impl Fn(f32) -> (f32, f32)) -> f32 {
    let mut sums = [0.0; WIDTH];
    let (chunks, rest) = values.as_chunks_mut::<WIDTH>();
    for chunk in chunks {
        for i in 0..WIDTH {
            let (value, term) = f(chunk[i]);
            chunk[i] = value;
            sums[i] += term;
        }
    }
    // The remaining numbers are padded to the full width.
    let mut last = [0.0; WIDTH];
    let count = rest.len();
    last[..count].copy_from_slice(rest);
    for i in 0..WIDTH {
        let (value, term) = f(last[i]);
        last[i] = value;
        sums[i] += if i < count { term } else { 0.0 };
    }
    rest.copy_from_slice(&last[..count]);
    join(sums, |a, b| a + b)
}

#[inline(always)]
fn fold(values: &[f32], initial: f32, step: impl Fn(f32, f32) -> f32) -> f32 {
    let mut found = [initial; WIDTH];
    let (chunks, rest) = values.as_chunks::<WIDTH>();
    for chunk in chunks {
        for i in 0..WIDTH {
            found[i] = step(found[i], chunk[i]);
        }
    }
    for (found, &x) in found.iter_mut().zip(rest) {
        *found = step(*found, x);
    }
    join(found, step)
}

#[inline(always)]
fn join(mut parts: [f32; WIDTH], step: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = WIDTH / 2;
    while half > 0 {
        for i in 0..half {
            parts[i] = step(parts[i], parts[i + half]);
        }
        half /= 2;
    }
    parts[0]
}

#[inline(always)]
fn exp_of(x: f32) -> f32 {
    maths::exp::<false>(x)
}

#[inline(always)]
fn log_of(x: f32) -> f32 {
    maths::log::<false>(x)
}

#[inline(always)]
fn sigmoid_and_softplus(x: f32) -> (f32, f32) {
    maths::sigmoid_and_softplus::<false>(x, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the error of `found` in units in the last place of the f32 nearest to `exact`.
    fn ulps(found: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        let next = f32::from_bits(nearest.abs().to_bits() + 1);
        (f64::from(found) - exact).abs() / (f64::from(next) - f64::from(nearest.abs()))
    }

    /// Returns the largest error of `function` over `arguments`, evaluated in slices of an odd length.
    fn worst(
        arguments: impl Iterator<Item = f32>,
        function: fn(&mut [f32]),
        exact: fn(f64) -> f64,
    ) -> f64 {
        let arguments: Vec<f32> = arguments.collect();
        let mut worst: f64 = 0.0;
        for slice in arguments.chunks(37) {
            let mut found = slice.to_vec();
            function(&mut found);
            for (&x, &y) in slice.iter().zip(&found) {
                worst = worst.max(ulps(y, exact(x.into())));
            }
        }
        worst
    }

    fn range(from: f32, to: f32) -> impl Iterator<Item = f32> {
        (0..400_000).map(move |i| from + (to - from) * (i as f32 / 400_000.0))
    }

    #[test]
    fn accuracy_is_what_the_documentation_says() {
        let e = worst(range(-87.3, 88.7), exp, f64::exp);
        assert!(e <= 2.0, "{e}");
        let positive = (1..0x7f80_0000).step_by(4999).map(f32::from_bits);
        let l = worst(positive, log, f64::ln);
        assert!(l <= 2.0, "{l}");
        let s = worst(range(-87.0, 100.0), sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
        assert!(s <= 3.0, "{s}");
        let p = worst(range(-87.0, 100.0), softplus, |x| {
            if x > 50.0 { x } else { x.exp().ln_1p() }
        });
        assert!(p <= 3.0, "{p}");
    }

    #[test]
    fn the_edges_are_exact() {
        let edges = [
            0.0,
            -1e9,
            f32::NEG_INFINITY,
            -88.0,
            89.0,
            f32::INFINITY,
            f32::NAN,
        ];
        let applied = |f: fn(&mut [f32])| {
            let mut values = edges;
            f(&mut values);
            assert!(values[6].is_nan());
            values[..6].to_vec()
        };
        let inf = f32::INFINITY;
        assert_eq!(applied(exp), [1.0, 0.0, 0.0, 0.0, inf, inf]);
        assert_eq!(applied(sigmoid), [0.5, 0.0, 0.0, 0.0, 1.0, 1.0]);
        let softplus = applied(softplus);
        assert_eq!(softplus, [std::f32::consts::LN_2, 0.0, 0.0, 0.0, 89.0, inf]);
        let mut logs = [1.0, 0.0, inf, -1.0, f32::NAN];
        log(&mut logs);
        assert_eq!(logs[..3], [0.0, -inf, inf]);
        assert!(logs[3].is_nan() && logs[4].is_nan());
    }

    #[test]
    fn reductions_agree_with_plain_ones_at_any_length() {
        for n in [0, 1, 15, 16, 17, 100] {
            let values: Vec<f32> = (0..n).map(|i| ((i * 37) % 19) as f32 / 3.0 - 2.0).collect();
            let plain: f32 = values.iter().sum();
            assert!((sum(&values) - plain).abs() < 1e-4);
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(&values), largest);
            let exact = values.iter().map(|&x| f64::from(x).exp()).sum::<f64>().ln();
            let found = f64::from(logsumexp(&values));
            assert!(
                found == exact || (found - exact).abs() < 1e-5,
                "{n}: {found} {exact}"
            );
        }
        assert!(logsumexp(&[f32::NAN]).is_nan() && logsumexp(&[0.0, f32::NAN]).is_nan());
    }
}
