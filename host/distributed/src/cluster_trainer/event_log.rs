//! Event logs: each trainer writes its own, and a checkpoint merges all of them into `metrics.jsonl`.

use std::collections::VecDeque;
use std::time::Duration;

use pbg_checkpoint::{CheckpointManifest, EventReader, SharedCheckpoint};
use pbg_core::event::{Event, EventLine};
use pbg_ledger::{CheckpointCut, LedgerRecord, Token};
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::state::RunState;

use super::ClusterTrainer;
use crate::conversion::stored_state;

/// Longest wait of a checkpoint between two passes for the events of the last settlements.
const REPORTS_WITHIN: Duration = Duration::from_secs(2);
/// Shortest and longest interval at which it looks for them. Each look lists a folder, which may be in an object store.
const LOOK: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(320)];
/// Most events of settlements that a trainer can have reported since the settlement that the ledger knows.
const MOST_SETTLED: usize = 64;
/// Most bytes of such events that are kept for each trainer.
const MAX_SETTLED_BYTES: u64 = 64 << 10;

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

    /// Appends the events of settlements to the log at once, since there may be no further settlement with which they could
    /// be written. No other thread may be writing to the log.
    pub(super) fn append_settled(&mut self) -> Result<(), RunError> {
        let is_settled = |line: &EventLine| matches!(line.event, Event::BucketsSettled { .. });
        let lines = std::mem::take(&mut self.unsettled_lines);
        let (settled, others) = lines.into_iter().partition::<Vec<_>, _>(is_settled);
        self.unsettled_lines = others;
        if !settled.is_empty() {
            self.files().append_events(&in_json(&settled)?)?;
        }
        Ok(())
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
        let started = pbg_clock::now();
        for (&token, told) in record.event_logs() {
            let from = before.and_then(|before| before.told.get(&token));
            let from = from.copied().unwrap_or(0);
            let end = told.bytes.max(from);
            let lines = files.read_events(token, from, end)?;
            // Between two passes, a trainer that has settled has nothing else to do than to report that.
            let reports = record.work().plan.is_none()
                && record.trainers().contains_key(&token)
                && end > from;
            let mut settled = SettledLines::read(files, token, end)?;
            let [mut pause, longest] = LOOK;
            while reports && settled.bytes == 0 && pbg_clock::elapsed(started) < REPORTS_WITHIN {
                pbg_clock::sleep(pause);
                pause = (2 * pause).min(longest);
                settled = SettledLines::read(files, token, end)?;
            }
            manifest.told.insert(token, end + settled.bytes);
            tellers.push(LogReader::new(lines, settled));
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

/// Events of settlements behind the valid length of a log. They name buckets that the ledger has recorded, so they count
/// although no settlement covers them. All other events there are of buckets that may never be settled.
struct SettledLines {
    lines: VecDeque<Vec<u8>>,
    /// Bytes of all of them.
    bytes: u64,
}

impl SettledLines {
    /// Reads those that follow byte `end` of the log of `token`.
    fn read(files: &SharedCheckpoint, token: Token, end: u64) -> Result<Self, RunError> {
        let mut reader = files.read_events(token, end, u64::MAX)?;
        let lost = reader.lost();
        let mut found = Self {
            lines: VecDeque::new(),
            bytes: 0,
        };
        while found.lines.len() < MOST_SETTLED
            && let Some(line) = reader.next_line()?
        {
            let line = line.to_vec();
            let parsed = serde_json::from_slice::<EventLine>(&line);
            let is_settled =
                parsed.is_ok_and(|line| matches!(line.event, Event::BucketsSettled { .. }));
            let is_small = found.bytes + line.len() as u64 <= MAX_SETTLED_BYTES;
            // A line that is too long was left out, and what follows it is of no use.
            if !is_settled || !is_small || reader.lost() != lost {
                break;
            }
            found.bytes += line.len() as u64;
            found.lines.push_back(line);
        }
        Ok(found)
    }
}

/// Reader of one trainer's log, positioned at its next line.
struct LogReader {
    lines: EventReader,
    /// Lines that follow those.
    settled: VecDeque<Vec<u8>>,
    /// The next line, and the ledger revision at which it was written.
    next: Option<(Option<u64>, Vec<u8>)>,
    /// Bytes of lines that could not be parsed.
    unreadable: u64,
}

impl LogReader {
    fn new(lines: EventReader, settled: SettledLines) -> Self {
        Self {
            lines,
            settled: settled.lines,
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
        if self.next.is_none()
            && let Some(line) = self.settled.pop_front()
        {
            let revision = serde_json::from_slice::<EventLine>(&line).ok();
            self.next = Some((revision.and_then(|line| line.revision), line));
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
    Ok(lost.fold(0, u64::saturating_add))
}

/// Merges ranges of the event files of trainers, given as token, first byte and end. Returns the lines, and the number of
/// bytes that are missing or unreadable.
pub(crate) fn merged_event_logs(
    files: &SharedCheckpoint,
    ranges: &[(Token, u64, u64)],
) -> Result<(Vec<u8>, u64), RunError> {
    let mut tellers = Vec::new();
    for &(token, from, to) in ranges {
        let settled = SettledLines::read(files, token, to.max(from))?;
        tellers.push(LogReader::new(files.read_events(token, from, to)?, settled));
    }
    let mut lines = Vec::new();
    let lost = merge(&mut tellers, &mut |line| {
        lines.extend_from_slice(line);
        Ok(())
    })?;
    Ok((lines, lost))
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
