//! The cheapest sequence of a few nodes, by A* over (pairs left, buffer).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::problem::{Load, Problem, Walk, has};

/// Nodes up to which it is tried: 28 pairs and 8 nodes fit one number.
const NODES: usize = 8;

/// Where a sequence stands: bits 0..8 the buffer, 8..16 nodes never loaded, 16..44 pairs that
/// have not met.
type State = u64;

/// The cheapest sequence if it costs less than `bound`, or the certainty that there is none
/// (`Some(None)`); `None` where the nodes are too many or the steps ran out.
pub(crate) fn search(problem: &Problem, bound: u64, steps: u64) -> Option<Option<Walk>> {
    (problem.nodes() <= NODES).then(|| Search::new(problem).run(bound, steps))?
}

struct Search<'a> {
    problem: &'a Problem,
    /// Per pair, its two nodes.
    pairs: Vec<[usize; 2]>,
    /// Cheapest known cost of a state, and how it was reached.
    reached: BTreeMap<State, (u64, Option<(State, Load)>)>,
    queue: BinaryHeap<Reverse<(u64, u64, State)>>,
}

/// Steps that looking at all successors of a state takes.
const EXPANSION: u64 = 8000;

/// Stands for "nothing was evicted".
const NOTHING: usize = usize::MAX;

impl<'a> Search<'a> {
    fn new(problem: &'a Problem) -> Self {
        let nodes = problem.nodes();
        let pairs = (0..nodes)
            .flat_map(|a| (0..a).map(move |b| [a, b]))
            .filter(|&[a, b]| has(&problem.partners[a], b))
            .collect();
        Self {
            problem,
            pairs,
            reached: BTreeMap::new(),
            queue: BinaryHeap::new(),
        }
    }

    fn run(mut self, bound: u64, steps: u64) -> Option<Option<Walk>> {
        let everything = (1 << self.problem.nodes()) - 1;
        let mut start: State = everything << 8 | ((1 << self.pairs.len()) - 1) << 16;
        for &node in &self.problem.resident {
            start = self.with(start, node);
        }
        self.reach(start, 0, bound, None);
        let mut left = steps / EXPANSION;
        while let Some(Reverse((_, cost, state))) = self.queue.pop() {
            if self.reached[&state].0 < cost {
                continue;
            }
            if state >> 8 == 0 {
                return Some(Some(self.path(state)));
            }
            left = left.checked_sub(1)?;
            for loaded in (0..self.problem.nodes()).filter(|&n| state >> n & 1 == 0) {
                let cost = cost + self.problem.weight[loaded];
                if (state & 0xff).count_ones() < self.problem.capacity as u32 {
                    let load = Load {
                        evicted: NOTHING,
                        loaded,
                    };
                    self.reach(self.with(state, loaded), cost, bound, Some((state, load)));
                    continue;
                }
                for evicted in (0..self.problem.nodes()).filter(|&n| state >> n & 1 == 1) {
                    let next = self.with(state & !(1 << evicted), loaded);
                    self.reach(next, cost, bound, Some((state, Load { evicted, loaded })));
                }
            }
        }
        Some(None)
    }

    /// `state` with `node` in the buffer and all pairs that now meet done.
    fn with(&self, state: State, node: usize) -> State {
        let state = (state | 1 << node) & !(1 << (8 + node));
        let meets = |&(_, &[a, b]): &(usize, &[usize; 2])| state >> a & state >> b & 1 == 1;
        let met = self.pairs.iter().enumerate().filter(meets);
        met.fold(state, |state, (pair, _)| state & !(1 << (16 + pair)))
    }

    fn reach(&mut self, state: State, cost: u64, bound: u64, from: Option<(State, Load)>) {
        let estimate = cost + self.at_least(state);
        let known = self
            .reached
            .get(&state)
            .map_or(u64::MAX, |&(known, _)| known);
        if estimate < bound && cost < known {
            self.reached.insert(state, (cost, from));
            self.queue.push(Reverse((estimate, cost, state)));
        }
    }

    /// What is still to be paid: each pair its share of the cheaper load that can bring it, or
    /// each node that was never loaded, whichever is more.
    fn at_least(&self, state: State) -> u64 {
        let left = |pair: usize| state >> (16 + pair) & 1 == 1;
        let mut degree = [0_u64; NODES];
        for (_, &[a, b]) in self
            .pairs
            .iter()
            .enumerate()
            .filter(|&(pair, _)| left(pair))
        {
            degree[a] += 1;
            degree[b] += 1;
        }
        let room = self.problem.capacity as u64 - 1;
        let share =
            |node: usize| self.problem.weight[node] as f64 / room.min(degree[node]).max(1) as f64;
        let shares = self
            .pairs
            .iter()
            .enumerate()
            .filter(|&(pair, _)| left(pair));
        let pairs: f64 = shares.map(|(_, &[a, b])| share(a).min(share(b))).sum();
        let least = self
            .problem
            .weight
            .iter()
            .copied()
            .min()
            .unwrap_or(0)
            .max(1);
        let loads = if self.problem.weight.iter().all(|&w| w == least) {
            (pairs * (1.0 - 1e-9) / least as f64).ceil() as u64 * least
        } else {
            (pairs * (1.0 - 1e-9)) as u64
        };
        let new = (0..self.problem.nodes()).filter(|n| state >> (8 + n) & 1 == 1);
        loads.max(new.map(|n| self.problem.weight[n]).sum())
    }

    fn path(&self, last: State) -> Walk {
        let mut loads = Vec::new();
        let mut state = last;
        while let Some((before, load)) = self.reached[&state].1 {
            loads.push(load);
            state = before;
        }
        loads.reverse();
        let filling = loads
            .iter()
            .take_while(|load| load.evicted == NOTHING)
            .count();
        let mut fill = self.problem.resident.clone();
        fill.extend(loads.drain(..filling).map(|load| load.loaded));
        Walk { fill, loads }
    }
}
