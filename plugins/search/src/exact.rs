//! Exact search for the cheapest sequence of a few nodes: A* over (remaining pairs, buffer).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::problem::{Load, Problem, Walk, has};

/// Maximum number of nodes: 28 pairs and 8 nodes fit one number.
const NODES: usize = 8;

/// State of a sequence: bits 0..8 are the buffer, 8..16 the nodes never loaded, 16..44 the pairs that
/// have not met.
type State = u64;

/// Returns the cheapest sequence if it costs less than `bound`; `Some(None)` if it is proven that none
/// does; `None` if there are too many nodes or the steps are exhausted.
pub(crate) fn search(problem: &Problem, bound: u64, steps: u64) -> Option<Option<Walk>> {
    (problem.nodes() <= NODES).then(|| Search::new(problem).run(bound, steps))?
}

struct Search<'a> {
    problem: &'a Problem,
    /// The two nodes of each pair.
    pairs: Vec<[usize; 2]>,
    /// Lowest known cost of each state, with its predecessor and load.
    reached: BTreeMap<State, (u64, Option<(State, Load)>)>,
    queue: BinaryHeap<Reverse<(u64, u64, State)>>,
}

/// Number of steps counted for the expansion of a state.
const EXPANSION: u64 = 8000;

/// Value of `evicted` if nothing was evicted.
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

    /// Returns `state` after adding `node` to the buffer and removing the pairs that now meet.
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

    /// Returns a lower bound of the remaining cost, the larger of two: for each remaining pair, its
    /// share of the cheaper load that can make it meet; and the loads of all nodes never loaded.
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
