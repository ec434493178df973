//! Simulated time of a plan: one disk, one trainer, reading ahead.

use pbg_plugin_sdk::{Bucket, Pass};
use serde::Deserialize;

/// Rates of the disk and of training, and where partitions that are read ahead are held.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Rates {
    /// Bytes that the disk reads per second.
    pub read_bytes_per_second: f64,
    /// Bytes that the disk writes per second.
    pub write_bytes_per_second: f64,
    /// Edges trained per second.
    pub edges_per_second: f64,
    /// Whether partitions that are read ahead are held outside the buffer.
    pub spare_slot: bool,
}

impl Default for Rates {
    /// Rates of a network disk, with which the host's order lab predicts stalls.
    fn default() -> Self {
        Self {
            read_bytes_per_second: 4e8,
            write_bytes_per_second: 4e8,
            edges_per_second: 4e5,
            spare_slot: true,
        }
    }
}

impl Rates {
    /// Returns the seconds that training `bucket` takes.
    #[must_use]
    pub fn training(&self, pass: &Pass, bucket: Bucket) -> f64 {
        pass.edges_of(bucket) as f64 / self.edges_per_second
    }

    /// Returns the seconds that reading a partition takes.
    #[must_use]
    pub fn reading(&self, pass: &Pass, partition: usize) -> f64 {
        pass.bytes(partition) as f64 / self.read_bytes_per_second
    }

    /// Returns the seconds that writing a partition takes.
    #[must_use]
    pub fn writing(&self, pass: &Pass, partition: usize) -> f64 {
        pass.bytes(partition) as f64 / self.write_bytes_per_second
    }
}

/// Returns the seconds for which training waits under `plan`.
///
/// The disk executes one request at a time. The partitions that a bucket lacks are read from the
/// moment at which the previous bucket with a load began. With a spare slot, the evicted partitions
/// are written once the previous bucket is trained; without one, they must be out of use and written
/// before the read begins.
#[must_use]
pub fn stall(pass: &Pass, plan: &[Bucket], rates: &Rates) -> f64 {
    let mut loads = Vec::new();
    pass.replay(plan, |at, loaded, evicted| {
        loads.push((at, loaded, evicted))
    });
    let mut loads = loads.as_slice();
    let (mut now, mut disk, mut last_began, mut stalled) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
    let mut idle_since = vec![0.0_f64; pass.partitions()];
    for (position, &bucket) in plan.iter().enumerate() {
        let lacking = loads
            .iter()
            .take_while(|&&(at, _, _)| at == position)
            .count();
        let (lacks, rest) = loads.split_at(lacking);
        loads = rest;
        let written = lacks.iter().filter_map(|&(_, _, evicted)| evicted);
        for &(_, loaded, evicted) in lacks {
            if let Some(evicted) = evicted.filter(|_| !rates.spare_slot) {
                disk = disk.max(idle_since[evicted]) + rates.writing(pass, evicted);
            }
            disk = disk.max(last_began) + rates.reading(pass, loaded);
        }
        if lacking > 0 {
            let start = now.max(disk);
            stalled += start - now;
            now = start;
            last_began = start;
        }
        if rates.spare_slot {
            for evicted in written {
                disk = disk.max(now) + rates.writing(pass, evicted);
            }
        }
        now += rates.training(pass, bucket);
        pass.needs(bucket).for_each(|p| idle_since[p] = now);
    }
    stalled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(spare_slot: bool) -> Rates {
        Rates {
            read_bytes_per_second: 1.0,
            write_bytes_per_second: 2.0,
            edges_per_second: 1.0,
            spare_slot,
        }
    }

    #[test]
    fn a_plan_by_hand() {
        let mut pass = Pass::uniform(3, 3, 0);
        pass.edges = vec![3, 7, 0, 0, 4, 0, 0, 0, 5];
        (pass.lhs_bytes, pass.rhs_bytes) = (vec![4; 3], vec![4; 3]);
        let plan = [(0, 0), (0, 1), (1, 1), (2, 2)].map(|(l, r)| Bucket::new(l, r));
        // Reads take 4 s, writes 2 s. Training waits for partition 0 (4 s). Partition 1 is read while
        // (0, 0) trains for 3 s, and training waits 1 s. Partition 2 is read while (0, 1) and (1, 1)
        // train for 11 s.
        assert_eq!(stall(&pass, &plan, &rates(true)), 5.0);
        // Without a spare slot, partition 0 is written after its last use: 2 + 4 s while (1, 1) trains for 4 s.
        assert_eq!(stall(&pass, &plan, &rates(false)), 7.0);
    }
}
