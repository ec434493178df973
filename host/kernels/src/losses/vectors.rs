//! Operations on vectors, which hold one value for each row of a tile.

#![expect(
    clippy::needless_range_loop,
    reason = "a lane is an index into several vectors of one table"
)]

use pbg_formula::node::{Binary, Unary};

/// Number of floats in a lane: as many as an AVX-512 register holds.
pub(super) const WIDTH: usize = 16;
/// Floats that one iteration of a vectorised loop computes.
pub(super) type Lane = [f32; WIDTH];
/// Largest number of rows in a tile.
pub(super) const ROWS: usize = 64;
/// All vectors of a program.
pub(super) type Vectors = [[Lane; ROWS / WIDTH]];

/// Evaluates `$body` with `$f` bound to the function of the variant that `$op` is.
macro_rules! with_function {
    ($op:expr, $f:ident => $body:expr, { $($variant:path => $function:expr,)* }) => {
        match $op {
            $($variant => {
                let $f = $function;
                $body
            })*
        }
    };
}

/// Evaluates `$body` with `$f` bound to the function of a [`Unary`].
macro_rules! with_unary {
    ($op:expr, $fma:ident, $f:ident => $body:expr) => {{
        use pbg_formula::node::Unary;
        use $crate::losses::maths;
        $crate::losses::vectors::with_function!($op, $f => $body, {
            Unary::Neg => |x: f32| -x,
            Unary::Abs => |x: f32| x.abs(),
            Unary::Exp => |x: f32| maths::exp::<$fma>(x),
            Unary::Log => |x: f32| maths::log::<$fma>(x),
            Unary::Sqrt => |x: f32| x.sqrt(),
            Unary::Sigmoid => |x: f32| maths::sigmoid_and_softplus::<$fma>(x, 1.0).0,
            Unary::Softplus => |x: f32| maths::sigmoid_and_softplus::<$fma>(x, 1.0).1,
            Unary::Relu => maths::relu,
            Unary::StopGradient => |x: f32| x,
            Unary::Sin => maths::sin::<$fma>,
            Unary::Cos => maths::cos::<$fma>,
        })
    }};
}

/// Evaluates `$body` with `$f` bound to the function of a [`Binary`].
macro_rules! with_binary {
    ($op:expr, $f:ident => $body:expr) => {{
        use pbg_formula::node::Binary;
        let number = |holds: bool| if holds { 1.0_f32 } else { 0.0 };
        $crate::losses::vectors::with_function!($op, $f => $body, {
            Binary::Add => |a: f32, b: f32| a + b,
            Binary::Sub => |a: f32, b: f32| a - b,
            Binary::Mul => |a: f32, b: f32| a * b,
            Binary::Div => |a: f32, b: f32| a / b,
            Binary::Pow => |a: f32, b: f32| a.powf(b),
            // NaN in either operand is passed on.
            Binary::Min => |a: f32, b: f32| if a <= b || a.is_nan() { a } else { b },
            Binary::Max => |a: f32, b: f32| if a >= b || a.is_nan() { a } else { b },
            Binary::Less => |a: f32, b: f32| number(a < b),
            Binary::LessEqual => |a: f32, b: f32| number(a <= b),
            Binary::Greater => |a: f32, b: f32| number(a > b),
            Binary::GreaterEqual => |a: f32, b: f32| number(a >= b),
            Binary::Equal => |a: f32, b: f32| number(a == b),
            Binary::NotEqual => |a: f32, b: f32| number(a != b),
        })
    }};
}

pub(crate) use {with_binary, with_function, with_unary};

/// `vectors[out] = op(vectors[x])` in the first `lanes` lanes.
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
