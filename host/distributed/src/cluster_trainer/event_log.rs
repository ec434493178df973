//! Event logs: each trainer writes its own, and a checkpoint merges all of them into `metrics.jsonl`.

use pbg_checkpoint::{CheckpointManifest, EventReader};
use pbg_core::event::{Event, EventLine};
use pbg_ledger::{CheckpointCut, LedgerRecord, Token};
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::state::RunState;

use super::ClusterTrainer;
use crate::conversion::stored_state;

impl ClusterTrainer<'_> {
    /// Emits an event to the user interface, and appends it to the log that is written with the next settlement.
    /// `revision` is the ledger revision at which the event happened; `None` means the revision last seen, for events
    /// whose order does not matter.
    pub(super) fn report(&mut self, event: Event, revision: Option<u64>) {
        let revision = revision.or_else(|| Some(self.ledger.last_record()?.revision()));
        let line = self.line(event.clone(), revision);
        self.unsettled_lines.push(line);
        self.machine.emit(event);
    }

    /// Reports the buckets that the ledger has recorded since the last call.
    pub(super) fn report_settled(&mut self) {
        for settled in self.machine.pipeline.buffer.store().take_settled() {
            let exchange = self.parameters.as_ref();
            let event = Event::BucketsSettled {
                pass: settled.pass,
                buckets: settled.buckets,
                write_seconds: settled.writing.as_secs_f64(),
                ledger_seconds: settled.recording.as_secs_f64(),
                refusals: self.ledger.take_refusals(),
                exchange_seconds: exchange.map(|exchange| exchange.last_duration().as_secs_f64()),
            };
            let revision = self.ledger.last_record().map(|record| record.revision());
            self.unsettled_lines.push(EventLine {
                at: Some(settled.at.as_secs_f64()),
                ..self.line(event.clone(), revision)
            });
            self.machine.emit(event);
        }
    }

    fn line(&self, event: Event, revision: Option<u64>) -> EventLine {
        EventLine {
            event,
            trainer: Some(self.cluster.name.clone()),
            at: Some(pbg_clock::unix_time().as_secs_f64()),
            revision,
        }
    }

    /// Returns the lines reported since the last call, as JSON.
    pub(super) fn take_lines(&mut self) -> Result<Vec<u8>, RunError> {
        in_json(&std::mem::take(&mut self.unsettled_lines))
    }

    /// Reports once that an epoch has ended.
    pub(super) fn report_epoch(&mut self, record: &LedgerRecord) {
        let Some(finished) = record.work().progress.finished else {
            return;
        };
        if finished.epoch >= self.epochs_reported {
            self.epochs_reported = finished.epoch + 1;
            let event = self.epoch_finished(record);
            self.last_epoch_event.clone_from(&event);
            event.into_iter().for_each(|event| self.machine.emit(event));
        }
    }

    fn epoch_finished(&mut self, record: &LedgerRecord) -> Option<Event> {
        let finished = record.work().progress.finished?;
        let sums = finished.sums;
        Some(Event::EpochFinished {
            epoch: finished.epoch,
            groups: self.machine.pipeline.seconds(),
            stats: sums.train,
            eval_before: (sums.eval_before.count > 0).then_some(sums.eval_before),
            seconds: sums.seconds,
            calls: sums.calls,
            io: sums.io,
            disk: None,
            peak_bytes: memory::peak_bytes(),
        })
    }

    /// Appends the log lines of all trainers up to `record`, which `manifest` describes, to the metrics of the previous
    /// version.
    pub(super) fn take_over_told(
        &mut self,
        record: &LedgerRecord,
        cut: CheckpointCut,
        before: Option<&CheckpointManifest>,
        manifest: &mut CheckpointManifest,
    ) -> Result<(), RunError> {
        let files = self.files();
        let mut tellers = Vec::new();
        for (&token, told) in record.event_logs() {
            let from = before.and_then(|before| before.told.get(&token));
            let lines = files.read_events(token, from.copied().unwrap_or(0), told.bytes)?;
            manifest.told.insert(token, told.bytes);
            tellers.push(LogReader::new(lines));
        }
        let mut metrics = files.begin_metrics(cut, before)?;
        let lost = merge(&mut tellers, &mut |line| Ok(metrics.put(line)?))?;
        if lost > 0 {
            self.report(Event::EventsLost { bytes: lost }, None);
        }
        let mut lines = Vec::new();
        let folder = &self.machine.config().checkpoint_path;
        let stood = before.map(|before| stored_state(before, folder));
        let stood = stood.transpose()?;
        let finished = self.epoch_since(record, stood.as_ref());
        let ranks = self.ranks_since(record, stood.as_ref());
        for event in finished.into_iter().chain(ranks) {
            lines.push(EventLine {
                trainer: None,
                ..self.line(event, Some(record.revision()))
            });
        }
        metrics.put(&in_json(&lines)?)?;
        manifest.metrics_length = metrics.finish()?;
        Ok(())
    }

    /// Returns the event for the end of an epoch, unless the version with state `before` already has it.
    fn epoch_since(&mut self, record: &LedgerRecord, before: Option<&RunState>) -> Option<Event> {
        let finished = record.work().progress.finished?;
        let is_new = before.is_none_or(|state| state.schedule.pass().epoch <= finished.epoch);
        // The times of this trainer's thread groups are reported only once.
        let told = self.last_epoch_event.take();
        is_new.then(|| told.or_else(|| self.epoch_finished(record)))?
    }

    /// Removes the logs of trainers that have left, once checkpoints contain them. `tellers` are the trainers that had
    /// a log before this checkpoint began.
    pub(super) fn remove_logs(
        &self,
        tellers: &[Token],
        record: &LedgerRecord,
    ) -> Result<(), RunError> {
        let is_gone = |token: &&Token| {
            !record.trainers().contains_key(token) && !record.event_logs().contains_key(token)
        };
        let files = self.files();
        for token in tellers.iter().filter(is_gone) {
            files.remove_events(*token)?;
        }
        Ok(())
    }
}

/// Reader of one trainer's log, positioned at its next line.
struct LogReader {
    lines: EventReader,
    /// The next line, and the ledger revision at which it was written.
    next: Option<(Option<u64>, Vec<u8>)>,
    /// Bytes of lines that could not be parsed.
    unreadable: u64,
}

impl LogReader {
    const fn new(lines: EventReader) -> Self {
        Self {
            lines,
            next: None,
            unreadable: 0,
        }
    }

    /// Advances to the next line that can be parsed.
    fn step(&mut self) -> Result<(), RunError> {
        self.next = None;
        while let Some(line) = self.lines.next_line()? {
            match serde_json::from_slice::<EventLine>(line) {
                Ok(EventLine { revision, .. }) => {
                    self.next = Some((revision, line.to_vec()));
                    break;
                }
                Err(_) => self.unreadable += line.len() as u64,
            }
        }
        Ok(())
    }
}

/// Merges the logs of all trainers in the order of the ledger's revisions, so that buckets with a common partition are
/// in the order of their leases. Holds one line of each log in memory. Returns the number of bytes that could not be
/// read.
fn merge(
    tellers: &mut [LogReader],
    put: &mut dyn FnMut(&[u8]) -> Result<(), RunError>,
) -> Result<u64, RunError> {
    for teller in tellers.iter_mut() {
        teller.step()?;
    }
    loop {
        let waiting = tellers.iter_mut().filter(|teller| teller.next.is_some());
        let first = waiting.min_by_key(|teller| teller.next.as_ref().map(|(at, _)| *at));
        let Some(teller) = first else {
            break;
        };
        if let Some((_, line)) = &teller.next {
            put(line)?;
        }
        teller.step()?;
    }
    let lost = tellers.iter().map(|t| t.lines.lost() + t.unreadable);
    Ok(lost.sum())
}

/// Encodes each line as one line of JSON.
pub(super) fn in_json<'l>(
    lines: impl IntoIterator<Item = &'l EventLine>,
) -> Result<Vec<u8>, RunError> {
    let mut bytes = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut bytes, line).map_err(|e| RunError::Unwritable(e.to_string()))?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}
