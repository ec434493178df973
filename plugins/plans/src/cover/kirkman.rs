//! Kirkman triple systems: rounds of triples that contain every point once, with any two points in exactly one triple
//! of all rounds.

use super::Round;
use super::field::Field;

/// Returns the smallest system with at least `points` points that can be constructed here, and its number of points.
/// Systems exist for all `6 k + 3` points (Ray-Chaudhuri and Wilson, 1971). This module constructs those for `3 q` and
/// `2 q + 1` points, with prime powers `q = 6 t + 1`, and those with three times the points of another system. Below
/// 100 only 33 and 69 are missing, for which 39 and 75 are returned.
pub(super) fn at_least(points: usize) -> (usize, Vec<Round>) {
    let sizes = (0..).map(|k| 6 * k + 3).skip_while(|&size| size < points);
    let mut found = sizes.filter_map(|size| Some((size, system(size)?)));
    // There is always one, since the number of points of a system can be tripled repeatedly.
    found.next().unwrap_or_default()
}

/// Returns the system on exactly `points` points, if it can be constructed here.
fn system(points: usize) -> Option<Vec<Round>> {
    if points == 3 {
        return Some(vec![vec![vec![0, 1, 2]]]);
    }
    if !points.is_multiple_of(3) || points.is_multiple_of(2) {
        return None;
    }
    let over = |order: usize| Some(order).filter(|q| q % 6 == 1).and_then(Field::new);
    over(points / 3)
        .map(|field| three_copies(&field))
        .or_else(|| over((points - 1) / 2).map(|field| two_copies(&field)))
        .or_else(|| system(points / 3).map(|third| tripled(points / 3, &third)))
}

/// Constructs a system on three copies of a field of `6 t + 1` elements (Ray-Chaudhuri and Wilson,
/// "Solution of Kirkman's schoolgirl problem", 1971, theorem 5).
fn three_copies(field: &Field) -> Vec<Round> {
    let q = field.order();
    let t = q / 6;
    let point = |element: usize, copy: usize| copy * q + element;
    let across = |i: usize| {
        (0..3)
            .map(|copy| point(field.power(i + 2 * t * copy), copy))
            .collect::<Vec<_>>()
    };
    let mut base = vec![vec![point(0, 0), point(0, 1), point(0, 2)]];
    for i in 0..t {
        for copy in 0..3 {
            base.push(
                (0..3)
                    .map(|n| point(field.power(i + 2 * t * n), copy))
                    .collect(),
            );
        }
        base.extend([1, 3, 5].map(|odd| across(i + odd * t)));
    }
    let shifted = |triple: &Vec<usize>, by: usize| {
        triple
            .iter()
            .map(|&p| point(field.add(p % q, by), p / q))
            .collect()
    };
    let of_base = (0..q).map(|by| base.iter().map(|triple| shifted(triple, by)).collect());
    let rest = (0..t).flat_map(|i| [0, 2, 4].map(|even| across(i + even * t)));
    let of_rest = rest.map(|triple| (0..q).map(|by| shifted(&triple, by)).collect());
    of_base.chain(of_rest).collect()
}

/// Constructs a system on two copies of a field of `6 t + 1` elements and one more point (the same
/// paper, theorem 6).
fn two_copies(field: &Field) -> Vec<Round> {
    let q = field.order();
    let t = q / 6;
    let infinity = 2 * q;
    let half = (1..q).find(|&a| field.add(a, a) == 1).unwrap_or(1);
    let middle = field.multiply(field.add(field.power(t), 1), half);
    let m = field.exponent(middle);
    let mut base = vec![vec![infinity, 0, q]];
    for i in 0..t {
        for even in [0, 2, 4] {
            let i = i + even * t;
            base.push(vec![
                field.power(i),
                field.power(i + t),
                q + field.power(i + m),
            ]);
        }
        base.push(
            [1, 3, 5]
                .map(|odd| q + field.power(i + m + odd * t))
                .to_vec(),
        );
    }
    let shifted = |p: usize, by: usize| match p {
        p if p == infinity => p,
        p if p >= q => q + field.add(p - q, by),
        p => field.add(p, by),
    };
    (0..q)
        .map(|by| {
            base.iter()
                .map(|triple| triple.iter().map(|&p| shifted(p, by)).collect())
                .collect()
        })
        .collect()
}

/// Constructs a system on three copies of the points of another system: each of its triples becomes
/// nine triples across the copies, in three rounds, and the three copies of each point form a triple.
fn tripled(points: usize, third: &[Round]) -> Vec<Round> {
    let copy = |point: usize, copy: usize| copy % 3 * points + point;
    let mut rounds = vec![
        (0..points)
            .map(|p| (0..3).map(|n| copy(p, n)).collect())
            .collect(),
    ];
    for round in third {
        for step in 0..3 {
            let across = |triple: &Vec<usize>, first: usize| {
                let steps = triple.iter().enumerate();
                steps.map(|(n, &p)| copy(p, first + n * step)).collect()
            };
            let triples = round.iter();
            rounds.push(
                triples
                    .flat_map(|t| (0..3).map(move |first| across(t, first)))
                    .collect(),
            );
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_is_one() {
        let mut sizes = Vec::new();
        for points in 0..130 {
            let Some(rounds) = system(points) else {
                continue;
            };
            sizes.push(points);
            assert_eq!(rounds.len(), (points - 1) / 2);
            let mut meetings = vec![0; points * points];
            for round in &rounds {
                let mut met = round.concat();
                met.sort_unstable();
                assert_eq!(
                    met,
                    (0..points).collect::<Vec<_>>(),
                    "a round on {points} points"
                );
                for triple in round {
                    for (&a, &b) in triple
                        .iter()
                        .flat_map(|a| triple.iter().map(move |b| (a, b)))
                    {
                        meetings[a * points + b] += 1;
                    }
                }
            }
            for a in 0..points {
                for b in 0..a {
                    assert_eq!(
                        meetings[a * points + b],
                        1,
                        "{a} and {b} of {points} points"
                    );
                }
            }
        }
        let expected = [
            3, 9, 15, 21, 27, 39, 45, 51, 57, 63, 75, 81, 87, 93, 99, 111, 117, 123, 129,
        ];
        assert_eq!(sizes, expected);
        assert_eq!(at_least(28).0, 39);
        assert_eq!(at_least(0).0, 3);
    }
}
