//! The functions of [`pbg_formula::maths`], and loops over rows with them that are compiled for several instruction sets.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;
use pbg_rows::vector::join_lanes;

pub(crate) use pbg_formula::maths::{
    cos, exp, exp_of_negative, log, relu, sigmoid_and_softplus, sin,
};

/// Number of independent partial sums of a row.
const LANES: usize = 16;

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
