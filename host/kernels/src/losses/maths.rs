//! Exponentials, logarithms, sines and cosines for losses and operators, in loops that the compiler vectorises.
//!
//! `exp` reduces its argument to `2^n * e^r` with `|r| <= ln 2 / 2` in two steps (Cody and Waite) and evaluates a
//! polynomial of degree 6. `ln(1 + u)` for u in [0, 1] uses the polynomial of the Cephes library's `logf`, after
//! halving `1 + u` where it is above sqrt 2; `ln` applies the same polynomial to the mantissa. Sine and cosine use the
//! polynomials of its `sinf`.
//!
//! Tests compare the results with f64: `exp` and `ln` are within 2 units in the last place, sigmoid and softplus within
//! 3, and sines and cosines within 1.25e-7 for angles of up to 40.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use pbg_rows::vector::{fma, join_lanes};

/// Number of independent partial sums of a row.
const LANES: usize = 16;
/// Smallest x for which `e^x` is a normal f32. Below it, the result is 0.
const EXP_MIN: f32 = -87.336_54;
/// Largest x for which `e^x` does not overflow. Above it, the result is infinite.
const EXP_MAX: f32 = 88.722_83;

/// Returns `e^x`. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp<const FMA: bool>(x: f32) -> f32 {
    // Comparisons are false for NaN, so that it passes through.
    let bounded = if x < EXP_MIN { EXP_MIN } else { x };
    let bounded = if bounded > EXP_MAX { EXP_MAX } else { bounded };
    let (p, n) = exp_parts::<FMA>(bounded);
    // Multiplies by 2^n in two factors, because n can be 128 and 2^128 is not an f32.
    let half = n >> 1;
    let value = p * power_of_two(half) * power_of_two(n.wrapping_sub(half));
    let value = if x < EXP_MIN { 0.0 } else { value };
    if x > EXP_MAX { f32::INFINITY } else { value }
}

/// Returns `e^x` for `x <= 0`. NaN stays NaN.
#[inline(always)]
pub(super) fn exp_of_negative<const FMA: bool>(x: f32) -> f32 {
    let bounded = if x < EXP_MIN { EXP_MIN } else { x };
    let (p, n) = exp_parts::<FMA>(bounded);
    let value = p * power_of_two(n);
    if x < EXP_MIN { 0.0 } else { value }
}

/// Returns `2^n` for n from -126 to 127.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// Returns `p` and `n` such that `e^x = p 2^n`.
#[inline(always)]
fn exp_parts<const FMA: bool>(x: f32) -> (f32, i32) {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding 1.5 * 2^23 rounds to the nearest integer, which is in the low bits of the sum. Subtracting it again
    // returns the integer as a float.
    const ROUND: f32 = 12_582_912.0;
    let shifted = fma::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<FMA>(n, -LN2_LOW, fma::<FMA>(n, -LN2_HIGH, x));
    let mut p = 1.987_569_1e-4;
    for c in [
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = fma::<FMA>(p, r, c);
    }
    let p = fma::<FMA>(p * r, r, r) + 1.0;
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    (p, n)
}

/// Returns `ln(1 + f) - f` for f from sqrt 1/2 - 1 to sqrt 2 - 1.
#[inline(always)]
fn log1p_tail<const FMA: bool>(f: f32) -> f32 {
    let mut p = 7.037_683_6e-2;
    for c in [
        -1.151_461e-1,
        1.167_699_9e-1,
        -1.242_014_1e-1,
        1.424_932_3e-1,
        -1.666_805_8e-1,
        2.000_071_5e-1,
        -2.499_999_4e-1,
        3.333_333e-1,
    ] {
        p = fma::<FMA>(p, f, c);
    }
    let f2 = f * f;
    fma::<FMA>(p * f, f2, -0.5 * f2)
}

/// Returns `ln x`: negative infinity at 0, NaN below 0.
#[inline(always)]
pub(crate) fn log<const FMA: bool>(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Bits of sqrt 1/2. The mantissa is reduced to the range from sqrt 1/2 to sqrt 2.
    const SQRT_HALF: u32 = 0x3f35_04f3;
    // Subnormal numbers, whose mantissas are not normalised, are scaled up by 2^23 first.
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 8_388_608.0 } else { x };
    let bits = scaled.to_bits().wrapping_sub(SQRT_HALF) as i32;
    let exponent = (bits >> 23) as f32 - if tiny { 23.0 } else { 0.0 };
    let mantissa = f32::from_bits(((bits & 0x007f_ffff) as u32).wrapping_add(SQRT_HALF));
    let f = mantissa - 1.0;
    let tail = fma::<FMA>(exponent, LN2_LOW, log1p_tail::<FMA>(f));
    let value = fma::<FMA>(exponent, LN2_HIGH, f + tail);
    // The remaining cases are 0, infinity, NaN and negative numbers.
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    let value = if x > f32::MAX { x } else { value };
    if x >= 0.0 { value } else { f32::NAN }
}

/// Largest angle in radians, about 1300 turns. Larger angles have too few binary digits for the fraction of a turn, so
/// their sine and cosine are NaN.
const MAX_ANGLE: f32 = 8192.0;

/// Returns `n` and `r` such that `x = n pi / 2 + r`, with `|r| <= pi / 4`, in three steps (Cody and Waite).
#[inline(always)]
fn quadrant<const FMA: bool>(x: f32) -> (i32, f32) {
    const ROUND: f32 = 12_582_912.0;
    let shifted = fma::<FMA>(x, std::f32::consts::FRAC_2_PI, ROUND);
    let n = shifted - ROUND;
    let r = fma::<FMA>(n, -1.570_312_5, x);
    let r = fma::<FMA>(n, -4.837_513e-4, r);
    let r = fma::<FMA>(n, -7.549_79e-8, r);
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    (n, r)
}

/// Returns the sine of `r` plus `n` quarters of a turn, by the polynomials of the Cephes library's `sinf`.
#[inline(always)]
fn sine_in_quadrant<const FMA: bool>(n: i32, r: f32) -> f32 {
    let z = r * r;
    let s = fma::<FMA>(-1.951_529_6e-4, z, 8.332_161e-3);
    let s = fma::<FMA>(s, z, -1.666_665_5e-1);
    let sine = fma::<FMA>(s * z, r, r);
    let c = fma::<FMA>(2.443_315_7e-5, z, -1.388_731_6e-3);
    let c = fma::<FMA>(c, z, 4.166_664_6e-2);
    let cosine = fma::<FMA>(c * z, z, fma::<FMA>(-0.5, z, 1.0));
    let value = if n & 1 == 0 { sine } else { cosine };
    if n & 2 == 0 { value } else { -value }
}

/// Returns `sin x`; NaN for angles larger than [`MAX_ANGLE`].
#[inline(always)]
pub(crate) fn sin<const FMA: bool>(x: f32) -> f32 {
    let (n, r) = quadrant::<FMA>(x);
    let value = sine_in_quadrant::<FMA>(n, r);
    if x.abs() <= MAX_ANGLE {
        value
    } else {
        f32::NAN
    }
}

/// Returns `cos x`; NaN for angles larger than [`MAX_ANGLE`].
#[inline(always)]
pub(crate) fn cos<const FMA: bool>(x: f32) -> f32 {
    let (n, r) = quadrant::<FMA>(x);
    let value = sine_in_quadrant::<FMA>(n.wrapping_add(1), r);
    if x.abs() <= MAX_ANGLE {
        value
    } else {
        f32::NAN
    }
}

/// Returns `ln(1 + u)` for u in [0, 1].
#[inline(always)]
fn log1p<const FMA: bool>(u: f32) -> f32 {
    const SQRT_2_MINUS_1: f32 = std::f32::consts::SQRT_2 - 1.0;
    let halved = u > SQRT_2_MINUS_1;
    // (1 + u) / 2 - 1 = (u - 1) / 2. The sum 1 + u, which would round, is not computed.
    let f = if halved { 0.5 * (u - 1.0) } else { u };
    let log = f + log1p_tail::<FMA>(f);
    if halved {
        log + std::f32::consts::LN_2
    } else {
        log
    }
}

/// Replaces each value by the first result of `f`, and returns the sum of the second results.
#[inline(always)]
fn map_sum(row: &mut [f32], f: impl Fn(f32) -> (f32, f32)) -> f32 {
    let mut acc = [0.0; LANES];
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            let (value, term) = f(chunk[i]);
            chunk[i] = value;
            acc[i] += term;
        }
    }
    for (a, v) in acc.iter_mut().zip(rest) {
        let (value, term) = f(*v);
        *v = value;
        *a += term;
    }
    join_lanes(acc, |a, b| a + b)
}

/// Replaces each x by `e^(x - shift)` and returns their sum.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn exp_in_place(row: &mut [f32], shift: f32) -> f32 {
    if target_cfg_f!(target_feature = "fma") {
        map_sum(row, |x| (exp::<true>(x - shift), exp::<true>(x - shift)))
    } else {
        map_sum(row, |x| (exp::<false>(x - shift), exp::<false>(x - shift)))
    }
}

/// Replaces each x by `factor * sigmoid(x)` and returns the sum of `softplus(x) = ln(1 + e^x)`.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub fn sigmoid_and_softplus_in_place(row: &mut [f32], factor: f32) -> f32 {
    if target_cfg_f!(target_feature = "fma") {
        map_sum(row, |x| sigmoid_and_softplus::<true>(x, factor))
    } else {
        map_sum(row, |x| sigmoid_and_softplus::<false>(x, factor))
    }
}

/// Returns `max(x, 0)`. NaN stays NaN.
#[inline(always)]
pub(crate) fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Returns `factor * sigmoid(x)` and `softplus(x)`.
#[inline(always)]
pub(crate) fn sigmoid_and_softplus<const FMA: bool>(x: f32, factor: f32) -> (f32, f32) {
    // Both follow from e^-|x| without overflow.
    let e = exp_of_negative::<FMA>(-x.abs());
    // The comparison is false for NaN, which passes through.
    let above = if x <= 0.0 { 0.0 } else { x };
    let numerator = if x > 0.0 { 1.0 } else { e };
    (factor * numerator / (1.0 + e), above + log1p::<FMA>(e))
}

/// Replaces each x by 1 where `x + offset` is at least 0 or NaN, and by 0 elsewhere. Returns the sum of
/// `max(0, x + offset)` and the number of ones.
#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
pub(crate) fn hinge(row: &mut [f32], offset: f32) -> (f32, f32) {
    // NaN counts as a violation, so that it shows in the loss.
    let violated = |excess: f32| excess >= 0.0 || excess.is_nan();
    let mut violations = [0.0; LANES];
    let mut sums = [0.0; LANES];
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            let excess = chunk[i] + offset;
            let one = if violated(excess) { 1.0 } else { 0.0 };
            sums[i] += if violated(excess) { excess } else { 0.0 };
            chunk[i] = one;
            violations[i] += one;
        }
    }
    for (i, v) in rest.iter_mut().enumerate() {
        let excess = *v + offset;
        *v = if violated(excess) { 1.0 } else { 0.0 };
        sums[i] += if violated(excess) { excess } else { 0.0 };
        violations[i] += *v;
    }
    let add = |a, b| a + b;
    (join_lanes(sums, add), join_lanes(violations, add))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the distance from `exact` in units of the last place of the nearest f32.
    fn ulps(found: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        let ulp = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
        (f64::from(found) - exact).abs() / ulp
    }

    #[test]
    fn exp_is_within_two_units_in_the_last_place() {
        let mut worst: f64 = 0.0;
        for i in 0..400_000 {
            let x = -87.3 + 176.0 * (i as f32 / 400_000.0);
            let mut row = [x];
            exp_in_place(&mut row, 0.0);
            worst = worst.max(ulps(row[0], f64::from(x).exp()));
            if x <= 0.0 {
                worst = worst.max(ulps(exp_of_negative::<false>(x), f64::from(x).exp()));
            }
        }
        assert!(worst <= 2.0, "{worst}");
        assert_eq!(exp_of_negative::<false>(0.0), 1.0);
        assert_eq!(exp_of_negative::<false>(-88.0), 0.0);
        assert_eq!(exp_of_negative::<false>(f32::NEG_INFINITY), 0.0);
        assert!(exp_of_negative::<false>(f32::NAN).is_nan());
    }

    #[test]
    fn log_is_within_two_units_in_the_last_place() {
        let mut worst: f64 = 0.0;
        for bits in (1..0x7f80_0000).step_by(4999) {
            let x = f32::from_bits(bits);
            worst = worst.max(ulps(log::<false>(x), f64::from(x).ln()));
        }
        assert!(worst <= 2.0, "{worst}");
        assert_eq!(log::<false>(1.0), 0.0);
        assert_eq!(log::<false>(0.0), f32::NEG_INFINITY);
        assert_eq!(log::<false>(f32::INFINITY), f32::INFINITY);
        assert!(log::<false>(-1.0).is_nan() && log::<false>(f32::NAN).is_nan());
    }

    #[test]
    fn sine_and_cosine_are_close_to_an_eighth_of_a_millionth() {
        for i in -400_000..400_000 {
            let x = i as f32 * 1e-4;
            let wide = f64::from(x);
            for found in [sin::<false>(x), sin::<true>(x)] {
                assert!(
                    (f64::from(found) - wide.sin()).abs() < 1.25e-7,
                    "sin({x}) = {found}"
                );
            }
            for found in [cos::<false>(x), cos::<true>(x)] {
                assert!(
                    (f64::from(found) - wide.cos()).abs() < 1.25e-7,
                    "cos({x}) = {found}"
                );
            }
        }
        assert_eq!((sin::<false>(0.0), cos::<false>(0.0)), (0.0, 1.0));
        for x in [1e9, f32::INFINITY, f32::NAN] {
            assert!(sin::<false>(x).is_nan() && cos::<false>(x).is_nan());
        }
    }

    #[test]
    fn exp_at_the_edges() {
        let mut row = [
            0.0,
            -1e9,
            f32::NEG_INFINITY,
            -88.0,
            89.0,
            f32::INFINITY,
            f32::NAN,
        ];
        exp_in_place(&mut row, 0.0);
        assert_eq!(row[..6], [1.0, 0.0, 0.0, 0.0, f32::INFINITY, f32::INFINITY]);
        assert!(row[6].is_nan());
    }

    #[test]
    fn softplus_and_sigmoid_are_within_three_units_in_the_last_place() {
        for i in 0..100_000 {
            let x = -30.0 + 60.0 * (i as f32 / 100_000.0);
            let mut row = [x];
            let softplus = sigmoid_and_softplus_in_place(&mut row, 1.0);
            let wide = f64::from(x);
            assert!(
                ulps(softplus, wide.exp().ln_1p()) <= 3.0,
                "softplus({x}) = {softplus}"
            );
            assert!(
                ulps(row[0], 1.0 / (1.0 + (-wide).exp())) <= 3.0,
                "sigmoid({x}) = {}",
                row[0]
            );
        }
        let mut row = [-1e9, 1e9, f32::NAN];
        assert!(sigmoid_and_softplus_in_place(&mut row, 0.5).is_nan());
        assert_eq!(row[..2], [0.0, 0.5]);
        assert!(row[2].is_nan());
    }

    #[test]
    fn hinge_counts_and_sums() {
        let mut row = [-1e9, 0.5, -0.25, 0.25];
        assert_eq!(hinge(&mut row, 0.0), (0.75, 2.0));
        assert_eq!(row, [0.0, 1.0, 0.0, 1.0]);
        assert!(hinge(&mut [f32::NAN], 0.0).0.is_nan());
    }
}
