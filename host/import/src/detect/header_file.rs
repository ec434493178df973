//! Header in a file of its own, as Neo4j exports it.

use std::path::Path;

use super::detected::TextSample;
use super::records;
use crate::ImportError;
use crate::format::Separator;
use crate::inputs::InputPath;
use crate::shorten::shorten;

/// Returns the column names in the first line of a file, which must be as many as the columns of the edges.
///
/// # Errors
/// When the file cannot be read, has more than a header, or has another number of columns.
pub(super) fn read(
    path: &Path,
    separator: Separator,
    width: usize,
) -> Result<Vec<String>, ImportError> {
    let input = InputPath {
        path: path.to_owned(),
        source: path.to_owned(),
    };
    let sample = TextSample::read(&input, 0)?;
    sample.check_first_line(&input, 0)?;
    let lines: Vec<&str> = sample.text.lines().collect();
    let mut records = records::of(&lines, separator, None, false).into_iter();
    let names = records.next().map_or(Vec::new(), |record| record.cells);
    if let Some(next) = records.next() {
        let what = format!(
            "it is given as `--header-file`, but has more than a header: {}",
            shorten(&next.cells.join(" "))
        );
        return Err(ImportError::input(path, what));
    }
    if names.len() != width {
        let what = format!(
            "it names {} columns, but the edges have {width} ({separator})",
            names.len()
        );
        return Err(ImportError::input(path, what));
    }
    Ok(names)
}
