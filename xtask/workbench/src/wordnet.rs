//! Turns the database files of WordNet 3.0 into the triples of `examples/wordnet`.
//!
//! The output depends only on the input, not on a clock, random state or the iteration order of a hash map.

mod database;
mod edge_sets;
mod relation;
mod split;
mod write;

use std::path::Path;

use anyhow::Result;

use xtask::step;

pub(crate) use database::Triple;

/// Reads the `data.*` and `index.*` files in `dict`, writes the three edge sets to `out`, and prints their counts.
pub(crate) fn run(dict: &Path, out: &Path) -> Result<()> {
    step::announce(&format!(
        "reading the WordNet database in {}",
        dict.display()
    ));
    let triples = database::read(dict)?;
    step::announce(&format!("splitting {} triples", triples.len()));
    let sets = split::split(triples)?;
    step::announce(&format!("writing the edge sets into {}", out.display()));
    write::write(&sets, out)
}

#[cfg(test)]
mod tests;
