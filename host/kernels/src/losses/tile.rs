//! The loops of a loss program, over tiles of a few rows.
//!
//! A row occupies a whole number of lanes. The positions after its last negative count as masked. Each loop reads
//! arrays and writes an array without other control flow, so that the compiler reliably vectorises it. Values to be
//! summed are written as 0 where they are masked, and summed in a separate loop while they are in the cache.

use pbg_core::strategy::MASKED;
use pbg_rows::vector::join_lanes;

use super::maths;
use super::vectors::{Lane, Vectors, WIDTH};

/// Number of lanes that a reduction accumulates independently, so that no addition waits for the previous one.
const CHAINS: usize = 2;

/// Loads rows of `columns` scores each, and masks the rest of the last lane of each row.
#[inline(always)]
pub(super) fn load(tile: &mut [Lane], scores: &[f32], columns: usize, lanes: usize) {
    if columns == 0 {
        tile.fill([MASKED; WIDTH]);
        return;
    }
    for (row, scores) in tile
        .chunks_exact_mut(lanes)
        .zip(scores.chunks_exact(columns))
    {
        if let Some(last) = row.last_mut() {
            *last = [MASKED; WIDTH];
        }
        for (value, &score) in row.as_flattened_mut().iter_mut().zip(scores) {
            *value = score;
        }
    }
}

/// Computes the largest unmasked score of each row: negative infinity if there is none, NaN if one of them is NaN.
#[inline(always)]
pub(super) fn largest_scores(tile: &[Lane], lanes: usize, out: &mut [f32]) {
    for (row, out) in tile.chunks_exact(lanes).zip(out) {
        let (largest, poisoned) = largest_of(row);
        // Real scores are larger than MASKED, so a larger maximum is unmasked. Otherwise masks are compared one by one.
        *out = if largest > MASKED && !poisoned {
            largest
        } else {
            largest_present(row.as_flattened(), row.as_flattened())
        };
    }
}

/// Computes the largest unmasked value of each row, with the results of [`largest_scores`] for no value and for NaN.
#[inline(always)]
pub(super) fn max(
    x: &[Lane],
    scores: &[Lane],
    lanes: usize,
    scratch: &mut [Lane],
    out: &mut [f32],
) {
    let rows = x.chunks_exact(lanes).zip(scores.chunks_exact(lanes));
    for ((x, scores), out) in rows.zip(out) {
        let present = &mut scratch[..lanes];
        zip(present, x, scores, |x, score| match score == MASKED {
            true => f32::NEG_INFINITY,
            false => x,
        });
        *out = match largest_of(present) {
            (_, true) => largest_present(x.as_flattened(), scores.as_flattened()),
            (largest, false) => largest,
        };
    }
}

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Folds the lanes of a row in [`CHAINS`] chains. They stay in registers only if no variable chooses one of them.
#[inline(always)]
fn in_chains<T: Copy>(row: &[Lane], initial: T, fold: impl Fn(&mut T, &Lane)) -> [T; CHAINS] {
    let [mut first, mut second] = [initial; CHAINS];
    let (pairs, rest) = row.as_chunks::<CHAINS>();
    for [one, other] in pairs {
        fold(&mut first, one);
        fold(&mut second, other);
    }
    if let [last] = rest {
        fold(&mut first, last);
    }
    [first, second]
}

/// Returns the largest value, and whether any value is NaN, which loses every comparison.
#[inline(always)]
fn largest_of(row: &[Lane]) -> (f32, bool) {
    let initial = ([f32::NEG_INFINITY; WIDTH], [0; WIDTH]);
    let chains = in_chains(row, initial, |(largest, poisoned), lane| {
        for (i, &value) in lane.iter().enumerate() {
            largest[i] = larger(largest[i], value);
            poisoned[i] |= u32::from(value.is_nan());
        }
    });
    let largest = chains.iter().flat_map(|(largest, _)| largest).copied();
    let poisoned = chains.iter().flat_map(|(_, poisoned)| poisoned);
    (
        largest.fold(f32::NEG_INFINITY, larger),
        poisoned.sum::<u32>() > 0,
    )
}

/// Returns the largest unmasked value, or NaN if an unmasked value is NaN, without vector instructions.
#[cold]
fn largest_present(x: &[f32], scores: &[f32]) -> f32 {
    let pairs = x.iter().zip(scores);
    let present = pairs.filter(|&(_, &score)| score != MASKED);
    present.fold(f32::NEG_INFINITY, |a, (&b, _)| match a.is_nan() || b <= a {
        true => a,
        false => b,
    })
}

/// Computes the sums of rows whose masked values are 0.
#[inline(always)]
fn sum_all(x: &[Lane], lanes: usize, sums: &mut [f32]) {
    for (row, sum) in x.chunks_exact(lanes).zip(sums) {
        let [first, second] = in_chains(row, [0.0; WIDTH], |sums, lane| {
            for (sum, value) in sums.iter_mut().zip(lane) {
                *sum += value;
            }
        });
        *sum = join_lanes(
            std::array::from_fn::<_, WIDTH, _>(|i| first[i] + second[i]),
            |a, b| a + b,
        );
    }
}

/// Computes the sums of the unmasked values of rows.
#[inline(always)]
pub(super) fn sum(
    x: &[Lane],
    scores: &[Lane],
    lanes: usize,
    scratch: &mut [Lane],
    sums: &mut [f32],
) {
    let rows = x.chunks_exact(lanes).zip(scores.chunks_exact(lanes));
    for ((x, scores), sum) in rows.zip(sums) {
        let present = &mut scratch[..lanes];
        zip(present, x, scores, unless_masked);
        sum_all(present, lanes, std::slice::from_mut(sum));
    }
}

#[inline(always)]
fn unless_masked(value: f32, score: f32) -> f32 {
    if score == MASKED { 0.0 } else { value }
}

/// Applies `f` to every value.
#[inline(always)]
pub(super) fn map(out: &mut [Lane], x: &[Lane], f: impl Fn(f32) -> f32) {
    let out = out.as_flattened_mut().iter_mut();
    for (out, &x) in out.zip(x.as_flattened()) {
        *out = f(x);
    }
}

/// Applies `f` to every value, and computes the sums of the unmasked results.
#[inline(always)]
pub(super) fn map_sum(
    out: &mut [Lane],
    x: &[Lane],
    scores: &[Lane],
    lanes: usize,
    sums: &mut [f32],
    f: impl Fn(f32) -> f32,
) {
    zip(out, x, scores, |x, score| unless_masked(f(x), score));
    sum_all(out, lanes, sums);
}

/// Applies `f` to every pair of values.
#[inline(always)]
pub(super) fn zip(out: &mut [Lane], a: &[Lane], b: &[Lane], f: impl Fn(f32, f32) -> f32) {
    let out = out.as_flattened_mut().iter_mut();
    for ((out, &a), &b) in out.zip(a.as_flattened()).zip(b.as_flattened()) {
        *out = f(a, b);
    }
}

/// Applies `f` to every value and the element of `rows` for its row.
#[inline(always)]
pub(super) fn zip_rows(
    out: &mut [Lane],
    x: &[Lane],
    lanes: usize,
    rows: &[f32],
    f: impl Fn(f32, f32) -> f32,
) {
    let tiles = out.chunks_exact_mut(lanes).zip(x.chunks_exact(lanes));
    for ((out, x), &row) in tiles.zip(rows) {
        map(out, x, |x| f(x, row));
    }
}

/// Fills each row with the element of `rows` for it.
#[inline(always)]
pub(super) fn broadcast(out: &mut [Lane], lanes: usize, rows: &[f32]) {
    for (out, &row) in out.chunks_exact_mut(lanes).zip(rows) {
        out.fill([row; WIDTH]);
    }
}

/// Computes `e^(x - shift)`, or 0 where masked, and the sum of each row. The shift of a row is its largest value.
#[inline(always)]
pub(super) fn exp_shift<const FMA: bool>(
    out: &mut [Lane],
    x: &[Lane],
    scores: &[Lane],
    lanes: usize,
    shifts: &[f32],
    sums: &mut [f32],
) {
    let tiles = out
        .chunks_exact_mut(lanes)
        .zip(x.chunks_exact(lanes))
        .zip(scores.chunks_exact(lanes));
    for ((((out, x), scores), &shift), sum) in tiles.zip(shifts).zip(sums) {
        zip(out, x, scores, |x, score| {
            unless_masked(maths::exp_of_negative::<FMA>(x - shift), score)
        });
        sum_all(out, lanes, std::slice::from_mut(sum));
    }
}

/// Computes products, or 0 where masked, and the sum of each row.
#[inline(always)]
pub(super) fn product_sum(
    out: &mut [Lane],
    a: &[Lane],
    b: &[Lane],
    scores: &[Lane],
    lanes: usize,
    sums: &mut [f32],
) {
    let factors = a.as_flattened().iter().zip(b.as_flattened());
    let factors = factors.zip(scores.as_flattened());
    for (out, ((&a, &b), &score)) in out.as_flattened_mut().iter_mut().zip(factors) {
        *out = unless_masked(a * b, score);
    }
    sum_all(out, lanes, sums);
}

/// Applies `f` to every value, writes its two results to two tiles, or 0 where masked, and computes the sums of the
/// rows of both tiles.
#[inline(always)]
pub(super) fn map_two(
    [first, second]: [&mut [Lane]; 2],
    x: &[Lane],
    scores: &[Lane],
    lanes: usize,
    sums: [&mut [f32]; 2],
    f: impl Fn(f32) -> [f32; 2],
) {
    let out = first.as_flattened_mut().iter_mut();
    let out = out.zip(second.as_flattened_mut());
    let values = x.as_flattened().iter().zip(scores.as_flattened());
    for ((first, second), (&x, &score)) in out.zip(values) {
        let made = f(x);
        *first = unless_masked(made[0], score);
        *second = unless_masked(made[1], score);
    }
    let [of_first, of_second] = sums;
    sum_all(first, lanes, of_first);
    sum_all(second, lanes, of_second);
}

/// Selects the second operand where the first is not 0, and the third elsewhere.
#[inline(always)]
pub(super) fn select(out: &mut [Lane], [c, a, b]: [&[Lane]; 3]) {
    let sides = a.as_flattened().iter().zip(b.as_flattened());
    let operands = c.as_flattened().iter().zip(sides);
    for (out, (&c, (&a, &b))) in out.as_flattened_mut().iter_mut().zip(operands) {
        *out = if c == 0.0 { b } else { a };
    }
}

/// Overwrites scores with gradients: `f` of a value of `x` and the element of `rows` for its row, or 0 where masked.
#[inline(always)]
pub(super) fn store(
    scores: &mut [f32],
    columns: usize,
    x: &[Lane],
    loaded: &[Lane],
    lanes: usize,
    rows: &[f32],
    f: impl Fn(f32, f32) -> f32,
) {
    if columns == 0 {
        return;
    }
    let tiles = x.chunks_exact(lanes).zip(loaded.chunks_exact(lanes));
    let tiles = scores.chunks_exact_mut(columns).zip(tiles);
    for ((out, (x, loaded)), &row) in tiles.zip(rows) {
        let values = x.as_flattened().iter().zip(loaded.as_flattened());
        for (out, (&x, &score)) in out.iter_mut().zip(values) {
            *out = unless_masked(f(x, row), score);
        }
    }
}

/// Returns the elements of vector `index` for the first `rows` rows.
#[inline(always)]
pub(super) fn numbers(vectors: &Vectors, index: usize, rows: usize) -> &[f32] {
    &vectors[index].as_flattened()[..rows]
}
