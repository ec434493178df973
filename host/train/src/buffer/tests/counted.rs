//! Tests of the highest number of tables that a buffer has in memory.

use super::*;

/// Number of tables in memory, now and at most so far.
#[derive(Default)]
struct Count {
    now: AtomicU64,
    most: AtomicU64,
}

/// Table that counts its existence.
struct Counted(Arc<Count>);

impl Counted {
    fn new(count: &Arc<Count>) -> Self {
        let now = count.now.fetch_add(1, Relaxed) + 1;
        count.most.fetch_max(now, Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Relaxed);
    }
}

#[derive(Default)]
struct Counting(Arc<Count>);

impl TableStore for Counting {
    type Table = Counted;
    type Cut = ();

    fn load(&self, _key: TableKey) -> Result<Counted, RunError> {
        Ok(Counted::new(&self.0))
    }

    fn save(&self, _key: TableKey, _table: &Counted) -> Result<(), RunError> {
        Ok(())
    }

    fn begin(&self, (): ()) -> Result<(), RunError> {
        Ok(())
    }

    fn add(&self, _key: TableKey, _table: &Counted) -> Result<(), RunError> {
        Ok(())
    }

    fn continue_commit(&self) -> Result<Option<u64>, RunError> {
        Ok(Some(1))
    }

    fn copy(&self, _table: &Counted, over: Option<Counted>) -> Counted {
        drop(over);
        Counted::new(&self.0)
    }
}

proptest! {
    #[test]
    fn there_are_never_more_tables_than_slots_those_on_their_way_and_copies(
        n in 2_u32..8, capacity in 2_usize..6, copies in 0_u64..4, ahead in any::<bool>(),
        commits in any::<u64>(), waits in any::<u64>(), seed in any::<u64>(),
    ) {
        let layout = layout(n, n, true);
        let pass = Arc::new(pass_of(&layout, capacity, seed));
        let plan = random_plan(&layout, seed);
        let size = BufferSize { slots: capacity, copies: copies * layout.types[0].bytes(0), limit: DiskLimit::default() };
        let mut buffer =
            PartitionBuffer::new(layout, size, Some(2), Counting::default(), Arc::default()).unwrap();
        buffer.begin_pass(Arc::clone(&pass), plan.clone(), Box::new(Belady::new(&pass, &plan)));
        for (position, &bucket) in plan.iter().enumerate() {
            buffer.make_resident(LeasedBucket { bucket, position }).unwrap();
            if ahead {
                buffer.prefetch(position);
            }
            if commits >> (position % 64) & 1 == 1 {
                buffer.commit(()).unwrap();
                buffer.committed(waits >> (position % 64) & 1 == 1).unwrap();
            }
        }
        let most = buffer.store().0.most.load(Relaxed);
        prop_assert!(most <= capacity as u64 + 2 + copies, "{most}");
    }
}
