//! The partition buffer: a fixed number of slots, of which a bucket swaps only what it lacks.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use pbg_core::batch_graph::pipeline::ON_THEIR_WAY;
use pbg_core::event::IoStats;
use pbg_core::graph::Bucket;
use pbg_core::plan::{self, Belady};
use pbg_core::strategy::Pass;

use crate::error::RunError;
use crate::layout::{Group, Layout, TableKey};
use crate::transfer::{Slot, Transfers};

/// Where tables come from and go to when they leave the buffer.
pub trait TableStore {
    /// One partition of one entity type, with its optimizer state.
    type Table;

    /// Reads a table, or makes its initial state. Returns it with the bytes that were read.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    fn load(&self, key: TableKey) -> Result<(Self::Table, u64), RunError>;

    /// Writes a table. Returns the bytes written.
    ///
    /// # Errors
    /// When it cannot be written.
    fn save(&self, key: TableKey, table: &mut Self::Table) -> Result<u64, RunError>;
}

/// Tables in memory: fixed ones throughout, groups in slots.
#[derive(Debug)]
pub struct PartitionBuffer<S: TableStore> {
    layout: Layout,
    store: Arc<RwLock<S>>,
    capacity: usize,
    fixed: Slot<S::Table>,
    slots: Vec<Slot<S::Table>>,
    transfers: Transfers<S::Table>,
}

impl<S> PartitionBuffer<S>
where
    S: TableStore + Send + Sync + 'static,
    S::Table: Send + 'static,
{
    /// A buffer of `capacity` slots (at least 2) that holds the fixed tables.
    ///
    /// # Errors
    /// When a fixed table cannot be loaded.
    pub fn new(layout: Layout, capacity: usize, store: S) -> Result<Self, RunError> {
        let mut tables = Vec::new();
        for key in layout.fixed_tables() {
            tables.push((key, store.load(key)?.0));
        }
        let fixed = Slot {
            group: (pbg_core::graph::Side::Lhs, 0),
            tables,
            dirty: false,
        };
        let store = Arc::new(RwLock::new(store));
        Ok(Self {
            layout,
            transfers: Transfers::new(Arc::clone(&store))?,
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
            let slot = self.load(group)?;
            self.slots.push(slot);
        }
        self.transfers.traffic();
        Ok(())
    }

    /// Where tables come from.
    pub fn store(&self) -> RwLockReadGuard<'_, S> {
        self.store.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, to be changed.
    pub fn store_mut(&self) -> RwLockWriteGuard<'_, S> {
        self.store.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes every table of `bucket`, at `position` of the plan, resident, and marks it as changed.
    ///
    /// The traffic includes what was carried out since the last bucket while it was trained.
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
        let needed: Vec<Group> = plan::needs(pass, bucket).collect();
        for &group in &needed {
            if self.slots.iter().any(|slot| slot.group == group) {
                continue;
            }
            if self.slots.len() >= self.capacity
                && let Some(victim) = eviction.victim(&self.resident(), &needed, position)
            {
                let slot = self.slots.swap_remove(victim);
                self.transfers.save(slot);
            }
            let slot = self.load(group)?;
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
        let mut io = self.transfers.traffic();
        io.wait_seconds = started.elapsed().as_secs_f64();
        Ok(io)
    }

    /// Starts to read what the first of `upcoming` buckets that lacks something lacks. It enters the
    /// buffer when that bucket is held; until then it waits beside it, at most [`ON_THEIR_WAY`] groups.
    pub fn prefetch(&mut self, pass: &Pass, upcoming: &[Bucket]) {
        let lacking = upcoming.iter().find_map(|&bucket| {
            let mut lacks: Vec<Group> = plan::needs(pass, bucket).collect();
            lacks.retain(|group| !self.slots.iter().any(|slot| slot.group == *group));
            (!lacks.is_empty()).then_some(lacks)
        });
        for group in lacking.into_iter().flatten().take(ON_THEIR_WAY) {
            self.transfers
                .load(group, self.layout.group_tables(group).collect());
        }
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

    /// Writes every changed table that is in memory or on its way out; the former stay there.
    ///
    /// What a commit writes is not traffic of the buffer. What was on its way counts for the next bucket.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn flush(&mut self) -> Result<(), RunError> {
        self.transfers.settle()?;
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        let mut written = IoStats::default();
        self.fixed.save(&*store, &mut written)?;
        for slot in &mut self.slots {
            slot.save(&*store, &mut written)?;
        }
        Ok(())
    }

    fn load(&mut self, group: Group) -> Result<Slot<S::Table>, RunError> {
        self.transfers
            .load(group, self.layout.group_tables(group).collect());
        self.transfers.take(group)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use pbg_core::graph::Side;
    use proptest::prelude::*;

    use super::*;
    use crate::layout::TypeLayout;

    /// Tables are counters; a load after a save must see what was saved.
    #[derive(Default)]
    struct Memory {
        saved: Mutex<HashMap<TableKey, u64>>,
    }

    impl TableStore for Memory {
        type Table = u64;

        fn load(&self, key: TableKey) -> Result<(u64, u64), RunError> {
            Ok((
                self.saved.lock().unwrap().get(&key).copied().unwrap_or(0),
                1,
            ))
        }

        fn save(&self, key: TableKey, table: &mut u64) -> Result<u64, RunError> {
            self.saved.lock().unwrap().insert(key, *table);
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
            n in 2_u32..6, m in 2_u32..6, shared in any::<bool>(), capacity in 2_usize..6, ahead in any::<bool>(),
            commits in prop_oneof![Just(0), any::<u64>()], seed in any::<u64>(),
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
                if ahead {
                    buffer.prefetch(&pass, &plan[position + 1..]);
                }
                prop_assert!(buffer.resident().len() <= capacity);
                for group in plan::needs(&pass, bucket) {
                    for key in layout.group_tables(group) {
                        let slot = buffer.slots.iter_mut().flat_map(|s| &mut s.tables).find(|(k, _)| *k == key);
                        slot.expect("resident").1 += 1;
                        *expected.entry(key).or_default() += 1;
                    }
                }
                if commits >> (position % 64) & 1 == 1 {
                    buffer.flush().unwrap();
                }
            }
            buffer.flush().unwrap();
            let store = buffer.store();
            prop_assert_eq!(&*store.saved.lock().unwrap(), &expected);
            prop_assert_eq!(loads, plan::cost(&pass, &plan).loads);
        }
    }
}
