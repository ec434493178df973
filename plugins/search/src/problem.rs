//! The search problem without buckets: nodes with weights, pairs that must meet, and a buffer.

use pbg_plugin_sdk::{Bucket, Pass};

/// Search problem. Its nodes are the partitions to load, numbered densely.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    /// Bytes of each node.
    pub(crate) weight: Vec<u64>,
    /// For each node, the set of nodes that it must meet, as bits in words of 64.
    pub(crate) partners: Vec<Vec<u64>>,
    /// Number of nodes that fit the buffer.
    pub(crate) capacity: usize,
    /// Nodes in the buffer at the start.
    pub(crate) resident: Vec<usize>,
    /// The partition of each node.
    partitions: Vec<usize>,
}

/// A sequence of loads; nothing is evicted while the buffer fills.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Nodes of the first fill, resident or loaded.
    pub(crate) fill: Vec<usize>,
    pub(crate) loads: Vec<Load>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) evicted: usize,
    pub(crate) loaded: usize,
}

impl Problem {
    /// Creates the problem of a pass; `None` if nothing needs to be loaded.
    pub(crate) fn new(pass: &Pass) -> Option<Self> {
        let mut used = vec![false; pass.partitions()];
        for bucket in pass.grid() {
            pass.needs(bucket).for_each(|p| used[p] = true);
        }
        let partitions: Vec<usize> = (0..used.len()).filter(|&p| used[p]).collect();
        let mut node = vec![usize::MAX; used.len()];
        for (n, &p) in partitions.iter().enumerate() {
            node[p] = n;
        }
        let mut partners = vec![vec![0; partitions.len().div_ceil(64)]; partitions.len()];
        for bucket in pass.grid() {
            let mut needs = pass.needs(bucket);
            if let (Some(a), Some(b)) = (needs.next(), needs.next()) {
                set(&mut partners[node[a]], node[b]);
                set(&mut partners[node[b]], node[a]);
            }
        }
        let capacity = (pass.buffer_partitions as usize).max(2);
        let mut there = vec![false; used.len()];
        for p in pass.resident_partitions().filter(|&p| p < used.len()) {
            there[p] = used[p];
        }
        let resident = (0..used.len()).filter(|&p| there[p]).take(capacity);
        (!partitions.is_empty()).then(|| Self {
            weight: partitions.iter().map(|&p| pass.bytes(p)).collect(),
            partners,
            capacity,
            resident: resident.map(|p| node[p]).collect(),
            partitions,
        })
    }

    pub(crate) fn nodes(&self) -> usize {
        self.weight.len()
    }

    /// Returns whether all nodes must meet each other.
    pub(crate) fn is_complete(&self) -> bool {
        let nodes = self.nodes() as u32;
        self.partners.iter().all(|row| ones(row) == nodes - 1)
    }

    /// Returns the bytes that `walk` reads.
    pub(crate) fn cost(&self, walk: &Walk) -> u64 {
        let fill = walk
            .fill
            .iter()
            .filter(|node| !self.resident.contains(node));
        let loads = walk.loads.iter().map(|load| self.weight[load.loaded]);
        fill.map(|&node| self.weight[node]).chain(loads).sum()
    }

    /// Returns a lower bound of the bytes of every sequence: each pair costs its share of the cheaper
    /// of the loads that can make it meet, each node is loaded at least once, and each further load
    /// costs at least the lightest node.
    pub(crate) fn lower_bound(&self) -> u64 {
        let lightest = self.weight.iter().copied().min().unwrap_or(0);
        let bytes = self.pairs_cost(|node| self.weight[node] as f64, lightest as f64);
        let loads = self.pairs_cost(|_| 1.0, 1.0).ceil() as u64;
        let new = (0..self.nodes()).filter(|&node| !self.resident.contains(&node));
        let (nodes, once) = new.fold((0, 0), |(n, sum), node| (n + 1, sum + self.weight[node]));
        (bytes as u64).max(once + loads.saturating_sub(nodes) * lightest)
    }

    /// Returns a lower bound of the cost of loads in which all pairs meet, if loading a node costs
    /// `cost`, and no load costs less than `least`.
    fn pairs_cost(&self, cost: impl Fn(usize) -> f64, least: f64) -> f64 {
        let share = |node: usize| cost(node) / self.most_pairs(node);
        let is_resident = |node: usize| self.resident.contains(&node);
        let mut sum = self.filling() * least;
        for a in 0..self.nodes() {
            let free = |b: usize| is_resident(a) && is_resident(b);
            for b in (0..a).filter(|&b| has(&self.partners[a], b) && !free(b)) {
                sum += share(a).min(share(b));
            }
        }
        sum * (1.0 - 1e-9)
    }

    /// Returns the largest number of pairs that can meet by loading `node`.
    fn most_pairs(&self, node: usize) -> f64 {
        f64::from(ones(&self.partners[node])).min((self.capacity - 1) as f64)
    }

    /// Returns the number of additional loads that are necessary because the buffer is filled first:
    /// the i-th load of the first fill meets only i - 1 others, fewer than later loads do.
    fn filling(&self) -> f64 {
        if self.nodes() < self.capacity {
            return 0.0;
        }
        let each = (0..self.nodes()).map(|node| self.most_pairs(node));
        let fewest = each.fold(f64::INFINITY, f64::min);
        let missed = (self.resident.len()..self.capacity).map(|found| 1.0 - found as f64 / fewest);
        missed.map(|loads| loads.max(0.0)).sum()
    }

    /// Returns the loads of `plan`.
    pub(crate) fn walk(&self, pass: &Pass, plan: &[Bucket]) -> Walk {
        let mut node = vec![None; pass.partitions()];
        for (n, &partition) in self.partitions.iter().enumerate() {
            node[partition] = Some(n);
        }
        let mut walk = Walk {
            fill: self.resident.clone(),
            loads: Vec::new(),
        };
        pass.replay(plan, |_, loaded, evicted| {
            // A resident partition without edges leaves the buffer as if its slot had been empty.
            match (node[loaded], evicted.and_then(|partition| node[partition])) {
                (Some(loaded), Some(evicted)) => walk.loads.push(Load { evicted, loaded }),
                (Some(loaded), None) => walk.fill.push(loaded),
                (None, _) => {}
            }
        });
        walk
    }

    /// Returns the partition of a node.
    pub(crate) fn partition(&self, node: usize) -> usize {
        self.partitions[node]
    }

    /// Returns the buffer states of a walk, as partitions.
    pub(crate) fn states(&self, walk: &Walk) -> Vec<Vec<usize>> {
        let mut buffer = walk.fill.clone();
        let partitions = |buffer: &[usize]| buffer.iter().map(|&n| self.partitions[n]).collect();
        let mut states = vec![partitions(&buffer)];
        for load in &walk.loads {
            match buffer.iter().position(|&node| node == load.evicted) {
                Some(slot) => buffer[slot] = load.loaded,
                None => buffer.push(load.loaded),
            }
            states.push(partitions(&buffer));
        }
        states
    }
}

pub(crate) fn has(row: &[u64], node: usize) -> bool {
    row[node / 64] >> (node % 64) & 1 == 1
}

pub(crate) fn set(row: &mut [u64], node: usize) {
    row[node / 64] |= 1 << (node % 64);
}

pub(crate) fn clear(row: &mut [u64], node: usize) {
    row[node / 64] &= !(1 << (node % 64));
}

pub(crate) fn ones(row: &[u64]) -> u32 {
    row.iter().map(|word| word.count_ones()).sum()
}
