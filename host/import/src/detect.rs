//! Detection of a file's format from its first block, never from its name.
//!
//! Where two interpretations are possible, the error names both and how to choose. The chosen one is reported before
//! anything is read ([`ImportProgress::ReadAs`](super::ImportProgress::ReadAs)).

pub(super) mod detected;
mod header;
mod header_file;
mod records;
mod separator;

use std::io::Read;

use self::detected::DetectedFormat;
use self::detected::TextSample;
pub(super) use self::detected::UserOptions;
use self::header::FirstRecord;
use self::records::TextRecord;
use super::ImportError;
use super::block::{BLOCK_BYTES, EdgeFormat};
use super::columns::{ColumnLayout, is_kgx_nodes};
use super::format::{CommentRule, Comments, Separator, TextFormat};
use super::inputs::InputPath;
use super::rdf::{self, RdfSyntax};
use super::reading::{FormatDescription, HeaderSource};
use super::shorten::shorten;
use super::source::{self, FileKind, TextSource};
use super::table;
use pbg_files::FileError;

/// Detects the format of a file and the roles of its columns. All files are inspected before the first is read, so that
/// an error in the last one is not reported hours later.
pub(super) fn detect(
    input: &InputPath,
    said: UserOptions<'_>,
) -> Result<DetectedFormat, ImportError> {
    let kind = source::kind_of(input)?;
    if kind == FileKind::Parquet {
        return table::detect(input, said);
    }
    let sample = TextSample::read(input, said.text.skip_lines)?;
    if let Some(found) = rdf::detect(input, said, &sample, kind.compression())? {
        if !matches!(found.format, EdgeFormat::Rdf(format) if format.syntax == RdfSyntax::Turtle) {
            sample.check_first_line(input, said.text.skip_lines)?;
        }
        return Ok(found);
    }
    sample.check_first_line(input, said.text.skip_lines)?;
    let text = Text {
        input,
        said,
        lines: sample.lines(),
        whole: sample.whole,
    };
    text.detect(kind)
}

/// Bytes of text that are inspected.
const LOOKED_AT: u64 = 256 << 10;
/// Maximum number of lines after the comments that are inspected.
const MOST_LINES: usize = 1000;

impl TextSample {
    fn read(input: &InputPath, skipped: u64) -> Result<Self, ImportError> {
        let mut source = TextSource::open_behind(input, skipped)?;
        let mut bytes = Vec::new();
        let mut more = |limit: u64| {
            let read = source.reader.by_ref().take(limit).read_to_end(&mut bytes);
            read.map(|read| (read as u64) < limit)
        };
        let failed = |e| FileError::new("read", &input.path, e);
        let mut has_line_end = true;
        let mut whole = more(LOOKED_AT).map_err(failed)?;
        if !whole {
            whole = more(BLOCK_BYTES as u64 - LOOKED_AT).map_err(failed)?;
        }
        if !whole {
            match memchr::memrchr(b'\n', &bytes) {
                Some(end) => bytes.truncate(end + 1),
                None => has_line_end = false,
            }
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self {
            text,
            whole,
            has_line_end: whole || has_line_end,
        })
    }

    /// Checks that the first line of a text that is read by lines, behind `skipped` ones, fits into a block.
    fn check_first_line(&self, input: &InputPath, skipped: u64) -> Result<(), ImportError> {
        if self.has_line_end {
            return Ok(());
        }
        Err(ImportError::Line {
            path: input.path.clone(),
            line: skipped + 1,
            what: format!("the line is longer than {BLOCK_BYTES} bytes"),
        })
    }

    fn lines(&self) -> Vec<&str> {
        self.text.lines().collect()
    }
}

/// First lines of a text file with the user's options; `whole`: whether these are all lines.
struct Text<'a> {
    input: &'a InputPath,
    said: UserOptions<'a>,
    lines: Vec<&'a str>,
    whole: bool,
}

impl Text<'_> {
    fn detect(&self, kind: FileKind) -> Result<DetectedFormat, ImportError> {
        let comments = self.comments();
        let body = &self.lines[comments.lines..];
        if body.iter().all(|line| line.trim().is_empty()) {
            return Err(self.without_edges(&comments));
        }
        let count = usize::from(begins_with_a_count(body)) * (first_line(body) + 1);
        let body = &body[count..];
        let is_cut = !self.whole || body.len() > MOST_LINES;
        let body = &body[..body.len().min(MOST_LINES)];
        let mark = match self.said.text.comment {
            Some(Comments::After(mark)) => Some(mark),
            _ => None,
        };
        let separator = match self.said.text.separator {
            Some(separator) => separator,
            None => separator::detect(body, mark, self.said).map_err(|what| self.wrong(what))?,
        };
        let offset = comments.lines + count;
        let records = records::of(body, separator, mark, is_cut);
        let width = records::usual_width(&records);
        let title = self.title(&comments, separator, width)?;
        let head = self.head(&records, separator, offset, title)?;
        let layout = self.layout(&head, &records, width)?;
        let first = usize::from(matches!(head, HeaderSource::Columns(_)));
        // Lines up to the first edge, including a header.
        let preamble = match records.get(first) {
            Some(record) => offset + record.line,
            None => offset + body.len(),
        };
        let rule = match (self.said.text.comment, comments.mark) {
            (Some(Comments::After(mark)), _) => Some(CommentRule {
                mark,
                by_user: true,
            }),
            (None, Some(mark)) => Some(CommentRule {
                mark,
                by_user: false,
            }),
            _ => None,
        };
        let reading = FormatDescription {
            compression: kind.compression(),
            separator: Some(separator),
            skipped: self.said.text.skip_lines,
            comments: comments.count,
            count: (count > 0).then(|| self.lines[offset - 1].trim().to_owned()),
            head,
            notes: Vec::new(),
            first: records.get(first).map(|record| record.cells.clone()),
        };
        let format = TextFormat {
            separator,
            preamble: self.said.text.skip_lines + preamble as u64,
            comment: rule,
        };
        Ok(DetectedFormat {
            format: EdgeFormat::Text(format),
            layout,
            reading,
            prefixes: Vec::new(),
        })
    }

    fn wrong(&self, what: impl Into<String>) -> ImportError {
        ImportError::input(&self.input.path, what)
    }

    /// Returns the comments at the beginning.
    fn comments(&self) -> LeadingComments<'_> {
        let mark = match self.said.text.comment {
            Some(Comments::None) => None,
            Some(Comments::After(mark)) => Some(char::from(mark)),
            None => {
                let first = self.lines.iter().find(|line| !line.trim().is_empty());
                let first = first.and_then(|line| line.chars().next());
                first.filter(|mark| matches!(mark, '#' | '%'))
            }
        };
        let mut top = LeadingComments {
            mark: mark.map(|mark| mark as u8),
            ..LeadingComments::default()
        };
        let Some(mark) = mark else { return top };
        for (at, line) in self.lines.iter().enumerate() {
            match line.strip_prefix(mark) {
                Some(text) => {
                    top.count += 1;
                    top.texts.push(text);
                    top.lines = at + 1;
                }
                None if line.trim().is_empty() => {}
                None => break,
            }
        }
        top
    }

    fn without_edges(&self, comments: &LeadingComments<'_>) -> ImportError {
        match (comments.mark, self.said.text.comment) {
            (Some(mark), None) => {
                let mark = char::from(mark);
                self.wrong(format!(
                    "all of its first {} lines begin with `{mark}`: are they comments or edges? Use `--comment '{mark}'` \
                     for comments, `--comment none` for edges",
                    comments.count
                ))
            }
            _ if !self.whole => self.wrong(
                "all of its first lines are comments: skip the lines before the first edge with `--skip-lines N`",
            ),
            _ => self.wrong("it has no edges"),
        }
    }

    /// Returns the column names in the last comment, if it has as many cells as an edge. Comments that could also be
    /// edges are an error, unless the user specified what they are.
    fn title(
        &self,
        comments: &LeadingComments<'_>,
        separator: Separator,
        width: usize,
    ) -> Result<Option<Vec<String>>, ImportError> {
        let cells = |text: &str| {
            let text = text.trim_start_matches(['#', '%']).trim();
            let found = records::of(&[text], separator, None, false);
            found.into_iter().next().map_or(Vec::new(), |row| row.cells)
        };
        let names = |text: &str| {
            let cells = cells(text);
            let named =
                header::names_both_sides(&cells) || header::has_all(&cells, self.said.columns);
            (cells.len() == width && named).then_some(cells)
        };
        if self.said.text.comment.is_none() {
            for text in &comments.texts {
                let is_comment = text.is_empty()
                    || text.starts_with([' ', '\t', '#', '%'])
                    || cells(text).len() != width
                    || names(text).is_some();
                if !is_comment {
                    let mark = comments.mark.map_or('#', char::from);
                    return Err(self.wrong(format!(
                        "is its line `{mark}{}` a comment or an edge? Use `--comment '{mark}'` for a comment, `--comment \
                         none` for an edge",
                        shorten(text)
                    )));
                }
            }
        }
        Ok(comments.texts.last().and_then(|text| names(text)))
    }

    /// Determines whether the first record is a header.
    fn head(
        &self,
        records: &[TextRecord],
        separator: Separator,
        offset: usize,
        title: Option<Vec<String>>,
    ) -> Result<HeaderSource, ImportError> {
        let Some((first, rest)) = records.split_first() else {
            return Ok(HeaderSource::None);
        };
        if let Some(path) = &self.said.text.header_file {
            let width = records::usual_width(records);
            let names = header_file::read(path, separator, width)?;
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            return Ok(HeaderSource::File(names, name.into_owned()));
        }
        let names: Vec<&str> = first.cells.iter().map(String::as_str).collect();
        if self.said.text.header.is_none() && self.said.columns.is_none() && is_kgx_nodes(&names) {
            return Err(self.wrong(
                "its first line names the columns of nodes (`id` and `category`, as in KGX), not of edges: import the file \
                 of edges, or use `--header no` if that line is an edge",
            ));
        }
        let without = title.map_or(HeaderSource::None, HeaderSource::Comment);
        let verdict = match self.said.text.header {
            Some(true) => FirstRecord::Header,
            Some(false) => FirstRecord::Edge,
            None if matches!(without, HeaderSource::Comment(_)) => FirstRecord::Edge,
            None => header::verdict(&first.cells, rest, separator, self.said.columns),
        };
        match verdict {
            FirstRecord::Header => Ok(HeaderSource::Columns(first.cells.clone())),
            FirstRecord::Edge => Ok(without),
            FirstRecord::Unsure => Err(self.wrong(format!(
                "is its first line `{}` a header or an edge? With `--header yes` it names the columns, with `--header \
                 no` it is {}",
                shorten(self.line_from(offset + first.line)),
                self.as_edge(&first.cells)
            ))),
        }
    }

    /// Returns the first line from `at` on that is neither blank nor a comment.
    fn line_from(&self, at: usize) -> &str {
        let is_comment = |line: &str| match self.said.text.comment {
            Some(Comments::After(mark)) => line.starts_with(char::from(mark)),
            _ => false,
        };
        let mut lines = self.lines[at..].iter();
        let found = lines.find(|line| !line.trim().is_empty() && !is_comment(line));
        found.copied().unwrap_or_default()
    }

    /// Describes a record as an edge, for a message.
    fn as_edge(&self, cells: &[String]) -> String {
        match ColumnLayout::without_header(self.said.columns, cells.len(), self.said.relation) {
            Ok(layout) => format!(
                "the edge {}",
                layout.describe_edge(cells, self.said.relation)
            ),
            Err(_) => "an edge".to_owned(),
        }
    }

    fn layout(
        &self,
        head: &HeaderSource,
        records: &[TextRecord],
        width: usize,
    ) -> Result<ColumnLayout, ImportError> {
        let columns = self.said.columns;
        let layout = match head {
            HeaderSource::Columns(names)
            | HeaderSource::Comment(names)
            | HeaderSource::File(names, _) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let layout = ColumnLayout::with_header(columns, &names);
                layout.map(|layout| match columns {
                    None => {
                        header::without_direction(layout, &names, &records[1.min(records.len())..])
                    }
                    Some(_) => layout,
                })
            }
            HeaderSource::None => ColumnLayout::without_header(columns, width, self.said.relation),
        };
        layout.map_err(|what| self.wrong(what))
    }
}

/// Comments at the beginning of a text.
#[derive(Default)]
struct LeadingComments<'a> {
    /// Comment character; set even if there are no comments.
    mark: Option<u8>,
    /// Text of each comment after the comment character.
    texts: Vec<&'a str>,
    count: usize,
    /// Number of lines up to the last comment.
    lines: usize,
}

/// Returns the index of the first line that is not blank.
fn first_line(lines: &[&str]) -> usize {
    let found = lines.iter().position(|line| !line.trim().is_empty());
    found.unwrap_or(0)
}

/// Returns whether the first line is the number of edges, as in OpenKE's files: a single integer, while the next line
/// has more.
fn begins_with_a_count(body: &[&str]) -> bool {
    let mut lines = body
        .iter()
        .map(|line| line.trim())
        .filter(|line| !line.is_empty());
    let (Some(first), Some(next)) = (lines.next(), lines.next()) else {
        return false;
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    is_number(first) && !is_number(next)
}
