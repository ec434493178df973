//! Measures the floating-point operations per second of every kernel, for the products of training steps and of
//! evaluation: the scores of positives with negatives, and both their gradients. Run it with `cargo bench -p pbg-gemm`.

#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::time::Duration;

use pbg_gemm::buffer::FloatBuffer;
use pbg_gemm::{Kernel, OutputMatrix, StridedMatrix};

/// Numbers of positives, dimensions and negatives.
const SHAPES: [[usize; 3]; 4] = [
    [50, 400, 1050],
    [1000, 400, 1000],
    [256, 200, 14541],
    [50, 100, 100],
];
/// Number of rounds per rate; the best round counts, which excludes most of the machine's other work.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(100);

/// A product of a step: its name, its shape, and whether each factor is transposed.
type Case = (&'static str, [usize; 3], [bool; 2]);

fn main() {
    let kernels: Vec<Kernel> = Kernel::ALL
        .into_iter()
        .filter(|&kernel| kernel != Kernel::Portable && kernel.is_usable())
        .collect();
    println!("GFLOP/s of {kernels:?}");
    for [rows, dimension, negatives] in SHAPES {
        let cases: [Case; 3] = [
            ("scores", [rows, dimension, negatives], [false, true]),
            ("lhs gradient", [rows, negatives, dimension], [false, false]),
            ("rhs gradient", [negatives, rows, dimension], [true, false]),
        ];
        for case in cases {
            let rates: Vec<String> = kernels
                .iter()
                .map(|&kernel| format!("{:8.1}", rate(kernel, case)))
                .collect();
            let (name, shape, _) = case;
            println!("{:24} {name:14} {}", format!("{shape:?}"), rates.join(" "));
        }
    }
}

fn rate(kernel: Kernel, (_, shape, transposed): Case) -> f64 {
    let [rows, inner, columns] = shape;
    let (left, right) = (filled(rows * inner), filled(inner * columns));
    let a = matrix(left.as_slice(), rows, inner, transposed[0]);
    let b = matrix(right.as_slice(), inner, columns, transposed[1]);
    let mut out = FloatBuffer::zeros(rows * columns);
    let mut once = || {
        let out = OutputMatrix::dense(out.as_mut_slice(), columns);
        kernel.multiply(out, shape, a, b, false);
    };
    once();
    let operations = 2.0 * (rows * inner) as f64 * columns as f64;
    let round = |_| {
        let (start, mut products) = (pbg_clock::now(), 0.0);
        while start.elapsed() < ROUND {
            once();
            products += 1.0;
        }
        products * operations / start.elapsed().as_secs_f64()
    };
    1e-9 * (0..ROUNDS).map(round).fold(0.0, f64::max)
}

fn filled(len: usize) -> FloatBuffer {
    let mut buffer = FloatBuffer::zeros(len);
    for (i, value) in buffer.as_mut_slice().iter_mut().enumerate() {
        *value = (i * 37 % 101) as f32 / 50.0 - 1.0;
    }
    buffer
}

/// Returns the row-major matrix of `rows` x `columns` in `values`; if transposed, `values` is its transpose, row-major.
fn matrix(values: &[f32], rows: usize, columns: usize, transposed: bool) -> StridedMatrix<'_> {
    let (row_stride, column_stride) = match transposed {
        false => (columns, 1),
        true => (1, rows),
    };
    StridedMatrix {
        values,
        row_stride,
        column_stride,
    }
}
