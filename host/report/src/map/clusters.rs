//! Clusters points by k-means (Lloyd 1982), with initial centres that are far apart.

/// Maximum number of groups, equal to the number of distinguishable colours.
const GROUPS: usize = 8;
/// Minimum average number of points of a group.
const SMALLEST: usize = 10;
/// Maximum number of rounds; usually the groups converge much earlier.
const ROUNDS: usize = 100;

/// Returns the group of each point, and the point nearest to the centre of each group; the largest group comes first.
pub(super) fn groups(rows: &[f32], dimension: usize) -> (Vec<usize>, Vec<usize>) {
    let points: Vec<&[f32]> = rows.chunks_exact(dimension).collect();
    if points.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let count = (points.len() / SMALLEST).clamp(1, GROUPS);
    let mut middles = far_apart(&points, count);
    let mut group = vec![0; points.len()];
    for _ in 0..ROUNDS {
        let next: Vec<usize> = points.iter().map(|p| nearest(p, &middles).0).collect();
        let same = next == group;
        group = next;
        for (at, middle) in middles.iter_mut().enumerate() {
            let own = points.iter().zip(&group).filter(|(_, g)| **g == at);
            mean(own.map(|(p, _)| *p), middle);
        }
        if same {
            break;
        }
    }
    sorted_groups(&points, &group, &middles)
}

/// Chooses points that are each the farthest from the earlier ones; the first is the farthest from the mean.
fn far_apart(points: &[&[f32]], count: usize) -> Vec<Vec<f32>> {
    let mut chosen = vec![vec![0.0; points[0].len()]];
    mean(points.iter().copied(), &mut chosen[0]);
    for _ in 0..count {
        let apart = |p: &&&[f32]| nearest(p, &chosen).1;
        let next = points.iter().max_by(|a, b| apart(a).total_cmp(&apart(b)));
        let next = next.map(|p| p.to_vec()).unwrap_or_default();
        chosen.push(next);
    }
    chosen.remove(0);
    chosen
}

/// Removes empty groups, sorts the others by size, and finds the point nearest to the centre of each.
fn sorted_groups(
    points: &[&[f32]],
    group: &[usize],
    middles: &[Vec<f32>],
) -> (Vec<usize>, Vec<usize>) {
    let members = |of: usize| (0..points.len()).filter(move |&at| group[at] == of);
    let mut order: Vec<usize> = (0..middles.len())
        .filter(|&of| members(of).next().is_some())
        .collect();
    order.sort_by_key(|&of| std::cmp::Reverse(members(of).count()));
    let middle = |&of: &usize| {
        let apart = |at: &usize| squared(points[*at], &middles[of]);
        members(of).min_by(|a, b| apart(a).total_cmp(&apart(b)))
    };
    let central = order.iter().filter_map(middle).collect();
    let place = |of: &usize| order.iter().position(|o| o == of).unwrap_or(0);
    (group.iter().map(place).collect(), central)
}

/// Returns the index of the centre nearest to `point`, and its squared distance.
fn nearest(point: &[f32], middles: &[Vec<f32>]) -> (usize, f64) {
    let apart = middles.iter().map(|middle| squared(point, middle));
    let nearest = apart.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
    nearest.unwrap_or((0, 0.0))
}

/// Writes the mean of points to `out`; leaves it unchanged if there are none.
fn mean<'p>(points: impl Iterator<Item = &'p [f32]>, out: &mut [f32]) {
    let mut sum = vec![0.0_f64; out.len()];
    let mut count = 0.0;
    for point in points {
        count += 1.0;
        sum.iter_mut()
            .zip(point)
            .for_each(|(s, &x)| *s += f64::from(x));
    }
    if count > 0.0 {
        out.iter_mut()
            .zip(&sum)
            .for_each(|(x, s)| *x = (s / count) as f32);
    }
}

fn squared(a: &[f32], b: &[f32]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
    squares.sum()
}
