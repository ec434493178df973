//! Input and result of the detection of a format.

use crate::block::EdgeFormat;
use crate::columns::{ColumnLayout, ColumnSpec};
use crate::format::TextOptions;
use crate::rdf::{Prefix, RdfOptions};
use crate::reading::FormatDescription;

/// Options of the user that concern the format of files.
#[derive(Clone, Copy)]
pub(crate) struct UserOptions<'a> {
    pub(crate) columns: Option<&'a ColumnSpec>,
    pub(crate) text: &'a TextOptions,
    pub(crate) rdf: &'a RdfOptions,
    /// Relation of edges that name none.
    pub(crate) relation: Option<&'a str>,
}

/// Detected format of a file.
pub(crate) struct DetectedFormat {
    pub(crate) format: EdgeFormat,
    pub(crate) layout: ColumnLayout,
    pub(crate) reading: FormatDescription,
    /// Prefixes that the file declares before its first triple.
    pub(crate) prefixes: Vec<Prefix>,
}

/// First lines of a text file.
pub(crate) struct TextSample {
    pub(crate) text: String,
    /// Whether these are all lines of the file.
    pub(crate) whole: bool,
    /// Whether the first line is complete.
    pub(crate) has_line_end: bool,
}
