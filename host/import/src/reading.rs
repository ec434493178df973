//! Description of the detected format of input files, for messages.

use std::fmt::Write as _;
use std::sync::Arc;

use super::block::InputFile;
use super::columns;
use super::format::Separator;

/// Detected format of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FormatDescription {
    pub(super) compression: Option<&'static str>,
    /// Separator of columns; `None` for Parquet.
    pub(super) separator: Option<Separator>,
    /// Number of lines skipped at the user's request.
    pub(super) skipped: u64,
    /// Number of comments before the first edge.
    pub(super) comments: usize,
    /// Number of edges stated in the first line, if any.
    pub(super) count: Option<String>,
    pub(super) head: HeaderSource,
    /// Remarks on how the terms of RDF are read.
    pub(super) notes: Vec<String>,
    /// Cells of the first edge.
    pub(super) first: Option<Vec<String>>,
}

/// Origin of the column names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum HeaderSource {
    /// The columns have no names.
    #[default]
    None,
    /// The first line, or the schema of a table.
    Columns(Vec<String>),
    /// The last comment before the first edge.
    Comment(Vec<String>),
    /// Another file of this name.
    File(Vec<String>, String),
}

impl FormatDescription {
    /// Describes the format, without anything specific to the file.
    fn describe(&self) -> String {
        let mut text = String::new();
        if let Some(compression) = self.compression {
            let _ = write!(text, "{compression}, ");
        }
        let Some(separator) = self.separator else {
            text.push_str("Parquet");
            return text;
        };
        let _ = write!(text, "{separator}");
        let lines = |count: u64| if count == 1 { "line" } else { "lines" };
        if self.skipped > 0 {
            let _ = write!(text, ", {} {} skipped", self.skipped, lines(self.skipped));
        }
        if self.comments > 0 {
            let count = self.comments as u64;
            let _ = write!(text, ", {count} {} of comments", lines(count));
        }
        if let Some(count) = &self.count {
            let _ = write!(text, ", the count {count}");
        }
        if let Separator::Rdf(_) = separator {
            self.notes.iter().for_each(|note| {
                let _ = write!(text, ", {note}");
            });
            return text;
        }
        match &self.head {
            HeaderSource::None => text.push_str(", no header"),
            HeaderSource::Columns(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                text.push_str(match columns::is_kgx(&names) {
                    true => ", with a header of KGX",
                    false => ", with a header",
                });
            }
            HeaderSource::Comment(_) => text.push_str(", with a comment as header"),
            HeaderSource::File(_, name) => {
                let _ = write!(text, ", with the header in {name}");
            }
        }
        text
    }
}

/// Returns one line per distinct format and layout of an edge set's files, with the first edge of the first such file.
pub(super) fn lines(
    files: &[(Arc<InputFile>, FormatDescription)],
    relation: Option<&str>,
) -> Vec<String> {
    let mut ways: Vec<(String, usize, u64)> = Vec::new();
    for (at, (file, reading)) in files.iter().enumerate() {
        let way = reading.describe();
        let same = |(known, first, _): &&mut (String, usize, u64)| {
            *known == way && files[*first].0.layout == file.layout
        };
        match ways.iter_mut().find(same) {
            Some((.., more)) => *more += 1,
            None => ways.push((way, at, 0)),
        }
    }
    let line = |(way, first, more): (String, usize, u64)| {
        let (file, reading) = &files[first];
        let mut line = file.file.path.display().to_string();
        if more > 0 {
            let files = if more == 1 { "file" } else { "files" };
            let _ = write!(line, " and {more} {files} more");
        }
        let _ = write!(line, ": {way}");
        if let Some(cells) = &reading.first {
            let edge = file.layout.describe_edge(cells, relation);
            let _ = write!(line, "; read as: {edge}");
        }
        line
    };
    ways.into_iter().map(line).collect()
}
