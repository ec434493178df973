//! Operations on vectors, which hold one value for each row of a tile.

use pbg_formula::node::{Binary, Unary};

/// Number of floats in a lane: as many as an AVX-512 register holds.
pub(super) const WIDTH: usize = 16;
/// Floats that one iteration of a vectorised loop computes.
pub(super) type Lane = [f32; WIDTH];
/// Largest number of rows in a tile.
pub(super) const ROWS: usize = 64;
/// All vectors of a program.
pub(super) type Vectors = [[Lane; ROWS / WIDTH]];

/// Evaluates `$body` with `$f` bound to the function of a [`Unary`].
macro_rules! with_unary {
    ($op:expr, $fma:ident, $f:ident => $body:expr) => {{
        use pbg_formula::node::Unary;
        match $op {
            Unary::Neg => {
                let $f = |x: f32| -x;
                $body
            }
            Unary::Abs => {
                let $f = |x: f32| x.abs();
                $body
            }
            Unary::Exp => {
                let $f = |x: f32| $crate::losses::maths::exp::<$fma>(x);
                $body
            }
            Unary::Log => {
                let $f = |x: f32| $crate::losses::maths::log::<$fma>(x);
                $body
            }
            Unary::Sqrt => {
                let $f = |x: f32| x.sqrt();
                $body
            }
            Unary::Sigmoid => {
                let $f = |x: f32| $crate::losses::maths::sigmoid_and_softplus::<$fma>(x, 1.0).0;
                $body
            }
            Unary::Softplus => {
                let $f = |x: f32| $crate::losses::maths::sigmoid_and_softplus::<$fma>(x, 1.0).1;
                $body
            }
            Unary::Relu => {
                let $f = $crate::losses::maths::relu;
                $body
            }
            Unary::StopGradient => {
                let $f = |x: f32| x;
                $body
            }
            Unary::Sin => {
                let $f = $crate::losses::maths::sin::<$fma>;
                $body
            }
            Unary::Cos => {
                let $f = $crate::losses::maths::cos::<$fma>;
                $body
            }
        }
    }};
}

/// Evaluates `$body` with `$f` bound to the function of a [`Binary`].
macro_rules! with_binary {
    ($op:expr, $f:ident => $body:expr) => {{
        use pbg_formula::node::Binary;
        let number = |holds: bool| if holds { 1.0_f32 } else { 0.0 };
        match $op {
            Binary::Add => {
                let $f = |a: f32, b: f32| a + b;
                $body
            }
            Binary::Sub => {
                let $f = |a: f32, b: f32| a - b;
                $body
            }
            Binary::Mul => {
                let $f = |a: f32, b: f32| a * b;
                $body
            }
            Binary::Div => {
                let $f = |a: f32, b: f32| a / b;
                $body
            }
            Binary::Pow => {
                let $f = |a: f32, b: f32| a.powf(b);
                $body
            }
            // NaN in either operand is passed on.
            Binary::Min => {
                let $f = |a: f32, b: f32| if a <= b || a.is_nan() { a } else { b };
                $body
            }
            Binary::Max => {
                let $f = |a: f32, b: f32| if a >= b || a.is_nan() { a } else { b };
                $body
            }
            Binary::Less => {
                let $f = |a: f32, b: f32| number(a < b);
                $body
            }
            Binary::LessEqual => {
                let $f = |a: f32, b: f32| number(a <= b);
                $body
            }
            Binary::Greater => {
                let $f = |a: f32, b: f32| number(a > b);
                $body
            }
            Binary::GreaterEqual => {
                let $f = |a: f32, b: f32| number(a >= b);
                $body
            }
            Binary::Equal => {
                let $f = |a: f32, b: f32| number(a == b);
                $body
            }
            Binary::NotEqual => {
                let $f = |a: f32, b: f32| number(a != b);
                $body
            }
        }
    }};
}

pub(crate) use {with_binary, with_unary};

/// `vectors[out] = op(vectors[x])` in the first `lanes` lanes.
#[expect(
    clippy::needless_range_loop,
    reason = "a lane is an index into several vectors of one table"
)]
#[inline(always)]
pub(super) fn unary<const FMA: bool>(
    vectors: &mut Vectors,
    lanes: usize,
    op: Unary,
    out: usize,
    x: usize,
) {
    for lane in 0..lanes {
        let x = vectors[x][lane];
        let out = &mut vectors[out][lane];
        with_unary!(op, FMA, f => for i in 0..WIDTH { out[i] = f(x[i]); });
    }
}

/// `vectors[out] = op(vectors[a], vectors[b])` in the first `lanes` lanes.
#[expect(
    clippy::needless_range_loop,
    reason = "a lane is an index into several vectors of one table"
)]
#[inline(always)]
pub(super) fn binary(
    vectors: &mut Vectors,
    lanes: usize,
    op: Binary,
    out: usize,
    [a, b]: [usize; 2],
) {
    for lane in 0..lanes {
        let (a, b) = (vectors[a][lane], vectors[b][lane]);
        let out = &mut vectors[out][lane];
        with_binary!(op, f => for i in 0..WIDTH { out[i] = f(a[i], b[i]); });
    }
}

/// Selects the second operand where the first is not 0, and the third elsewhere.
#[expect(
    clippy::needless_range_loop,
    reason = "a lane is an index into several vectors of one table"
)]
#[inline(always)]
pub(super) fn select(vectors: &mut Vectors, lanes: usize, out: usize, operands: [usize; 3]) {
    for lane in 0..lanes {
        let [c, a, b] = operands.map(|operand| vectors[operand][lane]);
        let out = &mut vectors[out][lane];
        for i in 0..WIDTH {
            out[i] = if c[i] == 0.0 { b[i] } else { a[i] };
        }
    }
}
