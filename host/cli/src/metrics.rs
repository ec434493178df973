//! Reads `metrics.jsonl`.

use std::fs;
use std::io;
use std::path::Path;

use pbg_core::event::Event;

use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};

/// The events in `path`. A last line that was not written to its end is left out.
///
/// # Errors
/// When the file cannot be read, or a line is no event.
pub(crate) fn read(path: &Path) -> Result<Vec<Event>> {
    let text = fs::read_to_string(path).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => Kind::Checkpoint,
            _ => Kind::Io,
        };
        Failure::new(kind, error).context(format!("cannot read {}", path.display()))
    })?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let place = format!("{}, line {}: no event of a run", path.display(), number + 1);
            Failure::new(Kind::Checkpoint, error).context(place)
        })
    };
    let lines = complete.lines().enumerate();
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(parse)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        fs::remove_file(&path).unwrap();
    }
}
