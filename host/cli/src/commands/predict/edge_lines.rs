//! Missing edges as text, as JSON and as rows of a table.

use std::io::{self, Write};

use pbg_export::predictions::PredictedEdge;
use pbg_query::MissingEdge;
use serde::Serialize;

use crate::failure::Result;
use crate::terminal;

/// Missing edge, as JSON.
#[derive(Serialize)]
struct EdgeJson<'e> {
    head: &'e str,
    relation: &'e str,
    tail: &'e str,
    rank: u32,
    score: f32,
}

/// Prints a line for each edge: rank, score, head, relation and tail.
pub(super) fn print(out: &mut dyn Write, edges: &[MissingEdge]) -> io::Result<()> {
    for edge in edges {
        let MissingEdge {
            head,
            relation,
            tail,
            rank,
            score,
        } = edge;
        writeln!(out, "{rank}\t{score:.4}\t{head}\t{relation}\t{tail}")?;
    }
    Ok(())
}

/// Writes a line of JSON for each edge.
pub(super) fn write_json(out: &mut dyn Write, edges: &[MissingEdge]) -> io::Result<()> {
    for edge in edges {
        let line = EdgeJson {
            head: &edge.head,
            relation: &edge.relation,
            tail: &edge.tail,
            rank: edge.rank,
            score: edge.score,
        };
        serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Returns an edge as a row of a table.
pub(super) fn row(edge: &MissingEdge) -> PredictedEdge<'_> {
    PredictedEdge {
        head: &edge.head,
        relation: &edge.relation,
        tail: &edge.tail,
        asked: "edge",
        rank: edge.rank,
        score: edge.score,
    }
}

/// Prints missing edges on standard output.
///
/// # Errors
/// When they cannot be printed.
pub(super) fn print_all(edges: &[MissingEdge], json: bool) -> Result<()> {
    match json {
        true => terminal::print_raw(|out| write_json(out, edges)),
        false => terminal::print(|out| print(out, edges)),
    }
}
