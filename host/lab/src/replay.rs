//! Replay of the buffer while a plan is trained: which partition enters which slot, when, and which one it replaces.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::plan::needed_partitions;
use pbg_core::strategy::Pass;

/// The load of one partition into the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionLoad {
    /// Position of the bucket that needs it.
    pub position: usize,
    /// Index of the slot, from 0.
    pub slot: u32,
    /// The partition that is loaded.
    pub group: SidePartition,
    /// The partition that it replaces, if the slot was occupied.
    pub evicted: Option<SidePartition>,
    /// Position of the last bucket that trained the evicted partition; `None` if there is none.
    pub last_used: Option<usize>,
    /// Size in bytes of the loaded partition.
    pub read_bytes: u64,
    /// Size in bytes of the evicted partition if it was trained. An untrained partition is not written.
    pub written_bytes: u64,
}

/// All loads and evictions of a pass, with Belady's eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferReplay {
    /// Number of slots of the buffer.
    pub slots: u32,
    /// Partitions in the buffer before the first bucket.
    pub initial: Vec<SidePartition>,
    /// Loads in order.
    pub loads: Vec<PartitionLoad>,
    /// Partitions in the buffer at the end.
    pub left: Vec<SidePartition>,
    /// Size in bytes of the trained partitions in the buffer at the end, which the checkpoint after the pass writes.
    pub left_bytes: u64,
}

impl BufferReplay {
    /// Replays `plan` with a buffer of `slots` partitions that starts with the resident partitions of `pass`. Takes one
    /// step for each bucket, and one for each load and slot.
    #[must_use]
    pub fn new(pass: &Pass, plan: &[Bucket], slots: u32) -> Self {
        let slots = slots.max(2);
        let mut buffer = Buffer::new(pass, plan, slots);
        let mut loads = Vec::new();
        for (position, &bucket) in plan.iter().enumerate() {
            let mut groups =
                needed_partitions(pass, bucket).map(|group| (index(pass, group), group));
            let needed = [groups.next(), groups.next()];
            for (unit, _) in needed.iter().flatten() {
                buffer.next[*unit].pop();
            }
            for &(unit, group) in needed.iter().flatten() {
                if buffer.slot_of[unit].is_none() {
                    let keep = needed.map(|needed| needed.map(|(unit, _)| unit));
                    loads.push(buffer.load(pass, unit, group, keep, position));
                }
            }
            for (unit, _) in needed.iter().flatten() {
                buffer.last_used[*unit] = Some(position);
            }
        }
        let held = buffer.held.iter();
        let trained = held.filter(|(unit, _)| buffer.last_used[*unit].is_some());
        let left_bytes = trained.map(|&(_, group)| bytes(pass, group)).sum();
        Self {
            slots,
            initial: pass.resident.iter().copied().take(slots as usize).collect(),
            left: buffer.held.iter().map(|&(_, group)| group).collect(),
            loads,
            left_bytes,
        }
    }

    /// Returns the number of loads into a full buffer, which the literature calls swaps.
    #[must_use]
    pub fn swaps(&self) -> u64 {
        let swaps = self.loads.iter().filter(|load| load.evicted.is_some());
        swaps.count() as u64
    }

    /// Returns the bytes loaded into the buffer.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.loads.iter().map(|load| load.read_bytes).sum()
    }

    /// Returns the bytes of trained partitions that leave the buffer. Those that remain in it ([`Self::left_bytes`]) are
    /// not part of them.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.loads.iter().map(|load| load.written_bytes).sum()
    }
}

/// State of the buffer during a replay. A unit is the index of a group.
struct Buffer {
    slots: usize,
    held: Vec<(usize, SidePartition)>,
    slot_of: Vec<Option<usize>>,
    /// For each unit, the remaining positions at which it is needed, in descending order.
    next: Vec<Vec<usize>>,
    last_used: Vec<Option<usize>>,
}

impl Buffer {
    fn new(pass: &Pass, plan: &[Bucket], slots: u32) -> Self {
        let units = pass.lhs_partitions as usize + pass.rhs_partitions as usize;
        let mut next = vec![Vec::new(); units];
        for (position, &bucket) in plan.iter().enumerate().rev() {
            for group in needed_partitions(pass, bucket) {
                next[index(pass, group)].push(position);
            }
        }
        let mut buffer = Self {
            slots: slots as usize,
            held: Vec::new(),
            slot_of: vec![None; units],
            next,
            last_used: vec![None; units],
        };
        for &group in pass.resident.iter().take(slots as usize) {
            let unit = index(pass, group);
            buffer.slot_of[unit] = Some(buffer.held.len());
            buffer.held.push((unit, group));
        }
        buffer
    }

    fn load(
        &mut self,
        pass: &Pass,
        unit: usize,
        group: SidePartition,
        keep: [Option<usize>; 2],
        position: usize,
    ) -> PartitionLoad {
        let mut load = PartitionLoad {
            position,
            slot: 0,
            group,
            evicted: None,
            last_used: None,
            read_bytes: bytes(pass, group),
            written_bytes: 0,
        };
        let slot = if self.held.len() < self.slots {
            self.held.push((unit, group));
            self.held.len() - 1
        } else {
            let slot = self.victim(keep);
            let (old, evicted) = std::mem::replace(&mut self.held[slot], (unit, group));
            self.slot_of[old] = None;
            load.evicted = Some(evicted);
            load.last_used = self.last_used[old].take();
            load.written_bytes = load.last_used.map_or(0, |_| bytes(pass, evicted));
            slot
        };
        self.slot_of[unit] = Some(slot);
        load.slot = slot as u32;
        load
    }

    /// Returns the slot whose partition is needed furthest in the future, or never, as in [`pbg_core::plan::Belady`].
    fn victim(&self, keep: [Option<usize>; 2]) -> usize {
        let next = |unit: usize| self.next[unit].last().copied().unwrap_or(usize::MAX);
        let candidates = self.held.iter().enumerate();
        candidates
            .filter(|(_, (unit, _))| !keep.contains(&Some(*unit)))
            .max_by_key(|(_, (unit, group))| (next(*unit), Reverse(*group)))
            .map_or(0, |(slot, _)| slot)
    }
}

/// Returns the index of a group: first the left partitions, then the right ones.
pub(super) fn index(pass: &Pass, (side, partition): SidePartition) -> usize {
    match side {
        Side::Lhs => partition as usize,
        Side::Rhs => pass.lhs_partitions as usize + partition as usize,
    }
}

/// Returns the size of a group in bytes.
#[must_use]
pub fn bytes(pass: &Pass, (side, partition): SidePartition) -> u64 {
    match side {
        Side::Lhs => pass.lhs_bytes[partition as usize],
        Side::Rhs => pass.rhs_bytes[partition as usize],
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_pass_and_plan, lexicographic, pass};
    use pbg_core::plan::cost;

    proptest! {
        #[test]
        fn counts_what_the_buffer_counts((pass, plan) in any_pass_and_plan()) {
            let replay = BufferReplay::new(&pass, &plan, pass.buffer_partitions);
            let cost = cost(&pass, &plan);
            prop_assert_eq!(replay.loads.len() as u64, cost.loads);
            prop_assert_eq!(replay.swaps(), cost.swaps);
            prop_assert_eq!(replay.read_bytes(), cost.bytes);
        }

        #[test]
        fn everything_needed_is_there_when_it_is_needed((pass, plan) in any_pass_and_plan()) {
            let replay = BufferReplay::new(&pass, &plan, pass.buffer_partitions);
            let mut slots: Vec<Option<SidePartition>> = vec![None; replay.slots as usize];
            for (slot, &group) in replay.initial.iter().enumerate() {
                slots[slot] = Some(group);
            }
            let mut loads = replay.loads.iter().peekable();
            for (position, &bucket) in plan.iter().enumerate() {
                while let Some(load) = loads.next_if(|load| load.position == position) {
                    prop_assert_eq!(slots[load.slot as usize], load.evicted);
                    slots[load.slot as usize] = Some(load.group);
                }
                for group in needed_partitions(&pass, bucket) {
                    prop_assert!(slots.contains(&Some(group)));
                }
            }
            prop_assert!(loads.next().is_none());
        }

        #[test]
        fn every_trained_partition_is_written_after_it_was_trained_last(
            (pass, plan) in any_pass_and_plan(),
        ) {
            let replay = BufferReplay::new(&pass, &plan, pass.buffer_partitions);
            let mut trained: Vec<SidePartition> = plan.iter().flat_map(|&b| needed_partitions(&pass, b)).collect();
            trained.sort_unstable();
            trained.dedup();
            let least: u64 = trained.iter().map(|&group| bytes(&pass, group)).sum();
            let written = replay.written_bytes() + replay.left_bytes;
            prop_assert!(written >= least);
            // A trained partition has been read, unless it was resident.
            let resident: u64 = pass.resident.iter().map(|&group| bytes(&pass, group)).sum();
            prop_assert!(written <= replay.read_bytes() + resident);
        }
    }

    #[test]
    fn a_larger_buffer_never_swaps_more() {
        let (pass, plan) = (pass(12, 2), lexicographic(12));
        let swaps: Vec<u64> = (2..=12)
            .map(|slots| BufferReplay::new(&pass, &plan, slots).swaps())
            .collect();
        assert!(swaps.is_sorted_by(|a, b| a >= b), "{swaps:?}");
        assert_eq!(swaps.last(), Some(&0));
    }
}
