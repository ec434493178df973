//! Tests of the buffer with counters as tables: which tables are swapped, that no update is lost, and what a commit
//! contains.

mod counted;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, mpsc};

use pbg_core::plan::{Belady, LeastRecentlyUsed};
use pbg_model::layout::TypeLayout;
use proptest::prelude::*;

use super::*;

type Values = HashMap<TableKey, u64>;

/// Storage whose tables are counters. A load after a save has to return what was saved.
#[derive(Default)]
struct Memory(Mutex<Content>);

#[derive(Default)]
struct Content {
    saved: Values,
    cut: Option<(usize, Values)>,
    steps: usize,
    /// Content of each commit, with its number.
    committed: Vec<(usize, Values)>,
    /// Number of tables that can be written before the disk is full, if it has a limit.
    room: Option<usize>,
}

impl Memory {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap()
    }

    /// Uses up the room of one table.
    fn take_room(&self) -> Result<(), RunError> {
        let Some(room) = &mut self.content().room else {
            return Ok(());
        };
        *room = room
            .checked_sub(1)
            .ok_or_else(|| RunError::Thread("no room".to_owned()))?;
        Ok(())
    }
}

impl TableStore for Memory {
    type Table = u64;
    type Cut = usize;

    fn load(&self, key: TableKey) -> Result<u64, RunError> {
        Ok(self.content().saved.get(&key).copied().unwrap_or(0))
    }

    fn save(&self, key: TableKey, table: &u64) -> Result<(), RunError> {
        self.take_room()?;
        self.content().saved.insert(key, *table);
        Ok(())
    }

    fn begin(&self, cut: usize) -> Result<(), RunError> {
        let mut content = self.content();
        assert!(content.cut.is_none(), "one commit at a time");
        content.cut = Some((cut, content.saved.clone()));
        content.steps = cut % 3;
        Ok(())
    }

    fn add(&self, key: TableKey, table: &u64) -> Result<(), RunError> {
        self.take_room()?;
        let mut content = self.content();
        content.saved.insert(key, *table);
        content.cut.as_mut().expect("begun").1.insert(key, *table);
        Ok(())
    }

    fn continue_commit(&self) -> Result<Option<u64>, RunError> {
        let mut content = self.content();
        if content.steps > 0 {
            content.steps -= 1;
            return Ok(None);
        }
        let cut = content.cut.take().expect("begun");
        content.committed.push(cut);
        Ok(Some(content.committed.len() as u64))
    }

    fn copy(&self, table: &u64, _over: Option<u64>) -> u64 {
        *table
    }
}

fn layout(n: u32, m: u32, shared: bool) -> Layout {
    let of = |name: &str, p: u32, on_lhs, on_rhs| TypeLayout {
        name: name.to_owned(),
        dimension: 4,
        storage: Default::default(),
        optimizer: Default::default(),
        frozen: false,
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

fn pass_of(layout: &Layout, capacity: usize, seed: u64) -> Pass {
    let bytes = |side, n| {
        (0..n)
            .map(|p| layout.stored_group_bytes((side, p)))
            .collect()
    };
    Pass {
        lhs_partitions: layout.lhs_partitions,
        rhs_partitions: layout.rhs_partitions,
        shared: layout.shared,
        edges: vec![1; layout.grid().count()],
        lhs_bytes: bytes(Side::Lhs, layout.lhs_partitions),
        rhs_bytes: bytes(Side::Rhs, layout.rhs_partitions),
        buffer_partitions: capacity as u32,
        resident: Vec::new(),
        epoch: 0,
        edge_set: 0,
        edge_chunk: 0,
        seed,
    }
}

/// Returns a buffer. With `beside`, a storage thread reads its tables.
fn buffer(
    layout: Layout,
    slots: usize,
    copies: u64,
    beside: bool,
    memory: Memory,
) -> PartitionBuffer<Memory> {
    let ahead = beside.then_some(2);
    let size = BufferSize {
        slots,
        copies,
        limit: DiskLimit::default(),
    };
    PartitionBuffer::new(layout, size, ahead, memory, Arc::default()).unwrap()
}

/// Returns the buckets of the grid in a random order.
fn random_plan(layout: &Layout, seed: u64) -> Vec<Bucket> {
    let grid: Vec<Bucket> = layout.grid().collect();
    let mut order: Vec<u32> = (0..grid.len() as u32).collect();
    let mut rng = pbg_core::seed::stream(seed, pbg_core::seed::StreamPurpose::Order, &[]);
    pbg_core::batching::shuffle(&mut order, &mut rng);
    order.iter().map(|&i| grid[i as usize]).collect()
}

/// Trains the tables of a bucket, which must have no other owner.
fn train(buffer: &mut PartitionBuffer<Memory>, pass: &Pass, bucket: Bucket, expected: &mut Values) {
    for group in plan::needed_partitions(pass, bucket) {
        for key in buffer.layout.group_tables(group).collect::<Vec<_>>() {
            let tables = buffer.slots.iter_mut().flat_map(|s| &mut s.tables);
            let (_, table) = tables
                .into_iter()
                .find(|(k, _)| *k == key)
                .expect("resident");
            *Arc::get_mut(table).expect("the buffer's alone") += 1;
            *expected.entry(key).or_default() += 1;
        }
    }
}

proptest! {
    #[test]
    fn swaps_what_the_plan_predicts_loses_no_update_and_commits_one_moment(
        n in 2_u32..6, m in 2_u32..6, shared in any::<bool>(), capacity in 2_usize..6,
        (beside, ahead) in any::<(bool, bool)>(),
        commits in prop_oneof![Just(0), any::<u64>()], waits in any::<u64>(), known in any::<bool>(),
        copies in prop_oneof![Just(0), 0_u64..2000, Just(u64::MAX)], seed in any::<u64>(),
    ) {
        let layout = layout(n, m, shared);
        let pass = Arc::new(pass_of(&layout, capacity, seed));
        let plan = random_plan(&layout, seed);
        let mut buffer = buffer(layout, capacity, copies, beside, Memory::default());
        let eviction: Box<dyn Eviction> = match known {
            true => Box::new(Belady::new(&pass, &plan)),
            false => Box::new(LeastRecentlyUsed::default()),
        };
        buffer.begin_pass(Arc::clone(&pass), plan.clone(), eviction);
        let mut expected = Values::new();
        let mut moments = Vec::new();
        let mut traffic = PartitionIo::default();
        for (position, &bucket) in plan.iter().enumerate() {
            traffic.add(&buffer.make_resident(LeasedBucket { bucket, position }).unwrap());
            if ahead {
                buffer.prefetch(position);
            }
            prop_assert!(buffer.resident().len() <= capacity);
            train(&mut buffer, &pass, bucket, &mut expected);
            if commits >> (position % 64) & 1 == 1 {
                buffer.commit(moments.len()).unwrap();
                moments.push((moments.len(), expected.clone()));
                if waits >> (position % 64) & 1 == 1 {
                    let done = buffer.committed(true).unwrap();
                    prop_assert_eq!(done.map(|done| done.version), Some(moments.len() as u64));
                }
            }
        }
        buffer.commit(moments.len()).unwrap();
        moments.push((moments.len(), expected.clone()));
        buffer.committed(true).unwrap();
        let content = buffer.store().content();
        prop_assert_eq!(&content.saved, &expected);
        prop_assert_eq!(&content.committed, &moments);
        if known {
            prop_assert_eq!(traffic.loads, plan::cost(&pass, &plan).loads);
            prop_assert_eq!(traffic.bytes_read, plan::cost(&pass, &plan).bytes);
        }
        prop_assert_eq!(traffic.writes, traffic.loads - buffer.resident().len() as u64);
    }

    #[test]
    fn a_buffer_that_was_stopped_has_the_traffic_of_one_that_was_not(
        n in 2_u32..6, m in 2_u32..6, shared in any::<bool>(), capacity in 2_usize..6, stop in any::<usize>(),
        beside in any::<bool>(), seed in any::<u64>(),
    ) {
        let layout = layout(n, m, shared);
        let pass = Arc::new(pass_of(&layout, capacity, seed));
        let plan = random_plan(&layout, seed);
        let stop = stop % plan.len();
        let run = |stop: Option<usize>| {
            let open = || buffer(layout.clone(), capacity, 0, beside, Memory::default());
            let begin = |buffer: &mut PartitionBuffer<Memory>| {
                buffer.begin_pass(Arc::clone(&pass), plan.clone(), Box::new(Belady::new(&pass, &plan)));
            };
            let (mut buffer, mut traffic) = (open(), Vec::new());
            begin(&mut buffer);
            for (position, &bucket) in plan.iter().enumerate() {
                let io = buffer.make_resident(LeasedBucket { bucket, position }).unwrap();
                traffic.push((io.loads, io.writes, io.bytes_read, io.bytes_written));
                buffer.prefetch(position);
                if stop == Some(position) {
                    let (resident, changed) = (buffer.resident(), buffer.changed());
                    buffer = open();
                    buffer.restore(&resident, &changed).unwrap();
                    begin(&mut buffer);
                }
            }
            (traffic, buffer.resident())
        };
        prop_assert_eq!(run(Some(stop)), run(None));
    }

    #[test]
    fn what_was_not_written_whole_never_becomes_current(
        n in 2_u32..6, shared in any::<bool>(), capacity in 2_usize..6, room in 0_usize..20,
        beside in any::<bool>(), seed in any::<u64>(),
    ) {
        let layout = layout(n, n, shared);
        let pass = Arc::new(pass_of(&layout, capacity, seed));
        let plan = random_plan(&layout, seed);
        let memory = Memory::default();
        memory.content().room = Some(room);
        let mut buffer = buffer(layout, capacity, u64::MAX, beside, memory);
        buffer.begin_pass(Arc::clone(&pass), plan.clone(), Box::new(Belady::new(&pass, &plan)));
        let mut expected = Values::new();
        let mut moments = Vec::new();
        for (position, &bucket) in plan.iter().enumerate() {
            if buffer.make_resident(LeasedBucket { bucket, position }).is_err() {
                break;
            }
            train(&mut buffer, &pass, bucket, &mut expected);
            if buffer.commit(moments.len()).is_err() {
                break;
            }
            moments.push((moments.len(), expected.clone()));
        }
        // Each transfer ordered before the failure was noticed either completed or never will.
        let failed = buffer.committed(true).is_err();
        let store = Arc::clone(&buffer.store);
        drop(buffer);
        let content = store.content();
        prop_assert_eq!(&content.committed[..], &moments[..content.committed.len()]);
        prop_assert!(content.committed.len() == moments.len() || failed || content.room == Some(0));
    }
}

/// Table that is trained on a device: its state on the device and in main memory.
#[derive(Default)]
struct Elsewhere {
    device: AtomicU64,
    home: AtomicU64,
}

/// Disk on which a commit's tables can be written only once the test allows it.
struct Slow {
    go: Mutex<mpsc::Receiver<()>>,
    written: Mutex<Vec<u64>>,
}

impl TableStore for Slow {
    type Table = Elsewhere;
    type Cut = ();

    fn load(&self, _key: TableKey) -> Result<Elsewhere, RunError> {
        Ok(Elsewhere::default())
    }

    fn save(&self, _key: TableKey, _table: &Elsewhere) -> Result<(), RunError> {
        Ok(())
    }

    fn begin(&self, (): ()) -> Result<(), RunError> {
        let go = self.go.lock().unwrap();
        go.recv().map_err(|e| RunError::Thread(e.to_string()))
    }

    fn add(&self, _key: TableKey, table: &Elsewhere) -> Result<(), RunError> {
        self.written.lock().unwrap().push(table.home.load(Relaxed));
        Ok(())
    }

    fn continue_commit(&self) -> Result<Option<u64>, RunError> {
        Ok(Some(1))
    }

    fn copy(&self, _table: &Elsewhere, _over: Option<Elsewhere>) -> Elsewhere {
        panic!("a table that is trained on a device is not copied")
    }

    fn trains_on_device(&self) -> bool {
        true
    }

    fn download(&self, table: &Elsewhere) -> Result<(), RunError> {
        table.home.store(table.device.load(Relaxed), Relaxed);
        Ok(())
    }
}

/// If training waited for the commit, this test would not end.
#[test]
fn what_a_device_trains_goes_on_while_a_commit_is_written() {
    let layout = layout(1, 1, true);
    let (write, go) = mpsc::channel();
    let store = Slow {
        go: Mutex::new(go),
        written: Mutex::default(),
    };
    let size = BufferSize {
        slots: 2,
        copies: u64::MAX,
        limit: DiskLimit::default(),
    };
    let pass = Arc::new(pass_of(&layout, 2, 0));
    let bucket = Bucket { lhs: 0, rhs: 0 };
    let plan = vec![bucket; 3];
    let mut buffer = PartitionBuffer::new(layout, size, Some(1), store, Arc::default()).unwrap();
    buffer.begin_pass(
        Arc::clone(&pass),
        plan.clone(),
        Box::new(Belady::new(&pass, &plan)),
    );
    for position in 0..3 {
        buffer
            .make_resident(LeasedBucket { bucket, position })
            .unwrap();
        buffer.table((0, 0)).unwrap().device.fetch_add(1, Relaxed);
        if position == 0 {
            buffer.commit(()).unwrap();
        }
    }
    assert!(buffer.committing());
    assert!(buffer.store().written.lock().unwrap().is_empty());
    write.send(()).unwrap();
    assert!(buffer.committed(true).unwrap().is_some());
    assert_eq!(*buffer.store().written.lock().unwrap(), [1]);
    assert_eq!(buffer.table((0, 0)).unwrap().device.load(Relaxed), 3);
}
