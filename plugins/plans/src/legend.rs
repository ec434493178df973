//! Legend: sequences of loads in which the last loaded partition is never evicted next.

use pbg_plugin_sdk::{Bucket, Pass, Rng, Side};

/// Work limit for one plan, in steps times partitions: some hundredths of a second.
const WORK: usize = 4_000_000;

/// Returns the plan of `legend`.
#[must_use]
pub fn plan(pass: &Pass) -> Vec<Bucket> {
    shortest(pass, &mut pass.rng()).plan(pass)
}

/// A sequence of loads.
#[derive(Clone, Debug)]
struct Walk {
    /// Partitions of the first fill.
    first: Vec<usize>,
    loads: Vec<Load>,
}

#[derive(Clone, Copy, Debug)]
struct Load {
    loaded: usize,
    evicted: usize,
}

/// Returns the sequence with the fewest loads, of as many random ones as the work limit allows.
fn shortest(pass: &Pass, rng: &mut Rng) -> Walk {
    let mut best = Walk::random(pass, rng);
    let work = (best.loads.len() + 1) * pass.partitions() * pass.buffer_partitions as usize;
    for _ in 1..(WORK / work).min(64) {
        let walk = Walk::random(pass, rng);
        if walk.loads.len() < best.loads.len() {
            best = walk;
        }
    }
    best
}

impl Walk {
    fn random(pass: &Pass, rng: &mut Rng) -> Self {
        let first = first_fill(pass, rng);
        let mut unmet = Unmet::new(pass);
        for (at, &a) in first.iter().enumerate() {
            first[..at].iter().for_each(|&b| unmet.meet(a, b));
        }
        // The pivots, then the older and the newer of the two other partitions.
        let mut buffer = first.clone();
        let mut outside: Vec<usize> = (0..pass.partitions())
            .filter(|p| !buffer.contains(p))
            .collect();
        let mut loads = Vec::new();
        while unmet.pairs > 0 && buffer.len() >= 2 {
            let older = buffer.len() - 2;
            let done = buffer[..older]
                .iter()
                .position(|&pivot| unmet.of[pivot] == 0);
            let evicted = buffer.remove(done.unwrap_or(older));
            rng.shuffle(&mut outside);
            let score = |&y: &usize| {
                let gain = buffer.iter().filter(|&&p| unmet.is(y, p)).count();
                let newest = buffer.last().is_some_and(|&p| unmet.is(y, p));
                (gain, newest, unmet.of[y])
            };
            let Some(next) = (0..outside.len()).max_by_key(|&n| score(&outside[n])) else {
                break;
            };
            let loaded = std::mem::replace(&mut outside[next], evicted);
            buffer.iter().for_each(|&p| unmet.meet(loaded, p));
            buffer.push(loaded);
            loads.push(Load { loaded, evicted });
        }
        Self { first, loads }
    }

    /// Returns the plan: after each load, first the buckets that need the partition that is evicted next.
    fn plan(&self, pass: &Pass) -> Vec<Bucket> {
        let mut planned = vec![false; pass.edges.len()];
        let mut plan = Vec::with_capacity(planned.len());
        let mut buffer = self.first.clone();
        let mut newcomers = self.first.clone();
        for step in 0..=self.loads.len() {
            let next = self.loads.get(step);
            let mut ready: Vec<Bucket> = Vec::new();
            for &a in &newcomers {
                for bucket in buffer.iter().flat_map(|&b| pass.between(a, b)) {
                    if !std::mem::replace(&mut planned[pass.index(bucket)], true) {
                        ready.push(bucket);
                    }
                }
            }
            let leaves = |bucket: &Bucket| {
                next.is_none_or(|load| pass.ends(*bucket).contains(&load.evicted))
            };
            plan.extend(ready.iter().copied().filter(leaves));
            plan.extend(ready.into_iter().filter(|bucket| !leaves(bucket)));
            if let Some(load) = next {
                buffer.retain(|&p| p != load.evicted);
                buffer.push(load.loaded);
                newcomers = vec![load.loaded];
            }
        }
        plan.extend(pass.grid().into_iter().filter(|&b| !planned[pass.index(b)]));
        plan
    }
}

/// Returns random partitions for the first fill; if the sides are not shared, the pivots are of one
/// side and the other two of the other side.
fn first_fill(pass: &Pass, rng: &mut Rng) -> Vec<usize> {
    let room = (pass.buffer_partitions as usize)
        .max(2)
        .min(pass.partitions());
    let mut names: Vec<usize> = (0..pass.partitions()).collect();
    if pass.shared {
        rng.shuffle(&mut names);
        names.truncate(room);
        return names;
    }
    let (lhs, rhs) = names.split_at_mut(pass.partition(Side::Rhs, 0));
    rng.shuffle(lhs);
    rng.shuffle(rhs);
    let (pivots, others) = if lhs.len() <= rhs.len() {
        (lhs, rhs)
    } else {
        (rhs, lhs)
    };
    let of_pivots = pivots
        .len()
        .min((room - 1).min(room.saturating_sub(2).max(1)));
    let mut fill = pivots[..of_pivots].to_vec();
    fill.extend(others.iter().take(room - of_pivots));
    fill
}

/// Pairs of partitions with buckets between them that have not met.
struct Unmet {
    partitions: usize,
    matrix: Vec<bool>,
    /// For each partition, the number of partitions that it has not met.
    of: Vec<usize>,
    pairs: usize,
}

impl Unmet {
    fn new(pass: &Pass) -> Self {
        let partitions = pass.partitions();
        let matrix: Vec<bool> = (0..partitions)
            .flat_map(|a| (0..partitions).map(move |b| (a, b)))
            .map(|(a, b)| a != b && pass.between(a, b).next().is_some())
            .collect();
        let of: Vec<usize> = matrix
            .chunks(partitions)
            .map(|row| row.iter().filter(|&&unmet| unmet).count())
            .collect();
        Self {
            partitions,
            matrix,
            pairs: of.iter().sum::<usize>() / 2,
            of,
        }
    }

    fn is(&self, a: usize, b: usize) -> bool {
        self.matrix[a * self.partitions + b]
    }

    fn meet(&mut self, a: usize, b: usize) {
        if self.is(a, b) {
            self.matrix[a * self.partitions + b] = false;
            self.matrix[b * self.partitions + a] = false;
            self.of[a] -= 1;
            self.of[b] -= 1;
            self.pairs -= 1;
        }
    }
}
