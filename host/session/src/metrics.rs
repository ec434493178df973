//! Reads `metrics.jsonl`.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use pbg_checkpoint::{CheckpointError, MANIFEST};
use pbg_core::event::{Event, EventLine};
use pbg_core::nearest::nearest;
use pbg_files::{self as files, FileError};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// Limit of the length of an event, in bytes.
const LINE_BYTES: u64 = 1 << 20;

/// Limit of the size of the file in bytes, since all events are held in memory.
const FILE_BYTES: u64 = 1 << 30;

/// Reads the events in `path`. An incomplete last line is left out.
///
/// # Errors
/// When the file cannot be read, is not a regular file or is too large, or a line is not an event.
pub fn read(path: &Path) -> Result<Vec<EventLine>> {
    let size =
        files::size(path).map_err(|error| missing(path).unwrap_or_else(|| unreadable(error)))?;
    if size > FILE_BYTES {
        let text = format!(
            "{}: {size} bytes, too large for the events of a run",
            path.display()
        );
        return Err(Failure::message(FailureKind::Checkpoint, text));
    }
    let mut lines = BufReader::new(files::open(path).map_err(unreadable)?);
    let mut events = Vec::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = lines.by_ref().take(LINE_BYTES);
        let read = limited.read_until(b'\n', &mut line);
        read.map_err(|error| unreadable(FileError::new("read", path, error)))?;
        match line.as_slice() {
            [b'\n'] => continue,
            complete @ [.., b'\n'] => events.push(event(complete, path, number)?),
            longer if longer.len() as u64 == LINE_BYTES => {
                events.push(event(longer, path, number)?);
            }
            _unfinished => break,
        }
    }
    Ok(events)
}

/// Checks that events of this kind exist.
///
/// # Errors
/// When there are none. The failure lists the existing kinds.
pub fn known(kind: &str) -> Result<()> {
    let Err(error) = serde_json::from_value::<Event>(serde_json::json!({ "event": kind })) else {
        return Ok(());
    };
    let text = error.to_string();
    // The error is about missing fields otherwise. Only the type knows the existing kinds.
    let Some((_, kinds)) = text
        .strip_prefix("unknown variant ")
        .and_then(|t| t.split_once(", expected "))
    else {
        return Ok(());
    };
    let kinds: Vec<&str> = kinds.split('`').skip(1).step_by(2).collect();
    let help = match nearest(kind, kinds.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known kinds: {}", kinds.join(", ")),
    };
    let text = format!("unknown kind of event {kind:?}");
    Err(Failure::message(FailureKind::Usage, text).help(help))
}

fn event(line: &[u8], path: &Path, number: usize) -> Result<EventLine> {
    serde_json::from_slice(line).map_err(|error| {
        let place = format!("{}, line {number}: not an event of a run", path.display());
        Failure::new(FailureKind::Checkpoint, error).context(place)
    })
}

/// Returns the failure that there are no events, because there is no checkpoint or a preserved one without events;
/// `None` if the events exist.
fn missing(path: &Path) -> Option<Failure> {
    let folder = path.parent().filter(|_| !path.exists())?;
    if !folder.join(MANIFEST).exists() {
        let path = folder.to_owned();
        return Some(Failure::new(
            FailureKind::Checkpoint,
            CheckpointError::Missing(path),
        ));
    }
    let text = format!(
        "{} has no events: it is a preserved version of a run",
        folder.display()
    );
    let failure = Failure::message(FailureKind::Checkpoint, text);
    Some(failure.help("name the folder of the run, which is its parent folder"))
}

fn unreadable(error: FileError) -> Failure {
    let kind = match error.is_not_found() || error.is_damage() {
        true => FailureKind::Checkpoint,
        false => FailureKind::Io,
    };
    Failure::new(kind, error)
}

#[cfg(test)]
mod tests {
    use std::fs;

    #[test]
    fn misspelt_kinds_are_told() {
        super::known("validated").unwrap();
        super::known("run_finished").unwrap();
        let lines = super::known("epoch_finish").unwrap_err().lines();
        assert_eq!(lines[1].1, "did you mean `epoch_finished`?");
        let lines = super::known("x").unwrap_err().lines();
        assert!(lines[1].1.contains("committed, preserved"), "{lines:?}");
    }

    #[test]
    fn a_line_that_is_being_written_is_no_error() {
        let path = std::env::temp_dir().join(format!("pbg-metrics-{}.jsonl", std::process::id()));
        let event = r#"{"event":"progress","edges":1,"loss":0.5}"#;
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            super::read(&path)
        };
        assert_eq!(read(&format!("{event}\n{event}\n")).unwrap().len(), 2);
        assert_eq!(read(&format!("{event}\n{{\"eve")).unwrap().len(), 1);
        assert!(read("").unwrap().is_empty());
        assert!(read(&format!("what?\n{event}\n")).is_err());
        assert!(read(&"x".repeat(2 << 20)).is_err(), "no line is as long");
        fs::remove_file(&path).unwrap();
    }
}
