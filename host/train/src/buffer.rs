//! The partition buffer: a fixed number of slots, of which a bucket swaps only what it lacks.

use std::time::Instant;

use pbg_core::event::IoStats;
use pbg_core::graph::Bucket;
use pbg_core::plan::{self, Belady};
use pbg_core::strategy::Pass;

use crate::error::RunError;
use crate::layout::{Group, Layout, TableKey};

/// Where tables come from and go to when they leave the buffer.
pub trait TableStore {
    /// One partition of one entity type, with its optimizer state.
    type Table;

    /// Reads a table, or makes its initial state. Returns it with the bytes that were read.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    fn load(&mut self, key: TableKey) -> Result<(Self::Table, u64), RunError>;

    /// Writes a table. Returns the bytes written.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&mut self, key: TableKey, table: &mut Self::Table) -> Result<u64, RunError>;
}

/// Tables that are loaded and evicted together.
#[derive(Debug)]
struct Slot<T> {
    group: Group,
    tables: Vec<(TableKey, T)>,
    dirty: bool,
}

/// Tables in memory: fixed ones throughout, groups in slots.
#[derive(Debug)]
pub struct PartitionBuffer<S: TableStore> {
    layout: Layout,
    store: S,
    capacity: usize,
    fixed: Slot<S::Table>,
    slots: Vec<Slot<S::Table>>,
}

impl<S: TableStore> PartitionBuffer<S> {
    /// A buffer of `capacity` slots (at least 2) that holds the fixed tables.
    ///
    /// # Errors
    /// When a fixed table cannot be loaded.
    pub fn new(layout: Layout, capacity: usize, mut store: S) -> Result<Self, RunError> {
        let mut tables = Vec::new();
        for key in layout.fixed_tables() {
            tables.push((key, store.load(key)?.0));
        }
        let fixed = Slot {
            group: (pbg_core::graph::Side::Lhs, 0),
            tables,
            dirty: false,
        };
        Ok(Self {
            layout,
            store,
            capacity: capacity.max(2),
            fixed,
            slots: Vec::new(),
        })
    }

    /// Groups in the buffer now.
    #[must_use]
    pub fn resident(&self) -> Vec<Group> {
        self.slots.iter().map(|slot| slot.group).collect()
    }

    /// Loads `groups`, as many as fit: the buffer of a run that goes on.
    ///
    /// # Errors
    /// When a table cannot be loaded.
    pub fn restore(&mut self, groups: &[Group]) -> Result<(), RunError> {
        for &group in groups.iter().take(self.capacity) {
            let slot = self.read(group, &mut IoStats::default())?;
            self.slots.push(slot);
        }
        Ok(())
    }

    /// Where tables come from.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Makes every table of `bucket`, at `position` of the plan, resident, and marks it as changed.
    ///
    /// # Errors
    /// When a table cannot be read or an evicted one cannot be written.
    pub fn hold(
        &mut self,
        pass: &Pass,
        bucket: Bucket,
        eviction: &mut Belady,
        position: usize,
    ) -> Result<IoStats, RunError> {
        let started = Instant::now();
        let mut io = IoStats::default();
        let needed: Vec<Group> = plan::needs(pass, bucket).collect();
        for &group in &needed {
            if self.slots.iter().any(|slot| slot.group == group) {
                continue;
            }
            if self.slots.len() >= self.capacity
                && let Some(victim) = eviction.victim(&self.resident(), &needed, position)
            {
                self.write_back(victim, &mut io)?;
                self.slots.swap_remove(victim);
            }
            let slot = self.read(group, &mut io)?;
            self.slots.push(slot);
        }
        for slot in self
            .slots
            .iter_mut()
            .filter(|slot| needed.contains(&slot.group))
        {
            slot.dirty = true;
        }
        self.fixed.dirty = true;
        io.wait_seconds = started.elapsed().as_secs_f64();
        Ok(io)
    }

    /// The table of entity type and partition `key`, if it is in memory.
    #[must_use]
    pub fn table(&self, key: TableKey) -> Option<&S::Table> {
        std::iter::once(&self.fixed)
            .chain(&self.slots)
            .flat_map(|slot| &slot.tables)
            .find(|(k, _)| *k == key)
            .map(|(_, table)| table)
    }

    /// Writes every changed table that is in memory; all of them stay there.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn flush(&mut self) -> Result<IoStats, RunError> {
        let started = Instant::now();
        let mut io = IoStats::default();
        Self::save(&mut self.store, &mut self.fixed, &mut io)?;
        for slot in &mut self.slots {
            Self::save(&mut self.store, slot, &mut io)?;
        }
        io.wait_seconds = started.elapsed().as_secs_f64();
        Ok(io)
    }

    fn read(&mut self, group: Group, io: &mut IoStats) -> Result<Slot<S::Table>, RunError> {
        let mut tables = Vec::new();
        for key in self.layout.group_tables(group) {
            let (table, bytes) = self.store.load(key)?;
            io.bytes_read += bytes;
            tables.push((key, table));
        }
        io.loads += 1;
        Ok(Slot {
            group,
            tables,
            dirty: false,
        })
    }

    fn write_back(&mut self, index: usize, io: &mut IoStats) -> Result<(), RunError> {
        Self::save(&mut self.store, &mut self.slots[index], io)
    }

    fn save(store: &mut S, slot: &mut Slot<S::Table>, io: &mut IoStats) -> Result<(), RunError> {
        if slot.dirty {
            for (key, table) in &mut slot.tables {
                io.bytes_written += store.save(*key, table)?;
            }
            io.writes += 1;
            slot.dirty = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use pbg_core::graph::Side;
    use proptest::prelude::*;

    use super::*;
    use crate::layout::TypeLayout;

    /// Tables are counters; a load after a save must see what was saved.
    #[derive(Default)]
    struct Memory {
        saved: HashMap<TableKey, u64>,
    }

    impl TableStore for Memory {
        type Table = u64;

        fn load(&mut self, key: TableKey) -> Result<(u64, u64), RunError> {
            Ok((self.saved.get(&key).copied().unwrap_or(0), 1))
        }

        fn save(&mut self, key: TableKey, table: &mut u64) -> Result<u64, RunError> {
            self.saved.insert(key, *table);
            Ok(1)
        }
    }

    fn layout(n: u32, m: u32, shared: bool) -> Layout {
        let of = |name: &str, p: u32, on_lhs, on_rhs| TypeLayout {
            name: name.to_owned(),
            dimension: 4,
            rows: vec![10; p as usize],
            on_lhs,
            on_rhs,
        };
        let types = if shared {
            vec![of("node", n, true, true)]
        } else {
            vec![of("user", n, true, false), of("item", m, false, true)]
        };
        Layout {
            types,
            lhs_partitions: n,
            rhs_partitions: if shared { n } else { m },
            shared,
        }
    }

    proptest! {
        #[test]
        fn swaps_what_the_plan_predicts_and_loses_no_update(
            n in 2_u32..6, m in 2_u32..6, shared in any::<bool>(), capacity in 2_usize..6, seed in any::<u64>(),
        ) {
            let layout = layout(n, m, shared);
            let pass = Pass {
                lhs_partitions: layout.lhs_partitions,
                rhs_partitions: layout.rhs_partitions,
                shared,
                edges: vec![1; layout.grid().count()],
                lhs_bytes: (0..layout.lhs_partitions).map(|p| layout.group_bytes((Side::Lhs, p))).collect(),
                rhs_bytes: (0..layout.rhs_partitions).map(|p| layout.group_bytes((Side::Rhs, p))).collect(),
                buffer_partitions: capacity as u32,
                resident: Vec::new(),
                epoch: 0, edge_set: 0, edge_chunk: 0, seed,
            };
            let grid: Vec<Bucket> = layout.grid().collect();
            let mut order: Vec<u32> = (0..grid.len() as u32).collect();
            pbg_core::batching::shuffle(&mut order, &mut pbg_core::seed::stream(seed, pbg_core::seed::Purpose::Order, &[]));
            let plan: Vec<Bucket> = order.iter().map(|&i| grid[i as usize]).collect();
            let mut eviction = Belady::new(&pass, &plan);
            let mut buffer = PartitionBuffer::new(layout.clone(), capacity, Memory::default()).unwrap();
            let mut expected: HashMap<TableKey, u64> = HashMap::new();
            let mut loads = 0;
            for (position, &bucket) in plan.iter().enumerate() {
                loads += buffer.hold(&pass, bucket, &mut eviction, position).unwrap().loads;
                prop_assert!(buffer.resident().len() <= capacity);
                for group in plan::needs(&pass, bucket) {
                    for key in layout.group_tables(group) {
                        let slot = buffer.slots.iter_mut().flat_map(|s| &mut s.tables).find(|(k, _)| *k == key);
                        slot.expect("resident").1 += 1;
                        *expected.entry(key).or_default() += 1;
                    }
                }
            }
            buffer.flush().unwrap();
            prop_assert_eq!(&buffer.store.saved, &expected);
            prop_assert_eq!(loads, plan::cost(&pass, &plan).loads);
        }
    }
}
