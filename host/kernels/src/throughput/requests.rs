//! What steps ask of the allocator and of the kernel.

use std::hint::black_box;

use stats_alloc::INSTRUMENTED_SYSTEM;

/// What one batch asks for, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Requests {
    /// Allocations and reallocations by Rust code; `None` where the program has another allocator
    /// than [`INSTRUMENTED_SYSTEM`]. What libtorch allocates is not among them.
    pub allocations: Option<f64>,
    /// Pages that the kernel hands to the thread (minor page faults), where it says.
    pub page_faults: Option<f64>,
}

/// Counts from its start on: page faults of this thread, allocations of the whole process.
pub(super) struct Counter {
    page_faults: Option<u64>,
    allocations: Option<usize>,
}

impl Counter {
    pub(super) fn start() -> Self {
        let page_faults = page_faults();
        let before = allocations();
        drop(black_box(Box::new(0_u8)));
        let after = allocations();
        Self {
            page_faults,
            allocations: (after > before).then_some(after),
        }
    }

    pub(super) fn per_batch(&self, batches: usize) -> Requests {
        // The allocations first: reading the page faults takes some.
        let allocated = self.allocations.map(|before| allocations() - before);
        let faulted = page_faults()
            .zip(self.page_faults)
            .map(|(after, before)| after - before);
        let each = |count: f64| count / batches.max(1) as f64;
        Requests {
            allocations: allocated.map(|count| each(count as f64)),
            page_faults: faulted.map(|count| each(count as f64)),
        }
    }
}

fn allocations() -> usize {
    let stats = INSTRUMENTED_SYSTEM.stats();
    stats.allocations + stats.reallocations
}

fn page_faults() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The second field, a name, may hold spaces and parentheses; the tenth is what is wanted.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(7)?.parse().ok()
}
