//! Spans of a run in the trace event format, which Perfetto and the tracing page of Chromium show.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::run::{BucketRow, RunReport, SettlementRow};

/// Name of the process of a run of one trainer.
const ONE_TRAINER: &str = "training";

/// Threads of a process of the trace.
#[derive(Clone, Copy)]
enum Lane {
    Training = 1,
    Settling = 2,
}

/// Returns the trace as JSON: a process for each trainer, with a thread for waits and trained buckets and one for
/// settlements, and a span for each lease until its bucket is trained.
///
/// Times are microseconds since 1970 by the clock of each trainer. Runs of one trainer have no times; theirs begin at 0
/// and leave out what happens between buckets.
#[must_use]
pub fn trace(report: &RunReport) -> Value {
    let mut spans = Spans::default();
    let mut clock = 0.0;
    for (at, row) in report.buckets.iter().enumerate() {
        clock += row.io.waited() + row.seconds;
        spans.bucket(row, row.at.unwrap_or(clock), at);
    }
    for row in &report.settlements {
        spans.settlement(row);
    }
    json!({ "displayTimeUnit": "ms", "traceEvents": spans.events })
}

/// Spans that have been added.
#[derive(Default)]
struct Spans {
    events: Vec<Value>,
    processes: BTreeMap<String, usize>,
}

impl Spans {
    /// Returns the number of a trainer's process.
    fn process(&mut self, trainer: &str) -> usize {
        if let Some(&known) = self.processes.get(trainer) {
            return known;
        }
        let process = self.processes.len() + 1;
        self.processes.insert(trainer.to_owned(), process);
        let named = |kind: &str, lane: usize, name: &str| json!({ "ph": "M", "name": kind, "pid": process, "tid": lane, "args": { "name": name } });
        self.events.extend([
            named("process_name", 0, trainer),
            named("thread_name", Lane::Training as usize, "training"),
            named("thread_name", Lane::Settling as usize, "settling"),
        ]);
        process
    }

    fn add(
        &mut self,
        process: usize,
        lane: Lane,
        name: &str,
        (start, seconds): (f64, f64),
        args: Value,
    ) {
        if seconds > 0.0 {
            self.events.push(json!({
                "ph": "X", "name": name, "pid": process, "tid": lane as usize, "ts": start * 1e6,
                "dur": seconds * 1e6, "args": args,
            }));
        }
    }

    fn bucket(&mut self, row: &BucketRow, ended: f64, number: usize) {
        let process = self.process(row.trainer.as_deref().unwrap_or(ONE_TRAINER));
        let began = ended - row.seconds;
        let (reading, committing) = (row.io.wait_seconds, row.io.commit_seconds);
        self.add(
            process,
            Lane::Training,
            "wait for partitions",
            (began - reading, reading),
            json!({}),
        );
        let before = began - reading - committing;
        self.add(
            process,
            Lane::Training,
            "wait for a checkpoint",
            (before, committing),
            json!({}),
        );
        let name = format!("bucket {}", row.bucket);
        let args = json!({
            "epoch": row.pass.epoch + 1, "edge_set": row.pass.edge_set, "edge_chunk": row.pass.edge_chunk,
            "edges": row.stats.count, "loss": row.stats.mean_loss(), "loads": row.io.loads, "writes": row.io.writes,
        });
        self.add(process, Lane::Training, &name, (began, row.seconds), args);
        if let Some(held) = row.leased_seconds {
            // Leases overlap, so each is a span of its own.
            for (phase, at) in [("b", began - held), ("e", ended)] {
                self.events.push(json!({
                    "ph": phase, "cat": "lease", "id": number, "name": format!("lease of {}", row.bucket), "pid": process,
                    "tid": 0, "ts": at * 1e6,
                }));
            }
        }
    }

    fn settlement(&mut self, row: &SettlementRow) {
        let process = self.process(&row.trainer);
        let buckets: Vec<String> = row.buckets.iter().map(ToString::to_string).collect();
        let args = json!({ "buckets": buckets });
        let written = row.at - row.ledger_seconds;
        let writing = (written - row.write_seconds, row.write_seconds);
        self.add(
            process,
            Lane::Settling,
            "write partitions",
            writing,
            args.clone(),
        );
        self.add(
            process,
            Lane::Settling,
            "record in the ledger",
            (written, row.ledger_seconds),
            args,
        );
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::event::{Event, EventLine};
    use pbg_core::graph::Bucket;

    use super::*;

    fn line(text: &str) -> EventLine {
        serde_json::from_str(text).expect("the line is valid")
    }

    #[test]
    fn spans_of_a_bucket_follow_each_other() {
        let bucket = r#"{"event":"bucket_finished","epoch":0,"edge_set":0,"edge_chunk":0,"lhs":1,"rhs":2,"position":0,"index":0,
            "stats":{"count":5,"loss":1.0,"reg":0.0,"violators_lhs":0,"violators_rhs":0},"seconds":2.0,
            "io":{"loads":1,"writes":0,"bytes_read":0,"bytes_written":0,"wait_seconds":0.5},"leased_seconds":3.0,
            "trainer":"a","at":100.0}"#;
        let settled = EventLine {
            trainer: Some("a".to_owned()),
            at: Some(104.0),
            ..EventLine::from(Event::BucketsSettled {
                pass: Default::default(),
                buckets: vec![Bucket::new(1, 2)],
                write_seconds: 1.0,
                ledger_seconds: 0.25,
                refusals: 0,
                exchange_seconds: None,
            })
        };
        let report = RunReport::new(Vec::new(), &[line(bucket), settled]);
        let trace = trace(&report);
        let events = trace["traceEvents"].as_array().expect("a list");
        let span = |name: &str| {
            let found = events.iter().filter(|event| event["ph"] == "X");
            let found = found.clone().find(|event| event["name"] == name);
            let found = found.expect("the span exists");
            (
                found["ts"].as_f64().expect("a time"),
                found["dur"].as_f64().expect("a duration"),
            )
        };
        assert_eq!(span("wait for partitions"), (97.5e6, 0.5e6));
        assert_eq!(span("bucket (1, 2)"), (98e6, 2e6));
        assert_eq!(span("write partitions"), (102.75e6, 1e6));
        assert_eq!(span("record in the ledger"), (103.75e6, 0.25e6));
        let lease = events.iter().filter(|event| event["cat"] == "lease");
        let times: Vec<f64> = lease.filter_map(|event| event["ts"].as_f64()).collect();
        assert_eq!(times, [95e6, 100e6]);
    }
}
