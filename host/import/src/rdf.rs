//! RDF files: N-Triples and N-Quads, which have a triple per line, and Turtle, whose statements have any length.
//!
//! [`lines`] parses blocks of whole lines in parallel, [`turtle`] a file as one stream. Both pass terms to [`names`],
//! which makes names of entities and relations of them. The library oxttl is the parser; lines of plain terms, which
//! most files consist of, are divided without it.

mod detect;
mod lines;
mod names;
mod options;
mod rows;
mod statements;
mod stream;
mod syntax;
mod turtle;

pub(super) use detect::detect;
pub(super) use lines::parse as parse_lines;
pub(super) use names::TermNames;
pub(super) use names::prefixes::PrefixTable;
pub use options::{BlankNodes, Literals, Prefix, RdfOptions};
pub(super) use syntax::RdfFormat;
pub use syntax::RdfSyntax;
pub(super) use turtle::read as read_turtle;
