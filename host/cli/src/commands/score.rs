//! `pbg-host score`.

use std::io::{self, BufWriter, Write};

use pbg_core::graph::Side;
use pbg_model::ResolvedConfig;
use pbg_query::Calibration;

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
  pbg-host calibrate pbg.toml --edges valid && pbg-host score pbg.toml --probability < edges.tsv
  cut -f1-3 test.tsv | pbg-host score pbg.toml | paste test.tsv - > scored.tsv")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// Also write the probability that `calibrate` has fitted, after a tab.
    #[arg(long)]
    probability: bool,
}

/// Runs the command.
///
/// # Errors
/// When the model cannot be opened, a line does not have three columns, or a name is unknown.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let calibration = calibration(&resolved, args.probability, terminal)?;
    let mut model = pbg_query::QueryModel::open(&resolved)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut input = LineReader::of_stdin();
    while let Some(line) = input.next()? {
        let [lhs, relation, rhs] = columns(&line, &input)?;
        let score = model
            .score(lhs, relation, rhs)
            .map_err(|e| Failure::from(e).context(input.location()))?;
        let written = match &calibration {
            None => writeln!(out, "{score}"),
            Some(curves) => {
                let probability = curves.probability(Side::Lhs, score);
                writeln!(out, "{score}\t{probability:.4}")
            }
        };
        written.map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)
}

/// Reads the calibration of a model if it is `wanted`, and prints what its probabilities refer to.
///
/// # Errors
/// When there is none for this version of the model.
pub(crate) fn calibration(
    resolved: &ResolvedConfig,
    wanted: bool,
    terminal: Terminal,
) -> Result<Option<Calibration>> {
    if !wanted {
        return Ok(None);
    }
    let found = Calibration::of(resolved)?;
    terminal.print_line(super::calibrate::mixture(&found));
    Ok(Some(found))
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
