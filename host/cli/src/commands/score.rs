//! `pbg-host score`.

use std::io::{self, BufWriter, Write};

use crate::failure::{Failure, Result};
use crate::line_reader::LineReader;
use crate::load;
use crate::options::TrainedArgs;
use crate::terminal::Terminal;

/// Score triples from standard input.
///
/// Reads lines of three columns separated by tabs: left entity, relation, right entity. Writes one
/// score per line, in the same order. Higher is better; only scores of the same relation are
/// comparable. Stops with an error at the first unknown name.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  printf 'dog.n.01\\thypernym\\tcanine.n.02\\n' | pbg-host score pbg.toml
  cut -f1-3 test.tsv | pbg-host score pbg.toml | paste test.tsv - > scored.tsv")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
}

/// Runs the command.
///
/// # Errors
/// When the model cannot be opened, a line does not have three columns, or a name is unknown.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let mut model = pbg_query::QueryModel::open(&resolved)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut input = LineReader::of_stdin();
    while let Some(line) = input.next()? {
        let [lhs, relation, rhs] = columns(&line, &input)?;
        let score = model
            .score(lhs, relation, rhs)
            .map_err(|e| Failure::from(e).context(input.location()))?;
        writeln!(out, "{score}").map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)
}

/// Splits the last line read into its three columns.
pub(crate) fn columns<'l>(line: &'l str, input: &LineReader) -> Result<[&'l str; 3]> {
    let columns: Vec<&str> = line.split('\t').collect();
    let found = columns.len();
    columns.try_into().map_err(|_| {
        let failure = input.error_at_line(format_args!("{found} columns instead of 3"));
        failure.help("each line must be left entity, relation and right entity, separated by tabs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_columns() {
        let input = LineReader::of_stdin();
        assert_eq!(columns("a b\tr\tc", &input).unwrap(), ["a b", "r", "c"]);
        let failure = columns("a\tb", &input).unwrap_err();
        assert!(failure.lines()[0].1.contains(": 2 columns"));
    }
}
