//! Random greedy search: each load brings the most new meetings per byte.

use pbg_plugin_sdk::Rng;

use crate::problem::{Load, Problem, Walk, clear, has, ones, set};

/// Eviction rule for loads when no partition in the buffer has met all its partners.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// Evicts the newest; the others stay until they have met all partners, as in BETA.
    Newest,
    /// Evicts the older of the two newest, as in Legend, so that successively loaded partitions meet.
    Older,
}

/// Maximum number of sequences; more rarely help.
const WALKS: u64 = 500;

/// Estimates the steps for one sequence, assuming that each load makes as many pairs meet as possible.
pub(crate) fn steps(problem: &Problem) -> u64 {
    let nodes = problem.nodes() as u64;
    let pairs = problem
        .partners
        .iter()
        .map(|row| u64::from(ones(row)))
        .sum::<u64>()
        / 2;
    let loads = nodes + pairs / (problem.capacity as u64 - 1);
    loads * nodes * (40 + 4 * nodes.div_ceil(64))
}

/// Returns the cheapest of as many random sequences as `steps` allow, at least one, alternating the eviction rule.
pub(crate) fn shortest(problem: &Problem, steps: u64, rng: &mut Rng) -> Walk {
    let bound = problem.lower_bound();
    let words = problem.nodes().div_ceil(64) as u64;
    // Steps for examining a node for a load, and for allocating a sequence.
    let (look, start) = (40 + 4 * words, 1000 + 100 * problem.nodes() as u64);
    let mut best = walk(problem, Turn::Older, rng);
    let mut used = 0;
    let mut turn = Turn::Newest;
    for _ in 1..WALKS {
        let loads = best.fill.len() + best.loads.len() + 1;
        used += start + (loads * problem.nodes()) as u64 * look;
        if used > steps || problem.cost(&best) <= bound {
            break;
        }
        let next = walk(problem, turn, rng);
        if problem.cost(&next) < problem.cost(&best) {
            best = next;
        }
        turn = match turn {
            Turn::Newest => Turn::Older,
            Turn::Older => Turn::Newest,
        };
    }
    best
}

fn walk(problem: &Problem, turn: Turn, rng: &mut Rng) -> Walk {
    let nodes = problem.nodes();
    let mut unmet = problem.partners.clone();
    let mut seen = vec![false; nodes];
    let mut buffer: Vec<usize> = problem.resident.clone();
    rng.shuffle(&mut buffer);
    let mut walk = Walk {
        fill: buffer.clone(),
        loads: Vec::new(),
    };
    let mut held = vec![0_u64; nodes.div_ceil(64)];
    for &node in &buffer {
        seen[node] = true;
        meet(&mut unmet, node, &held);
        set(&mut held, node);
    }
    let mut order: Vec<usize> = (0..nodes).collect();
    loop {
        let victim =
            (buffer.len() >= problem.capacity).then(|| victim(problem, &buffer, &unmet, turn));
        if let Some(slot) = victim {
            clear(&mut held, buffer[slot]);
        }
        rng.shuffle(&mut order);
        let newest = buffer.last().copied();
        let score = |node: usize| score(&unmet[node], &held, newest);
        let wanted = |node: usize| !seen[node] || unmet[node].iter().any(|&word| word > 0);
        let next = order
            .iter()
            .copied()
            .filter(|&node| !has(&held, node) && victim.is_none_or(|v| buffer[v] != node))
            .filter(|&node| wanted(node))
            // Gains per byte, compared without dividing.
            .max_by(|&a, &b| {
                let (gain_a, newest_a, left_a) = score(a);
                let (gain_b, newest_b, left_b) = score(b);
                let per_byte_a = u128::from(gain_a) * u128::from(problem.weight[b]);
                let per_byte_b = u128::from(gain_b) * u128::from(problem.weight[a]);
                (per_byte_a, newest_a, left_a).cmp(&(per_byte_b, newest_b, left_b))
            });
        let Some(loaded) = next else { break };
        match victim {
            Some(slot) => {
                let evicted = buffer.remove(slot);
                walk.loads.push(Load { evicted, loaded });
            }
            None => walk.fill.push(loaded),
        }
        seen[loaded] = true;
        meet(&mut unmet, loaded, &held);
        set(&mut held, loaded);
        buffer.push(loaded);
    }
    walk
}

/// Rates a node whose unmet partners are `row`: the number of them in the buffer, whether the newest node is one of
/// them, and their total number.
fn score(row: &[u64], held: &[u64], newest: Option<usize>) -> (u32, bool, u32) {
    let words = row.iter().zip(held);
    let gain = words.map(|(a, b)| (a & b).count_ones()).sum();
    let with_newest = newest.is_some_and(|node| has(row, node) && has(held, node));
    (gain, with_newest, ones(row))
}

/// Returns the slot to evict: the first node that has met all its partners, otherwise as `turn` says.
fn victim(problem: &Problem, buffer: &[usize], unmet: &[Vec<u64>], turn: Turn) -> usize {
    let done = (0..buffer.len()).find(|&slot| ones(&unmet[buffer[slot]]) == 0);
    done.unwrap_or(match turn {
        Turn::Newest => buffer.len() - 1,
        Turn::Older => buffer.len() - problem.capacity.min(2),
    })
}

fn meet(unmet: &mut [Vec<u64>], node: usize, held: &[u64]) {
    for word in 0..held.len() {
        let mut met = unmet[node][word] & held[word];
        unmet[node][word] &= !met;
        while met > 0 {
            let other = word * 64 + met.trailing_zeros() as usize;
            clear(&mut unmet[other], node);
            met &= met - 1;
        }
    }
}
