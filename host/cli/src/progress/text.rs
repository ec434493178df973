//! Formats events as text: one line, or nothing for events that only move the bar.

use clap::builder::styling::{AnsiColor, Style};
use pbg_core::event::{Event, LogLevel, Resumed};
use pbg_core::text::escaped_lines;

use super::reporter::Teller;
use super::tracker::Tracker;
use super::vectors;
use crate::terminal::Terminal;
use crate::{format, model_notes};
pub(crate) use figures::traffic;
use figures::{epoch_parts, validated};

mod figures;

/// Returns the line that reports `event`, which `tracker` has already processed; `None` for events without a line.
pub(crate) fn line(event: &Event, tracker: &Tracker, terminal: &Terminal) -> Option<String> {
    match event {
        Event::RunStarted { .. } | Event::StoppedEarly { .. } | Event::RunFinished { .. } => {
            of_run(event, tracker)
        }
        Event::PassPlanned { .. } | Event::EpochFinished { .. } | Event::Validated { .. } => {
            of_epoch(event, tracker, terminal)
        }
        Event::VectorsRead { .. } | Event::VectorsIgnored { .. } => vectors::of_vectors(event),
        Event::Grown { .. }
        | Event::DataChanged { .. }
        | Event::Committed { .. }
        | Event::Preserved { .. } => of_checkpoint(event, terminal),
        Event::PluginLog { .. } | Event::PluginFault { .. } => of_plugin(event, terminal),
        Event::Gathering { .. }
        | Event::RankHeld { .. }
        | Event::TrainerLost { .. }
        | Event::ServerLost { .. }
        | Event::LedgerReplaced { .. }
        | Event::Rejoining { .. }
        | Event::EventsLost { .. }
        | Event::LedgerSilent { .. }
        | Event::LedgerAnswers { .. }
        | Event::LedgerServer { .. }
        | Event::FinishedByOthers { .. }
        | Event::StoppedByOthers { .. } => of_trainers(event),
        Event::BucketStarted { .. }
        | Event::Progress { .. }
        | Event::BucketFinished { .. }
        | Event::BucketsSettled { .. }
        | Event::Interrupted { .. } => None,
    }
}

/// Returns a function that prints the line of an event, without a position in the run.
pub(crate) fn teller(terminal: Terminal) -> Teller {
    Box::new(move |event| {
        if let Some(line) = line(event, &Tracker::default(), &terminal) {
            terminal.print_raw_line(line);
        }
    })
}

/// Formats the events of the start and the end of a run.
fn of_run(event: &Event, tracker: &Tracker) -> Option<String> {
    match event {
        Event::RunStarted {
            epochs,
            buckets,
            edges_per_epoch,
            workers,
            resumed,
            ..
        } => {
            let mut text = format!(
                "training {} of {} edges in {} with {}",
                format::plural(u64::from(*epochs), "epoch"),
                format::count(*edges_per_epoch as f64),
                format::plural(*buckets, "bucket"),
                format::plural(u64::from(*workers), "worker"),
            );
            if let Some(resumed) = resumed {
                text.push_str(&resuming(resumed, *epochs, *buckets, tracker));
            }
            Some(text)
        }
        Event::StoppedEarly {
            epochs,
            best_epoch,
            best_mrr,
        } => Some(format!(
            "stopped early after {}: the highest MRR was after {} ({best_mrr:.4}); that checkpoint is in the folder \
             `best`, which `--best` uses",
            format::plural(u64::from(*epochs), "epoch"),
            format::plural(u64::from(*best_epoch), "epoch"),
        )),
        Event::RunFinished {
            edges,
            seconds,
            io,
            version,
            ..
        } => {
            let mut parts = vec![format!(
                "trained {} edges in {}",
                format::count(*edges as f64),
                format::seconds(*seconds)
            )];
            parts.extend(traffic(io));
            parts.push(format!("checkpoint version {version}"));
            Some(parts.join("  "))
        }
        _ => None,
    }
}

/// Formats the plan of a pass and the results of an epoch.
fn of_epoch(event: &Event, tracker: &Tracker, terminal: &Terminal) -> Option<String> {
    match event {
        // Shown only once, and only if there is more than one bucket to order.
        Event::PassPlanned {
            pass,
            order,
            buckets,
            cost,
        } if *buckets > 1 && (terminal.verbose || tracker.is_first_pass(*pass)) => Some(format!(
            "{}: {order} plans {buckets} buckets: {} ({} after the buffer is full), {}",
            tracker.position(),
            format::plural(cost.loads, "partition load"),
            cost.swaps,
            format::bytes(cost.bytes),
        )),
        Event::EpochFinished {
            epoch,
            stats,
            eval_before,
            seconds,
            io,
            ..
        } => {
            let head = format!("epoch {}/{}", epoch + 1, tracker.epochs());
            let head = terminal.paint(Style::new().bold(), head);
            let mut parts = epoch_parts(stats, eval_before.as_ref(), *seconds, io);
            if let Some(lr) = tracker.lr() {
                parts.insert(1, figures::learning_rate(lr));
            }
            Some(format!("{head}  {}", parts.join("  ")))
        }
        Event::Validated {
            edges,
            ranks,
            best,
            lr_factor,
            seconds,
            ..
        } => {
            let mut text = validated(edges, ranks, *seconds);
            if *best {
                text.push_str("  best so far");
            }
            if *lr_factor < 1.0 {
                text.push_str(&format!("  learning rates x {lr_factor}"));
            }
            Some(text)
        }
        _ => None,
    }
}

/// Formats the events of checkpoints and of changes of the dataset.
fn of_checkpoint(event: &Event, terminal: &Terminal) -> Option<String> {
    match event {
        Event::Grown { rows, relations } => Some(format!(
            "the dataset has grown since the checkpoint was written: initialised {}",
            model_notes::describe_additions(rows.iter(), *relations)
        )),
        Event::DataChanged { changes } => Some(format!(
            "resuming with changed edges: {}",
            changes.join("; ")
        )),
        Event::Committed {
            version, seconds, ..
        } if terminal.verbose => Some(format!(
            "checkpoint version {version} saved; training waited {}",
            format::seconds(*seconds)
        )),
        Event::Preserved { epoch } => Some(format!(
            "kept a copy of the checkpoint after {}",
            format::plural(u64::from(*epoch), "epoch")
        )),
        _ => None,
    }
}

/// Formats the events of the trainers and the ledger of a distributed run.
fn of_trainers(event: &Event) -> Option<String> {
    match event {
        Event::Gathering { here, wanted } if here >= wanted => Some(
            "all trainers have joined; waiting for partition servers (num_partition_servers)"
                .to_owned(),
        ),
        Event::Gathering { here, wanted } => {
            Some(format!("{here} of {wanted} trainers have joined; waiting"))
        }
        Event::RankHeld { rank, seconds } => Some(format!(
            "an earlier trainer of rank {rank} has not left the run; waiting up to {} until its lease expires",
            format::seconds(*seconds)
        )),
        Event::TrainerLost {
            name,
            silent_seconds,
            buckets,
            ..
        } => Some(format!(
            "no heartbeat from {} for {}: it is removed from the run, and {} will be trained again",
            escaped_lines(name),
            format::seconds(*silent_seconds),
            format::plural(buckets.len() as u64, "bucket"),
        )),
        Event::ServerLost {
            address,
            silent_seconds,
        } => Some(format!(
            "no heartbeat from the partition server {} for {}: it is removed from the run; if a partition was only there, \
             the run goes back to the newest checkpoint",
            escaped_lines(address),
            format::seconds(*silent_seconds),
        )),
        Event::LedgerReplaced { reason, version } => Some(format!(
            "{}: resuming from {}; buckets trained since then are trained again",
            escaped_lines(reason),
            match version {
                0 => "the beginning".to_owned(),
                version => format!("checkpoint version {version}"),
            }
        )),
        Event::Rejoining { reason } => Some(format!("{}; joining again", escaped_lines(reason))),
        Event::EventsLost { bytes } => Some(format!(
            "{} of the trainers' events cannot be read and are missing from metrics.jsonl and from reports; the model is \
             not affected",
            format::bytes(*bytes)
        )),
        Event::LedgerSilent {
            what,
            seconds,
            patience_seconds,
        } => Some(format!(
            "the ledger has not answered for {} ({}); waiting up to another {} (distributed.patience)",
            format::seconds(*seconds),
            escaped_lines(what),
            format::seconds(*patience_seconds),
        )),
        Event::LedgerAnswers { seconds } => Some(format!(
            "the ledger answers again, after {}",
            format::seconds(*seconds)
        )),
        Event::LedgerServer { what } => Some(escaped_lines(what).into_owned()),
        Event::FinishedByOthers { version } => Some(format!(
            "the ledger no longer answers, and checkpoint version {version} contains the end of the run: the other \
             trainers have finished it"
        )),
        Event::StoppedByOthers { version } => Some(format!(
            "the others stopped the run at checkpoint version {version} while this trainer was silent; buckets that it \
             had not settled are trained again when the run resumes"
        )),
        _ => None,
    }
}

/// Formats the log lines and failures of plugins.
fn of_plugin(event: &Event, terminal: &Terminal) -> Option<String> {
    match event {
        Event::PluginLog {
            plugin,
            level,
            message,
        } => {
            let style = style_of(*level, terminal)?;
            let head = terminal.paint(style, escaped_lines(&format!("[{plugin}] {level}:")));
            Some(format!("{head} {}", escaped_lines(message)))
        }
        Event::PluginFault {
            plugin,
            function,
            reason,
            fallback,
        } => Some(format!(
            "{} {function}: {}\n  {fallback} replaces it",
            terminal.paint(
                AnsiColor::Red.on_default(),
                escaped_lines(&format!("[{plugin}] failed:"))
            ),
            escaped_lines(reason)
        )),
        _ => None,
    }
}

/// Describes the point at which a run resumes.
fn resuming(resumed: &Resumed, epochs: u32, buckets: u64, tracker: &Tracker) -> String {
    let version = resumed.version;
    if resumed.pass.epoch >= epochs {
        return format!(
            "\ncheckpoint version {version} contains all of them; increase num_epochs to continue training"
        );
    }
    // Only a graph with a single bucket can be interrupted within the bucket.
    let behind = match resumed.edges {
        0 => format!("{} of {buckets} buckets done", resumed.done),
        edges => format!("after {} edges", format::count(edges as f64)),
    };
    let position = tracker.position();
    format!("\nresuming at {position} of checkpoint version {version}, {behind}")
}

/// Returns the style of log lines of a level; `None` if they are not shown.
fn style_of(level: LogLevel, terminal: &Terminal) -> Option<Style> {
    match level {
        LogLevel::Error => Some(AnsiColor::Red.on_default()),
        LogLevel::Warn => Some(AnsiColor::Yellow.on_default()),
        LogLevel::Debug if !terminal.verbose => None,
        LogLevel::Info | LogLevel::Debug => Some(Style::new()),
    }
}

/// Formats the current speed, loss and time left.
pub(crate) fn current_figures(tracker: &Tracker) -> String {
    let mut parts = Vec::new();
    if let Some(speed) = tracker.speed() {
        parts.push(format!("{} edges/s", format::count(speed)));
    }
    if let Some(loss) = tracker.loss() {
        parts.push(format!("loss {}", format::loss(loss)));
    }
    parts.extend(tracker.lr().map(figures::learning_rate));
    if let Some(left) = tracker.left() {
        parts.push(format!("{} left", format::duration(left)));
    }
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use pbg_core::event::{CallSeconds, PartitionIo, RankStats, TrainStats};

    use super::*;

    const PLAIN: Terminal = Terminal {
        color: false,
        verbose: false,
        interactive: false,
    };

    #[test]
    fn an_epoch_in_one_line() {
        let io = PartitionIo {
            loads: 13,
            writes: 9,
            bytes_read: 1 << 20,
            bytes_written: 1 << 20,
            wait_seconds: 0.2,
            commit_seconds: 0.05,
        };
        let stats = TrainStats {
            count: 50_000,
            loss: 4202.5,
            ..TrainStats::default()
        };
        let eval_before = Some(RankStats {
            mrr: 0.25,
            hits_at_10: 0.5,
            ..RankStats::default()
        });
        let event = Event::EpochFinished {
            epoch: 0,
            stats,
            eval_before,
            seconds: 2.0,
            calls: CallSeconds::default(),
            io,
            disk: None,
            peak_bytes: None,
            groups: Vec::new(),
        };
        let started = Event::RunStarted {
            epochs: 3,
            passes_per_epoch: 1,
            buckets: 16,
            edges_per_epoch: 50_000,
            workers: 2,
            resumed: None,
        };
        let mut tracker = Tracker::default();
        tracker.event(&started, std::time::Duration::ZERO);
        assert_eq!(
            line(&event, &tracker, &PLAIN).unwrap(),
            "epoch 1/3  loss 0.084050  held-out MRR 0.250 Hits@10 0.500  50.0 k edges in 2.0 s (25.0 k/s)  \
             I/O 13 loads, 9 writes, 2.00 MiB, waited 0.2 s"
        );
        let begins = Event::BucketStarted {
            pass: pbg_core::schedule::PassId::default(),
            bucket: pbg_core::graph::Bucket::new(0, 0),
            position: 0,
            edges: 9,
            lr: Some(0.05),
        };
        tracker.event(&begins, std::time::Duration::ZERO);
        let with_rate = line(&event, &tracker, &PLAIN).unwrap();
        let start = "epoch 1/3  loss 0.084050  lr 0.050000  held-out";
        assert!(with_rate.starts_with(start), "{with_rate}");
    }

    #[test]
    fn plugins_are_named_and_debug_lines_need_verbose() {
        let log = |level: LogLevel| Event::PluginLog {
            plugin: "affinity".to_owned(),
            level,
            message: "hello".to_owned(),
        };
        let tracker = Tracker::default();
        assert_eq!(
            line(&log(LogLevel::Warn), &tracker, &PLAIN).unwrap(),
            "[affinity] warn: hello"
        );
        assert_eq!(line(&log(LogLevel::Debug), &tracker, &PLAIN), None);
        let verbose = Terminal {
            verbose: true,
            ..PLAIN
        };
        assert!(line(&log(LogLevel::Debug), &tracker, &verbose).is_some());
    }
}
