//! Known sequences for complete grids of equal partitions: certificates, and compositions of them.
//!
//! The number `f(p, c)` of loads after the first fill is the least of:
//!
//! * a certificate: a sequence found by a long search, from `certificates.txt`;
//! * one cycle of BETA, `p - 1` loads, after which `c - 1` partitions are finished and the same problem
//!   remains for the others: `f(p, c) <= p - 1 + f(p - c + 1, c)`. A better sequence for the remaining
//!   problem improves the whole;
//! * groups of `r` partitions that are loaded together: `f(p, c) <= r f(p / r, c / r)`;
//! * `2 (p - c)` if `p < 2 c`: the other partitions are loaded into the last slot, then once more.

use pbg_plugin_sdk::Rng;

use crate::problem::{Load, Problem, Walk};
use crate::sort_by_number;

/// Certificates, in lines of `p c: evicted loaded, ...`; the first fill is `0..c`.
const CERTIFICATES: &str = include_str!("certificates.txt");

/// Returns the fewest known loads after the first fill for `p` partitions of equal size and a buffer
/// of `c`, if all buckets have edges.
#[must_use]
pub fn swaps(p: usize, c: usize) -> u64 {
    Compositions::default().best(p, c.max(2)).0
}

/// Returns whether a short search is unlikely to improve on [`walk`].
pub(crate) fn is_certified(problem: &Problem) -> bool {
    problem.is_complete() && problem.weight.windows(2).all(|w| w[0] == w[1])
}

/// Returns the best composition, labelled so that the first fill has the resident nodes and heavy
/// nodes are loaded rarely; `None` if all nodes fit the buffer.
pub(crate) fn walk(problem: &Problem, rng: &mut Rng) -> Option<Walk> {
    let (p, c) = (problem.nodes(), problem.capacity);
    if p <= c {
        return None;
    }
    let loads = Compositions::default().build(p, c);
    let names = names(problem, &loads, rng);
    let renamed = |load: &Load| Load {
        evicted: names[load.evicted],
        loaded: names[load.loaded],
    };
    Some(Walk {
        fill: names[..c].to_vec(),
        loads: loads.iter().map(renamed).collect(),
    })
}

/// Returns the node of each label.
fn names(problem: &Problem, loads: &[Load], rng: &mut Rng) -> Vec<usize> {
    let (p, c) = (problem.nodes(), problem.capacity);
    // A label of the first fill is loaded once more than the sequence says, unless it is resident.
    let mut times: Vec<u64> = (0..p).map(|label| u64::from(label < c)).collect();
    for load in loads {
        times[load.loaded] += 1;
    }
    let mut nodes: Vec<usize> = (0..p).collect();
    rng.shuffle(&mut nodes);
    sort_by_number(&mut nodes, &|node| u64::MAX - problem.weight[node]);
    let (resident, others): (Vec<usize>, Vec<usize>) = nodes
        .into_iter()
        .partition(|node| problem.resident.contains(node));
    let mut labels: Vec<usize> = (0..p).collect();
    sort_by_number(&mut labels, &|label| times[label]);
    let mut names = vec![usize::MAX; p];
    let first: Vec<usize> = labels.iter().copied().filter(|&label| label < c).collect();
    for (&label, &node) in first.iter().zip(&resident) {
        names[label] = node;
    }
    labels.retain(|&label| names[label] == usize::MAX);
    for (label, node) in labels.into_iter().zip(others) {
        names[label] = node;
    }
    names
}

/// Construction of a sequence.
#[derive(Clone, Copy, Debug)]
enum Recipe {
    /// No loads, since all partitions fit.
    Nothing,
    /// The other partitions are loaded into the last slot, then once more.
    TwoPasses,
    /// A cycle of BETA, followed by a smaller problem.
    Cycle,
    /// Groups of this many partitions.
    Bundles(usize),
    Certificate,
}

/// Known sequences by `(p, c)`; both lists are short.
struct Compositions {
    certificates: Vec<((usize, usize), Vec<Load>)>,
    best: Vec<((usize, usize), (u64, Recipe))>,
}

impl Default for Compositions {
    fn default() -> Self {
        Self {
            certificates: CERTIFICATES.lines().filter_map(parse).collect(),
            best: Vec::new(),
        }
    }
}

fn parse(line: &str) -> Option<((usize, usize), Vec<Load>)> {
    let (sizes, loads) = line.split_once(':')?;
    let pair = |text: &str| {
        let (a, b) = text.trim().split_once(' ')?;
        Some((a.parse().ok()?, b.parse().ok()?))
    };
    let load = |text| {
        let (evicted, loaded) = pair(text)?;
        Some(Load { evicted, loaded })
    };
    Some((
        pair(sizes)?,
        loads.split(',').map(load).collect::<Option<_>>()?,
    ))
}

impl Compositions {
    fn certificate(&self, p: usize, c: usize) -> Option<&[Load]> {
        let mut certificates = self.certificates.iter();
        let (_, loads) = certificates.find(|(sizes, _)| *sizes == (p, c))?;
        Some(loads)
    }

    fn best(&mut self, p: usize, c: usize) -> (u64, Recipe) {
        if p <= c {
            return (0, Recipe::Nothing);
        }
        if let Some(&(_, known)) = self.best.iter().find(|(sizes, _)| *sizes == (p, c)) {
            return known;
        }
        let mut best = if p < 2 * c - 1 {
            (2 * (p - c) as u64, Recipe::TwoPasses)
        } else {
            ((p - 1) as u64 + self.best(p - c + 1, c).0, Recipe::Cycle)
        };
        let mut consider = |loads: u64, recipe| {
            if loads < best.0 {
                best = (loads, recipe);
            }
        };
        for bundle in (2..=c / 2).filter(|r| p.is_multiple_of(*r) && c.is_multiple_of(*r)) {
            let loads = bundle as u64 * self.best(p / bundle, c / bundle).0;
            consider(loads, Recipe::Bundles(bundle));
        }
        if let Some(loads) = self.certificate(p, c) {
            consider(loads.len() as u64, Recipe::Certificate);
        }
        self.best.push(((p, c), best));
        best
    }

    /// Returns the loads of the best sequence, after a first fill of `0..c`.
    fn build(&mut self, p: usize, c: usize) -> Vec<Load> {
        match self.best(p, c).1 {
            Recipe::Nothing => Vec::new(),
            Recipe::TwoPasses | Recipe::Cycle => self.cycle(p, c),
            Recipe::Bundles(bundle) => bundled(&self.build(p / bundle, c / bundle), bundle),
            Recipe::Certificate => self.certificate(p, c).unwrap_or_default().to_vec(),
        }
    }

    fn cycle(&mut self, p: usize, c: usize) -> Vec<Load> {
        let passes = (c..p).map(|loaded| Load {
            evicted: loaded - 1,
            loaded,
        });
        let mut loads: Vec<Load> = passes.collect();
        // Labels of the remaining problem: the last loaded one, then `c - 1` and the others in the order of their loads.
        let rest: Vec<usize> = std::iter::once(p - 1).chain(c - 1..p - 1).collect();
        let refill = rest.iter().skip(1).take(c - 1).enumerate();
        loads.extend(refill.map(|(evicted, &loaded)| Load { evicted, loaded }));
        if rest.len() > c {
            loads.extend(self.build(rest.len(), c).iter().map(|load| Load {
                evicted: rest[load.evicted],
                loaded: rest[load.loaded],
            }));
        }
        loads
    }
}

/// Replaces each label by `bundle` consecutive labels.
fn bundled(loads: &[Load], bundle: usize) -> Vec<Load> {
    let members = |load: &Load| {
        let load = *load;
        (0..bundle).map(move |n| Load {
            evicted: load.evicted * bundle + n,
            loaded: load.loaded * bundle + n,
        })
    };
    loads.iter().flat_map(members).collect()
}
