//! Exponentials, logarithms, sines and cosines in single precision, for loops that the compiler vectorises.
//!
//! `exp` reduces its argument to `2^n * e^r` with `|r| <= ln 2 / 2` in two steps (Cody and Waite) and evaluates a
//! polynomial of degree 6. `ln(1 + u)` for u in [0, 1] uses the polynomial of the Cephes library's `logf`, after
//! halving `1 + u` where it is above sqrt 2; `ln` applies the same polynomial to the mantissa. Sine and cosine use the
//! polynomials of its `sinf`.
//!
//! `exp` and `ln` are within 2 units in the last place of the exact result, sigmoid and softplus within 3, and sines and
//! cosines within 1.25e-7 for angles of up to 40; the tests of the kernels compare them with f64. With `FMA`, the caller
//! is compiled for a processor that multiplies and adds in one instruction. Without it, all machines give the same bits.

/// Smallest x for which `e^x` is a normal f32. Below it, the result is 0.
const EXP_MIN: f32 = -87.336_54;
/// Largest x for which `e^x` does not overflow. Above it, the result is infinite.
const EXP_MAX: f32 = 88.722_83;

/// Computes `a * b + c`, fused if the caller was compiled with FMA: elsewhere `mul_add` is a function call.
#[inline(always)]
fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Returns `e^x`. NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn exp<const FMA: bool>(x: f32) -> f32 {
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
#[must_use]
pub fn exp_of_negative<const FMA: bool>(x: f32) -> f32 {
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
#[must_use]
pub fn log<const FMA: bool>(x: f32) -> f32 {
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
#[must_use]
pub fn sin<const FMA: bool>(x: f32) -> f32 {
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
#[must_use]
pub fn cos<const FMA: bool>(x: f32) -> f32 {
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

/// Returns `max(x, 0)`. NaN stays NaN.
#[inline(always)]
#[must_use]
pub fn relu(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Returns `factor * sigmoid(x)` and `softplus(x)`.
#[inline(always)]
#[must_use]
pub fn sigmoid_and_softplus<const FMA: bool>(x: f32, factor: f32) -> (f32, f32) {
    // Both follow from e^-|x| without overflow.
    let e = exp_of_negative::<FMA>(-x.abs());
    // The comparison is false for NaN, which passes through.
    let above = if x <= 0.0 { 0.0 } else { x };
    let numerator = if x > 0.0 { 1.0 } else { e };
    (factor * numerator / (1.0 + e), above + log1p::<FMA>(e))
}
