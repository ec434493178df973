//! Complete passes of a run, replayed: the states of the buffer, and the stalls that a disk of other speeds implies.

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::schedule::PassId;
use pbg_core::strategy::Pass;
use pbg_lab::replay::BufferReplay;
use pbg_lab::stall::{DeviceRates, Interval, LoadPolicy, PassTimeline, Transfer};
use serde::Serialize;

use super::{BucketRow, RunReport};

impl RunReport {
    /// Returns the last complete pass with the states of the buffer.
    ///
    /// `first` is the run's first pass. All passes are replayed in sequence, since each starts with the partitions that
    /// the previous one left in the buffer. Returns `None` if no pass is complete, or in distributed runs, where each
    /// trainer has its own buffer.
    #[must_use]
    pub fn last_pass(&self, first: &Pass) -> Option<MeasuredPass> {
        let last = self.replayed(first).pop()?;
        Some(MeasuredPass::new(last.id, last.replay, &last.rows))
    }

    /// Predicts for how many seconds the passes of `epoch` wait for partitions, if the disk reads and writes at these
    /// speeds and training is as fast as it was in each pass. `first` is the run's first pass. Returns `None` unless all
    /// passes of the epoch can be replayed.
    #[must_use]
    pub fn predicted_stall(
        &self,
        first: &Pass,
        epoch: u32,
        disk: &DeviceRates,
        loading: LoadPolicy,
    ) -> Option<f64> {
        let mut predicted = None;
        for ReplayedPass {
            pass,
            plan,
            rows,
            replay,
            ..
        } in self
            .replayed(first)
            .iter()
            .filter(|replayed| replayed.id.epoch == epoch)
        {
            let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
            // So that the simulated training takes as long as the measured one.
            let edges: u64 = pass.edges.iter().sum();
            let rates = DeviceRates {
                edges: (edges as f64 / seconds.max(1e-9)).max(1e-9),
                ..*disk
            };
            let timeline = PassTimeline::new(pass, plan, replay, &rates, loading);
            *predicted.get_or_insert(0.0) += timeline.stalled();
        }
        predicted
    }

    /// Replays the complete passes of a single trainer, of which `first` is the first one.
    fn replayed(&self, first: &Pass) -> Vec<ReplayedPass<'_>> {
        if self.buckets.iter().any(|row| row.trainer.is_some()) {
            return Vec::new();
        }
        let mut passes: Vec<PassId> = self.buckets.iter().map(|row| row.pass).collect();
        passes.dedup();
        let mut resident: Vec<SidePartition> = first.resident.clone();
        let mut replayed = Vec::new();
        for id in passes {
            let rows: Vec<&BucketRow> = self.buckets_of(id).collect();
            if rows.len() != first.buckets() {
                break;
            }
            let mut pass = Pass {
                resident,
                ..first.clone()
            };
            let plan: Vec<Bucket> = rows.iter().map(|row| row.bucket).collect();
            for row in &rows {
                let cell = row.bucket.lhs * pass.rhs_partitions + row.bucket.rhs;
                // A bucket without trained edges may have held-out edges, and is then loaded too.
                let edges = &mut pass.edges[cell as usize];
                *edges = (*edges).max(row.stats.count);
            }
            let replay = BufferReplay::new(&pass, &plan, pass.buffer_partitions);
            resident = replay.left.clone();
            replayed.push(ReplayedPass {
                id,
                pass,
                plan,
                rows,
                replay,
            });
        }
        replayed
    }
}

/// Complete pass of a run, with the states of the buffer that follow from its plan.
struct ReplayedPass<'a> {
    id: PassId,
    pass: Pass,
    plan: Vec<Bucket>,
    rows: Vec<&'a BucketRow>,
    replay: BufferReplay,
}

/// Pass with measured times.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredPass {
    /// Identifier of the pass.
    pub pass: PassId,
    /// States of the buffer.
    pub replay: BufferReplay,
    /// Times of the loads. Reads and writes during training are not measured individually, so their spans are empty.
    pub transfers: Vec<Transfer>,
    /// Times at which training waited.
    pub stalls: Vec<Interval>,
    /// Duration of the pass in seconds.
    pub seconds: f64,
    /// Whether the total number of loads equals that of the replay.
    pub as_replayed: bool,
}

impl MeasuredPass {
    fn new(pass: PassId, replay: BufferReplay, rows: &[&BucketRow]) -> Self {
        let mut transfers = Vec::new();
        let mut stalls = Vec::new();
        let mut now = 0.0;
        for (position, row) in rows.iter().enumerate() {
            let start = now + row.io.waited();
            let loads = replay.loads.iter().filter(|load| load.position == position);
            transfers.extend(loads.map(|_| Transfer {
                leaves: now,
                enters: start,
                ..Transfer::default()
            }));
            if row.io.waited() > 0.0 {
                stalls.push(Interval {
                    start: now,
                    end: start,
                });
            }
            now = start + row.seconds;
        }
        let loads: u64 = rows.iter().map(|row| row.io.loads).sum();
        Self {
            pass,
            as_replayed: loads == replay.loads.len() as u64,
            replay,
            transfers,
            stalls,
            seconds: now,
        }
    }
}
