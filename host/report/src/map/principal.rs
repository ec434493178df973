//! The first two principal components of points.

/// Rounds of power iteration; directions that are not separated by then have nearly equal variance.
const ROUNDS: usize = 100;

/// Subtracts the mean from all points.
pub(super) fn centred(mut rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let count = rows.len().max(1) as f64;
    let dimension = rows.first().map_or(0, Vec::len);
    for axis in 0..dimension {
        let mean = rows.iter().map(|row| row[axis]).sum::<f64>() / count;
        rows.iter_mut().for_each(|row| row[axis] -= mean);
    }
    rows
}

/// Returns the coordinates of points with mean 0 along the first two principal components.
pub(super) fn components(rows: &[Vec<f64>]) -> Vec<[f64; 2]> {
    let first = direction(rows, None);
    let second = direction(rows, Some(&first));
    rows.iter()
        .map(|row| [dot(row, &first), dot(row, &second)])
        .collect()
}

/// Returns the unit vector orthogonal to `other` along which `rows` have the largest variance.
fn direction(rows: &[Vec<f64>], other: Option<&[f64]>) -> Vec<f64> {
    let dimension = rows.first().map_or(0, Vec::len);
    // All components differ, so that the start is rarely orthogonal to the result.
    let mut found: Vec<f64> = (0..dimension)
        .map(|axis| 1.0 + (axis as f64 * 0.754_877_666).fract())
        .collect();
    for _ in 0..ROUNDS {
        if let Some(other) = other {
            let along = dot(&found, other);
            add(&mut found, -along, other);
        }
        let length = dot(&found, &found).sqrt();
        if length < f64::MIN_POSITIVE {
            break;
        }
        found.iter_mut().for_each(|x| *x /= length);
        let mut next = vec![0.0; dimension];
        for row in rows {
            add(&mut next, dot(row, &found), row);
        }
        if dot(&next, &next) < f64::MIN_POSITIVE {
            break;
        }
        found = next;
    }
    if let Some(other) = other {
        let along = dot(&found, other);
        add(&mut found, -along, other);
    }
    let length = dot(&found, &found).sqrt();
    if length > 0.0 {
        found.iter_mut().for_each(|x| *x /= length);
    }
    found
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(out: &mut [f64], factor: f64, row: &[f64]) {
    for (out, x) in out.iter_mut().zip(row) {
        *out += factor * x;
    }
}
