//! Writes the edge sets as compressed TSV, and counts the triples of each relation.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

use super::edge_sets::EdgeSets;

pub(crate) fn write(sets: &EdgeSets, out: &Path) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    for (name, triples) in sets.named() {
        let path = out.join(format!("{name}.tsv.gz"));
        let text: String = triples.iter().map(|triple| format!("{triple}\n")).collect();
        let bytes = compress(&text).with_context(|| format!("cannot compress {name}"))?;
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{}", table(&count(sets)));
    Ok(())
}

/// Compresses with gzip. The header has neither time nor file name, so the same text gives the same bytes.
fn compress(text: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes())?;
    encoder.finish()
}

/// Number of triples of each relation in train, valid and test.
pub(crate) type TripleCounts<'a> = BTreeMap<&'a str, [usize; 3]>;

fn count(sets: &EdgeSets) -> TripleCounts<'_> {
    let mut counts = TripleCounts::new();
    for (set_idx, (_, triples)) in sets.named().into_iter().enumerate() {
        for triple in triples {
            counts.entry(triple.rel).or_default()[set_idx] += 1;
        }
    }
    counts
}

/// Returns the Markdown table of the example's README.
pub(crate) fn table(counts: &TripleCounts<'_>) -> String {
    let total = counts.values().fold([0; 3], |sum, n| {
        [sum[0] + n[0], sum[1] + n[1], sum[2] + n[2]]
    });
    let row = |name: &str, [train, valid, test]: [usize; 3]| {
        format!(
            "| {name} | {train} | {valid} | {test} | {} |\n",
            train + valid + test
        )
    };
    let mut text = "| relation | train | valid | test | all |\n|---|--:|--:|--:|--:|\n".to_owned();
    text.extend(counts.iter().map(|(name, n)| row(name, *n)));
    text + &row("all", total)
}
