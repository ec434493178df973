//! Fuzzing of the event files of other trainers, which a checkpoint merges.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use pbg_checkpoint::SharedCheckpoint;
use pbg_core::event::{Event, EventLine};
use pbg_distributed::received;
use pbg_fuzz::{bytes, json};
use pbg_ledger::Token;

use crate::{fuzz, turn};

fn line(revision: u64) -> EventLine {
    EventLine {
        event: Event::Rejoining {
            reason: "it was silent".to_owned(),
        },
        trainer: Some("node-a".to_owned()),
        at: Some(1.5),
        revision: Some(revision),
    }
}

#[test]
fn event_files() {
    let turn = turn();
    fuzz(turn, "event_files", 200, 32 << 20, |dice, place| {
        let folder = place.join("model");
        let mut ranges = Vec::new();
        for token in [Token(1), Token(2)] {
            let files = SharedCheckpoint::open(&folder, token).unwrap();
            for revision in 0..dice.below(5) as u64 {
                let mut value = serde_json::to_value(line(revision)).unwrap();
                if dice.once_in(3) {
                    json(dice, &mut value);
                }
                let text = serde_json::to_vec(&value).unwrap();
                let text = match dice.once_in(3) {
                    true => bytes(dice, &text, b"{\"event\":\"run_started\"}\n"),
                    false => text,
                };
                files.append_events(&[&text[..], b"\n"].concat()).unwrap();
            }
            let end = files.append_events(b"").unwrap();
            let from = if dice.once_in(4) {
                dice.below(40) as u64
            } else {
                0
            };
            let to = if dice.once_in(4) { dice.bits() } else { end };
            ranges.push((token, from, to));
        }
        if dice.once_in(100) {
            let is_log = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "jsonl");
            let entries = fs::read_dir(&folder).unwrap();
            let log = entries.map(|entry| entry.unwrap().path()).find(is_log);
            if let Some(log) = log {
                // A line without an end.
                let mut file = OpenOptions::new().append(true).open(log).unwrap();
                let part = [b' '; 64 << 10];
                (0..1024).for_each(|_| file.write_all(&part).unwrap());
                ranges.iter_mut().for_each(|range| range.2 = u64::MAX);
            }
        }
        let files = SharedCheckpoint::open(&folder, Token(3)).unwrap();
        let (lines, lost) = received::events(&files, &ranges).unwrap();
        let lines = lines.split_inclusive(|byte| *byte == b'\n');
        let all = lines.map(|line| serde_json::from_slice::<EventLine>(line).unwrap());
        all.count() > 0 && lost < u64::MAX
    });
}
