//! Bytes that were written and read in fact in an epoch of a study, which several processes may have trained.

use pbg_core::event::{DiskIo, Event, EventLine};

/// Bytes of the processes that have trained an epoch, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct EpochBytes {
    /// Bytes of processes that were stopped within the epoch, and of this one.
    bytes: DiskIo,
    /// Whether this process has finished the epoch.
    is_finished_here: bool,
}

impl EpochBytes {
    /// Adds what an event of this process says.
    pub(super) fn observe(&mut self, event: &Event) {
        match event {
            Event::RunStarted {
                resumed: Some(resumed),
                ..
            } => self.bytes.add(&resumed.disk),
            Event::EpochFinished { .. } => self.is_finished_here = true,
            Event::RunFinished {
                disk: Some(own), ..
            } => self.bytes.add(own),
            _ => {}
        }
    }

    /// Returns the bytes of `epoch`. If a process was killed after the epoch and before the study stored its result, they
    /// are those in `metrics.jsonl`, which lack the last commit.
    pub(super) fn of_epoch(self, epoch: u32, lines: &[EventLine]) -> DiskIo {
        let mut bytes = self.bytes;
        if !self.is_finished_here {
            let told = lines.iter().rev().find_map(|line| match &line.event {
                Event::EpochFinished {
                    epoch: of, disk, ..
                } if *of == epoch => *disk,
                _ => None,
            });
            bytes.add(&told.unwrap_or_default());
        }
        bytes
    }
}
