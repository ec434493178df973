//! Simulated annealing of a sequence of loads.
//!
//! Loads are removed until the sequence is cheaper than the best one, and then random changes search
//! for a sequence in which all pairs meet again. Each load puts a node into a slot of the buffer; a
//! change replaces its node or its slot, or exchanges neighbouring loads.

use pbg_plugin_sdk::Rng;

use crate::problem::{Load, Problem, Walk};

/// Maximum number of nodes, since a mask has one bit per node.
const NODES: usize = 64;

/// Maximum number of evaluations per attempt.
const ATTEMPT: u64 = 300_000;

/// Probabilities of accepting a change after which one more pair does not meet, for successive parts
/// of an attempt: `exp(-1 / t)`, with temperatures `t` from 1 to 1/4. They are constants, since
/// functions such as `exp` round differently on different machines.
const WORSE: [f64; 8] = [
    0.3679, 0.2955, 0.2263, 0.1634, 0.1099, 0.0678, 0.0376, 0.0183,
];

/// Returns the cheapest sequence found within `steps`, or `walk` if none is cheaper.
pub(crate) fn shorten(problem: &Problem, mut walk: Walk, steps: u64, rng: &mut Rng) -> Walk {
    let nodes = problem.nodes();
    if nodes > NODES || walk.loads.is_empty() {
        return walk;
    }
    let mut annealing = Annealing::new(problem);
    let mut left = steps;
    loop {
        let bound = problem.cost(&walk);
        if bound <= problem.lower_bound() {
            return walk;
        }
        let sequence = Sequence::shortened(problem, &walk, bound, rng);
        let evaluation = (sequence.loads.len() * (problem.capacity + 4) + nodes) as u64;
        let evaluations = (left / evaluation).min(ATTEMPT);
        // A short attempt is unlikely to succeed.
        if evaluations < 1000 {
            return walk;
        }
        let (found, used) = annealing.run(sequence, bound, evaluations, rng);
        left = left.saturating_sub(used * evaluation);
        if let Some(sequence) = found {
            walk = sequence.walk();
        }
    }
}

/// Sequence of loads, by slot.
#[derive(Clone, Debug)]
struct Sequence {
    /// Node in each slot after the first fill.
    first: Vec<u8>,
    /// Slot and node; if the node is already in the slot, nothing is loaded.
    loads: Vec<(u8, u8)>,
}

impl Sequence {
    /// Creates a sequence from `walk` without some of its loads, so that it costs less than `bound`.
    fn shortened(problem: &Problem, walk: &Walk, bound: u64, rng: &mut Rng) -> Self {
        let mut slots: Vec<u8> = walk.fill.iter().map(|&node| node as u8).collect();
        let first = slots.clone();
        let mut loads = Vec::with_capacity(walk.loads.len());
        for load in &walk.loads {
            let slot = slots
                .iter()
                .position(|&node| usize::from(node) == load.evicted);
            let slot = slot.unwrap_or(0);
            slots[slot] = load.loaded as u8;
            loads.push((slot as u8, load.loaded as u8));
        }
        let mut sequence = Self { first, loads };
        while sequence.cost(problem) >= bound && !sequence.loads.is_empty() {
            let at = rng.below(sequence.loads.len() as u64) as usize;
            sequence.loads.remove(at);
        }
        sequence
    }

    fn cost(&self, problem: &Problem) -> u64 {
        let mut slots = self.first.clone();
        let fill = slots.iter().map(|&node| usize::from(node));
        let fill = fill.filter(|node| !problem.resident.contains(node));
        let mut cost: u64 = fill.map(|node| problem.weight[node]).sum();
        for &(slot, node) in &self.loads {
            if std::mem::replace(&mut slots[usize::from(slot)], node) != node {
                cost += problem.weight[usize::from(node)];
            }
        }
        cost
    }

    fn walk(&self) -> Walk {
        let mut slots = self.first.clone();
        let mut loads = Vec::with_capacity(self.loads.len());
        for &(slot, node) in &self.loads {
            let evicted = std::mem::replace(&mut slots[usize::from(slot)], node);
            if evicted != node {
                loads.push(Load {
                    evicted: usize::from(evicted),
                    loaded: usize::from(node),
                });
            }
        }
        Walk {
            fill: self.first.iter().map(|&node| usize::from(node)).collect(),
            loads,
        }
    }

    /// Changes the sequence at random.
    fn change(&mut self, nodes: u64, rng: &mut Rng) {
        let slots = self.first.len() as u64;
        let length = self.loads.len() as u64;
        let at = rng.below(length) as usize;
        match rng.below(100) {
            0..42 => self.loads[at].1 = rng.below(nodes) as u8,
            42..62 => self.loads[at].0 = rng.below(slots) as u8,
            62..77 => self.evict_another(at, rng.below(slots) as u8),
            77..87 => self.loads.swap(at, (at + 1) % length as usize),
            87..97 => {
                let load = self.loads.remove(at);
                let new = (rng.below(slots) as u8, rng.below(nodes) as u8);
                let load = if rng.below(2) == 0 { load } else { new };
                self.loads.insert(rng.below(length) as usize, load);
            }
            _ => self.first[rng.below(slots) as usize] = rng.below(nodes) as u8,
        }
    }

    /// Moves the load at `at` to the slot `other`, and exchanges the two slots in all later loads.
    fn evict_another(&mut self, at: usize, other: u8) {
        let slot = std::mem::replace(&mut self.loads[at].0, other);
        for load in &mut self.loads[at + 1..] {
            if load.0 == slot {
                load.0 = other;
            } else if load.0 == other {
                load.0 = slot;
            }
        }
    }
}

struct Annealing<'a> {
    problem: &'a Problem,
    /// For each node, the mask of nodes that it must meet, including itself, since it must be loaded.
    wanted: Vec<u64>,
    resident: u64,
    met: Vec<u64>,
    slots: Vec<u8>,
}

impl<'a> Annealing<'a> {
    fn new(problem: &'a Problem) -> Self {
        let wanted = problem.partners.iter().enumerate();
        Self {
            problem,
            wanted: wanted.map(|(node, row)| row[0] | 1 << node).collect(),
            resident: problem
                .resident
                .iter()
                .fold(0, |mask, &node| mask | 1 << node),
            met: vec![0; problem.nodes()],
            slots: Vec::new(),
        }
    }

    /// Searches for a sequence cheaper than `bound` in which all pairs meet. Returns it and the number of evaluations.
    fn run(
        &mut self,
        mut current: Sequence,
        bound: u64,
        evaluations: u64,
        rng: &mut Rng,
    ) -> (Option<Sequence>, u64) {
        if current.loads.is_empty() {
            return (None, evaluations);
        }
        let nodes = self.problem.nodes() as u64;
        let mut missing = self.missing(&current, bound).unwrap_or(u32::MAX);
        let mut previous = current.clone();
        for evaluation in 0..evaluations {
            if missing == 0 {
                return (Some(current), evaluation);
            }
            previous.clone_from(&current);
            current.change(nodes, rng);
            let worse = WORSE[(evaluation * WORSE.len() as u64 / evaluations) as usize];
            let accepted = self.missing(&current, bound).filter(|&new| {
                let extra = new.saturating_sub(missing);
                extra == 0 || rng.unit() < (0..extra.min(64)).fold(1.0, |chance, _| chance * worse)
            });
            match accepted {
                Some(new) => missing = new,
                None => std::mem::swap(&mut current, &mut previous),
            }
        }
        ((missing == 0).then_some(current), evaluations)
    }

    /// Counts the pairs that do not meet; `None` if the sequence costs `bound` or more, or has a node
    /// in two slots at once.
    fn missing(&mut self, sequence: &Sequence, bound: u64) -> Option<u32> {
        self.slots.clone_from(&sequence.first);
        self.met.fill(0);
        let mut held = 0_u64;
        let mut cost = 0;
        for &node in &self.slots {
            if held >> node & 1 == 1 {
                return None;
            }
            held |= 1 << node;
            cost += self.problem.weight[usize::from(node)] * (!self.resident >> node & 1);
        }
        for &node in &self.slots {
            self.met[usize::from(node)] = held;
        }
        for &(slot, node) in &sequence.loads {
            let evicted = std::mem::replace(&mut self.slots[usize::from(slot)], node);
            if evicted == node {
                continue;
            }
            if held >> node & 1 == 1 {
                return None;
            }
            held = held & !(1 << evicted) | 1 << node;
            cost += self.problem.weight[usize::from(node)];
            for &other in &self.slots {
                self.met[usize::from(other)] |= 1 << node;
            }
            self.met[usize::from(node)] |= held;
        }
        let left = self
            .wanted
            .iter()
            .zip(&self.met)
            .map(|(wanted, met)| (wanted & !met).count_ones());
        (cost < bound).then(|| left.sum::<u32>().div_ceil(2))
    }
}
