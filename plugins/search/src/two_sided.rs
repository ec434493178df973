//! Sequences for grids whose sides are not shared: some partitions of one side stay while all of the other side pass.
//!
//! With room for `k` partitions of the side that stays, its `a` partitions form `g = ⌈a / k⌉` groups. The `b` partitions
//! of the other side pass through the remaining `c - k` slots once for every group, in alternating directions, so that
//! those in the buffer at a turn are not loaded again: `a` loads of one side and `g b - (g - 1) (c - k)` of the other. BETA
//! is the case `k = c - 1`. Which `k` reads the fewest bytes depends on the sizes of the partitions.

use pbg_plugin_sdk::Pass;

use crate::problem::{Load, Problem, Walk};
use crate::sort_by_number;

/// Returns the cheapest sequence over both sides and all `k`; `None` if the sides are shared or one of them has no
/// partition to load.
pub(crate) fn walk(pass: &Pass, problem: &Problem) -> Option<Walk> {
    let is_lhs = |&node: &usize| problem.partition(node) < pass.lhs_partitions as usize;
    let (lhs, rhs): (Vec<usize>, Vec<usize>) = (0..problem.nodes()).partition(is_lhs);
    if pass.shared || lhs.is_empty() || rhs.is_empty() {
        return None;
    }
    let mut best: Option<(u64, Passage<'_>, usize)> = None;
    for (staying, passing) in [(&lhs, &rhs), (&rhs, &lhs)] {
        for kept in 1..problem.capacity.min(staying.len() + 1) {
            let passage = Passage::new(problem, staying, passing, problem.capacity - kept);
            let cost = passage.cost(kept);
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, passage, kept));
            }
        }
    }
    best.map(|(_, passage, kept)| passage.walk(kept))
}

/// Nodes of both sides, in the sequence of their first loads.
struct Passage<'a> {
    problem: &'a Problem,
    staying: Vec<usize>,
    passing: Vec<usize>,
    /// Number of slots through which nodes pass.
    room: usize,
}

impl<'a> Passage<'a> {
    fn new(problem: &'a Problem, staying: &[usize], passing: &[usize], room: usize) -> Self {
        let mut passing = residents_first(problem, passing);
        // The first and the last nodes, which are in the buffer at the turns, are resident or the heaviest.
        let first = passing.len().min(room);
        let last = room.min(passing.len() - first);
        passing[first..].rotate_left(last);
        Self {
            problem,
            staying: residents_first(problem, staying),
            passing,
            room,
        }
    }

    /// Returns the bytes of the sequence in which groups of `kept` nodes stay, if nothing is resident.
    fn cost(&self, kept: usize) -> u64 {
        let weight = |nodes: &[usize]| nodes.iter().map(|&n| self.problem.weight[n]).sum::<u64>();
        let groups = self.staying.len().div_ceil(kept) as u64;
        let ends = self.passing.len().min(self.room);
        let first = weight(&self.passing[..ends]);
        let last = weight(&self.passing[self.passing.len() - ends..]);
        let turns = groups - 1;
        weight(&self.staying) + groups * weight(&self.passing)
            - turns.div_ceil(2) * last
            - turns / 2 * first
    }

    /// Returns the sequence in which groups of `kept` nodes stay.
    fn walk(mut self, kept: usize) -> Walk {
        let mut buffer = self.problem.resident.clone();
        let mut walk = Walk {
            fill: buffer.clone(),
            loads: Vec::new(),
        };
        for group in self.staying.chunks(kept) {
            for &loaded in group.iter().chain(&self.passing) {
                if buffer.contains(&loaded) {
                    continue;
                }
                if buffer.len() < self.problem.capacity {
                    walk.fill.push(loaded);
                } else {
                    // The oldest one leaves: those of a finished group before those that pass.
                    let oldest = buffer.iter().position(|node| !group.contains(node));
                    let evicted = buffer.remove(oldest.unwrap_or(0));
                    walk.loads.push(Load { evicted, loaded });
                }
                buffer.push(loaded);
            }
            self.passing.reverse();
        }
        walk
    }
}

/// Sorts nodes so that resident ones come first, then the heaviest.
fn residents_first(problem: &Problem, nodes: &[usize]) -> Vec<usize> {
    let mut nodes = nodes.to_vec();
    sort_by_number(&mut nodes, &|node| u64::MAX - problem.weight[node]);
    let is_loaded = |node| u64::from(!problem.resident.contains(&node));
    sort_by_number(&mut nodes, &is_loaded);
    nodes
}
