//! Input and result of the detection of a format.

use crate::block::EdgeFormat;
use crate::columns::{ColumnLayout, ColumnSpec};
use crate::format::TextOptions;
use crate::reading::FormatDescription;

/// Options of the user that concern the format of files.
#[derive(Clone, Copy)]
pub(crate) struct UserOptions<'a> {
    pub(crate) columns: Option<&'a ColumnSpec>,
    pub(crate) text: &'a TextOptions,
    /// Relation of edges that name none.
    pub(crate) relation: Option<&'a str>,
}

/// Detected format of a file.
pub(crate) struct DetectedFormat {
    pub(crate) format: EdgeFormat,
    pub(crate) layout: ColumnLayout,
    pub(crate) reading: FormatDescription,
}
