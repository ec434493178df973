//! Arguments of `pbg-host import` about the format of files.

use std::path::PathBuf;

use pbg_import::{BlankNodes, Comments, Literals, Prefix, RdfOptions, Separator, TextOptions};

/// Format of text files of edges. Properties that are not given are detected from the first lines of each file.
#[derive(Debug, clap::Args)]
pub(super) struct TextArgs {
    /// Whether the first line of text files names the columns.
    #[arg(long, value_name = "yes|no", value_parser = yes_or_no)]
    header: Option<bool>,
    /// File with the header of the text files, which have none themselves, as Neo4j exports it.
    #[arg(long, value_name = "FILE", conflicts_with = "header")]
    header_file: Option<PathBuf>,
    /// Column separator of text files: tab, comma, semicolon, pipe, space (any number of blanks), or a single
    /// character; or the syntax of RDF files: ntriples, nquads, turtle.
    #[arg(long, value_name = "SEPARATOR")]
    separator: Option<Separator>,
    /// First character of comments in text files, or `none`.
    #[arg(long, value_name = "CHARACTER")]
    comment: Option<Comments>,
    /// Number of lines to skip at the beginning of each text file.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_lines: u64,
}

impl TextArgs {
    /// Returns the options of the import.
    pub(super) fn options(&self) -> TextOptions {
        TextOptions {
            header: self.header,
            header_file: self.header_file.clone(),
            separator: self.separator,
            comment: self.comment,
            skip_lines: self.skip_lines,
        }
    }
}

/// Terms of RDF files (N-Triples, N-Quads, Turtle) that become entities, and their names.
#[derive(Debug, clap::Args)]
pub(super) struct RdfArgs {
    /// What to do with triples of RDF files whose object is a literal: skip and count them, or read each literal as an
    /// entity [default: skip].
    #[arg(long, value_name = "skip|entities", hide_possible_values = true)]
    literals: Option<Literals>,
    /// Whether the same label of a blank node in two RDF files is two entities, or the same one because the files are
    /// parts of one document [default: per-file].
    #[arg(long, value_name = "per-file|shared", hide_possible_values = true)]
    blank_nodes: Option<BlankNodes>,
    /// Shorten the IRIs of RDF files that begin with IRI: entities and relations are then called NAME:rest instead of
    /// <IRI...>; can be repeated.
    #[arg(long, value_name = "NAME=IRI")]
    prefix: Vec<Prefix>,
    /// Also shorten IRIs by the prefixes that Turtle files declare before their first triple.
    #[arg(long)]
    file_prefixes: bool,
}

impl RdfArgs {
    /// Returns the options of the import.
    pub(super) fn options(&self) -> RdfOptions {
        RdfOptions {
            literals: self.literals.unwrap_or_default(),
            blank_nodes: self.blank_nodes.unwrap_or_default(),
            prefixes: self.prefix.clone(),
            file_prefixes: self.file_prefixes,
        }
    }
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("`{text}` is neither `yes` nor `no`")),
    }
}
