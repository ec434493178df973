//! Loops over floats, compiled for AVX-512, AVX2 and the baseline; the processor's features select one at run time.
//!
//! Reductions keep [`LANES`] partial results, so that they vectorise although floating-point sums must not be
//! reordered. A result therefore depends only on the values and on the processor's features.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

/// Number of partial results of a reduction.
const LANES: usize = 32;

/// Computes `a * b + c`, fused if the caller was compiled with FMA: elsewhere `mul_add` is a function call.
#[inline(always)]
pub fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Folds `x` in [`LANES`] lanes, then the lanes pairwise.
#[inline(always)]
fn lanes(
    x: &[f32],
    initial: f32,
    step: impl Fn(f32, f32) -> f32,
    join: impl Fn(f32, f32) -> f32,
) -> f32 {
    let mut acc = [initial; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            acc[i] = step(acc[i], chunk[i]);
        }
    }
    for (a, &v) in acc.iter_mut().zip(rest) {
        *a = step(*a, v);
    }
    join_lanes(acc, join)
}

/// Folds lanes pairwise to one number.
#[inline(always)]
pub fn join_lanes<const N: usize>(mut acc: [f32; N], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            acc[i] = join(acc[i], acc[i + half]);
        }
        half /= 2;
    }
    acc[0]
}

/// Number of lanes that are processed at once where fewer than [`LANES`] elements are left.
const EIGHT: usize = 8;

/// Folds pairs of elements of `x` and `y` in [`LANES`] lanes, then adds the lanes pairwise.
///
/// `step` must return its first argument if the other two are 0.
#[inline(always)]
fn lanes2(x: &[f32], y: &[f32], step: impl Fn(f32, f32, f32) -> f32) -> f32 {
    let mut acc = [[0.0; EIGHT]; LANES / EIGHT];
    let fold = |acc: &mut [f32; EIGHT], x: &[f32; EIGHT], y: &[f32; EIGHT]| {
        for i in 0..EIGHT {
            acc[i] = step(acc[i], x[i], y[i]);
        }
    };
    let ((xs, x_rest), (ys, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in xs.iter().zip(ys) {
        let (x, y) = (x.as_chunks::<EIGHT>().0, y.as_chunks::<EIGHT>().0);
        for (acc, (x, y)) in acc.iter_mut().zip(x.iter().zip(y)) {
            fold(acc, x, y);
        }
    }
    // The lanes stay in registers only if each of them is named here, and none is chosen by a variable.
    let ((xs, x_rest), (ys, y_rest)) = (x_rest.as_chunks::<EIGHT>(), y_rest.as_chunks::<EIGHT>());
    let (x_last, y_last) = (padded(x_rest), padded(y_rest));
    for (i, acc) in acc.iter_mut().enumerate() {
        match (xs.get(i), ys.get(i)) {
            (Some(x), Some(y)) => fold(acc, x, y),
            _ if i == xs.len() => fold(acc, &x_last, &y_last),
            _ => {}
        }
    }
    let [a, b, c, d] = acc;
    let halves: [f32; EIGHT] = std::array::from_fn(|i| (a[i] + c[i]) + (b[i] + d[i]));
    join_lanes(halves, |a, b| a + b)
}

/// Returns up to seven elements, followed by zeros.
#[inline(always)]
fn padded(rest: &[f32]) -> [f32; EIGHT] {
    let (fours, rest) = rest.as_chunks::<4>();
    let [a, b, c, d] = fours.first().copied().unwrap_or_default();
    let one = |i: usize| rest.get(i).copied().unwrap_or_default();
    match fours.is_empty() {
        true => [one(0), one(1), one(2), 0.0, 0.0, 0.0, 0.0, 0.0],
        false => [a, b, c, d, one(0), one(1), one(2), 0.0],
    }
}

/// Returns the sum of products.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    debug_assert_eq!(x.len(), y.len());
    if target_cfg_f!(target_feature = "fma") {
        lanes2(x, y, |a, u, v| fma::<true>(u, v, a))
    } else {
        lanes2(x, y, |a, u, v| fma::<false>(u, v, a))
    }
}

/// Returns the sum of squared differences.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn squared_distance(x: &[f32], y: &[f32]) -> f32 {
    debug_assert_eq!(x.len(), y.len());
    lanes2(x, y, |a, u, v| a + (u - v) * (u - v))
}

/// Returns the sum.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn sum(x: &[f32]) -> f32 {
    lanes(x, 0.0, |a, v| a + v, |a, b| a + b)
}

/// Returns the largest value, `-inf` for an empty slice; NaN if any value is NaN.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn max(x: &[f32]) -> f32 {
    let largest = lanes(
        x,
        f32::NEG_INFINITY,
        |a, v| if v > a { v } else { a },
        f32::max,
    );
    // NaN loses every comparison above; `x * 0` is NaN only for NaN and infinities.
    let poison = lanes(x, 0.0, |a, v| a + v * 0.0, |a, b| a + b);
    if poison.is_nan() {
        x.iter()
            .fold(largest, |a, &v| if v.is_nan() { v } else { a })
    } else {
        largest
    }
}

/// `y += a * x`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn axpy(y: &mut [f32], a: f32, x: &[f32]) {
    debug_assert_eq!(x.len(), y.len());
    if target_cfg_f!(target_feature = "fma") {
        y.iter_mut()
            .zip(x)
            .for_each(|(y, &x)| *y = fma::<true>(a, x, *y));
    } else {
        y.iter_mut()
            .zip(x)
            .for_each(|(y, &x)| *y = fma::<false>(a, x, *y));
    }
}

/// `y = b * (y + a * x)`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn axpy_scaled(y: &mut [f32], a: f32, x: &[f32], b: f32) {
    debug_assert_eq!(x.len(), y.len());
    if target_cfg_f!(target_feature = "fma") {
        y.iter_mut()
            .zip(x)
            .for_each(|(y, &x)| *y = b * fma::<true>(a, x, *y));
    } else {
        y.iter_mut()
            .zip(x)
            .for_each(|(y, &x)| *y = b * fma::<false>(a, x, *y));
    }
}

/// `y += x`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn add(y: &mut [f32], x: &[f32]) {
    debug_assert_eq!(x.len(), y.len());
    y.iter_mut().zip(x).for_each(|(y, &x)| *y += x);
}

/// `y = a * x`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn scaled(y: &mut [f32], a: f32, x: &[f32]) {
    debug_assert_eq!(x.len(), y.len());
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = a * x);
}

/// `y *= a`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn scale(y: &mut [f32], a: f32) {
    y.iter_mut().for_each(|y| *y *= a);
}

/// `out = x * y`, element-wise.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn multiply(out: &mut [f32], x: &[f32], y: &[f32]) {
    out.iter_mut()
        .zip(x)
        .zip(y)
        .for_each(|((o, &x), &y)| *o = x * y);
}

/// Gradient of [`multiply`]: `y_gradient += gradient * x`, and `gradient *= y`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn multiply_back(gradient: &mut [f32], x: &[f32], y: &[f32], y_gradient: &mut [f32]) {
    let operands = x.iter().zip(y).zip(y_gradient);
    for (g, ((&x, &y), y_gradient)) in gradient.iter_mut().zip(operands) {
        *y_gradient += *g * x;
        *g *= y;
    }
}

/// `out = x y` for complex numbers, stored as a half of real parts and a half of imaginary parts.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn complex_multiply(out: &mut [f32], x: &[f32], y: &[f32]) {
    let half = out.len() / 2;
    let (out_re, out_im) = out.split_at_mut(half);
    let ((a, b), (c, d)) = (x.split_at(half), y.split_at(half));
    let (a, b, c, d) = (&a[..half], &b[..half], &c[..half], &d[..half]);
    for i in 0..half {
        out_re[i] = a[i] * c[i] - b[i] * d[i];
        out_im[i] = a[i] * d[i] + b[i] * c[i];
    }
}

/// Gradient of [`complex_multiply`]: `y_gradient += gradient conj(x)`, and `gradient *= conj(y)`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn complex_multiply_back(gradient: &mut [f32], x: &[f32], y: &[f32], y_gradient: &mut [f32]) {
    let half = gradient.len() / 2;
    let ((g_re, g_im), (out_re, out_im)) =
        (gradient.split_at_mut(half), y_gradient.split_at_mut(half));
    let (g_im, out_re, out_im) = (&mut g_im[..half], &mut out_re[..half], &mut out_im[..half]);
    let ((a, b), (c, d)) = (x.split_at(half), y.split_at(half));
    let (a, b, c, d) = (&a[..half], &b[..half], &c[..half], &d[..half]);
    for i in 0..half {
        let (re, im) = (g_re[i], g_im[i]);
        out_re[i] += re * a[i] + im * b[i];
        out_im[i] += im * a[i] - re * b[i];
        g_re[i] = re * c[i] + im * d[i];
        g_im[i] = im * c[i] - re * d[i];
    }
}

/// Returns the number of values above `threshold`.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn count_above(x: &[f32], threshold: f32) -> u32 {
    x.iter().map(|&v| u32::from(v > threshold)).sum()
}

/// Returns the number of values above `threshold` and the number of values within `tolerance` of it. Values that cannot
/// be compared, because they or the threshold are NaN, count as above: a positive never profits from NaN.
#[inline]
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn count_above_equal(x: &[f32], threshold: f32, tolerance: f32) -> (u32, u32) {
    let (low, high) = (threshold - tolerance, threshold + tolerance);
    let (mut not_above, mut below) = (0, 0);
    for &v in x {
        not_above += u32::from(v <= high);
        below += u32::from(v < low);
    }
    (x.len() as u32 - not_above, not_above - below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize, seed: u32) -> Vec<f32> {
        let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn reductions_agree_with_plain_sums_at_any_length() {
        for n in [0, 1, 7, 31, 32, 33, 100, 1050] {
            let (x, y) = (numbers(n, 1), numbers(n, 2));
            let plain = |f: &dyn Fn(f64, f64) -> f64| {
                x.iter()
                    .zip(&y)
                    .map(|(&a, &b)| f(f64::from(a), f64::from(b)))
                    .sum::<f64>()
            };
            let close = |a: f32, b: f64| {
                assert!(
                    (f64::from(a) - b).abs() <= 1e-5 * (n as f64 + 1.0),
                    "{n}: {a} {b}"
                )
            };
            close(dot(&x, &y), plain(&|a, b| a * b));
            close(squared_distance(&x, &y), plain(&|a, b| (a - b) * (a - b)));
            close(sum(&x), plain(&|a, _| a));
            assert_eq!(max(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            assert_eq!(
                count_above(&x, 0.25) as usize,
                x.iter().filter(|&&v| v > 0.25).count()
            );
            let t = x.last().copied().unwrap_or(0.5);
            let expected = (
                x.iter().filter(|&&v| v > t).count() as u32,
                x.iter().filter(|&&v| v == t).count() as u32,
            );
            assert_eq!(count_above_equal(&x, t, 0.0), expected);
            assert_eq!(count_above_equal(&x, f32::NAN, 0.0), (n as u32, 0));
        }
    }

    #[test]
    fn the_largest_of_values_with_a_nan_is_nan() {
        let mut x = numbers(100, 3);
        x[57] = f32::INFINITY;
        assert_eq!(max(&x), f32::INFINITY);
        x[56] = f32::NAN;
        assert!(max(&x).is_nan());
    }

    #[test]
    fn complex_products_follow_the_definition() {
        let (x, y) = ([1.0, 2.0, 3.0, -4.0], [0.5, -1.0, 2.0, 3.0]);
        let mut out = [0.0; 4];
        complex_multiply(&mut out, &x, &y);
        // (1 + 3i)(0.5 + 2i) and (2 - 4i)(-1 + 3i)
        assert_eq!(out, [-5.5, 10.0, 3.5, 10.0]);
        let mut y_gradient = [1.0; 4];
        let mut gradient = x;
        complex_multiply_back(&mut gradient, &[0.0, 1.0, -1.0, 0.0], &y, &mut y_gradient);
        // (1 + 3i)(0.5 - 2i) and (2 - 4i)(-1 - 3i)
        assert_eq!(gradient, [6.5, -14.0, -0.5, -2.0]);
        // 1 + i + (1 + 3i)(0 + i) and 1 + i + (2 - 4i)(1 - 0i)
        assert_eq!(y_gradient, [-2.0, 3.0, 2.0, -3.0]);
    }
}
