//! `pbg-host score`.

use std::io::{self, BufRead, BufWriter, Read, Write};

use pbg_train::Resolved;

use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};
use crate::load;
use crate::options::TrainedArgs;
use crate::terminal::Terminal;

/// Longest line that is read: three names and more.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Score triples from standard input.
///
/// Reads lines of three columns separated by tabs: left entity, relation, right entity. Writes one
/// score per line, in the same order. Higher is better; scores are comparable for the same relation
/// only. Fails at the first name that the dataset does not have.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  printf 'dog.n.01\\t_hypernym\\tanimal.n.01\\n' | pbg-host score pbg.toml
  cut -f1-3 test.tsv | pbg-host score pbg.toml | paste test.tsv - > scored.tsv")]
pub(crate) struct Args {
    /// Which model.
    #[command(flatten)]
    model: TrainedArgs,
}

/// Scores.
///
/// # Errors
/// When the model cannot be opened, a line has no three columns or a name is unknown.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let TrainedArgs { config, which } = &args.model;
    let resolved = Resolved::new(load::trained(config.as_deref(), which, terminal)?)?;
    let mut model = resolved.query()?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut input = io::stdin().lock();
    for number in 1_u64.. {
        let Some(line) = read_line(&mut input, number)? else {
            break;
        };
        let [lhs, relation, rhs] = columns(&line, number)?;
        let score = model
            .score(lhs, relation, rhs)
            .map_err(|e| Failure::from(e).context(format!("standard input, line {number}")))?;
        writeln!(out, "{score}").map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)
}

/// The next line without its end; `None` after the last.
fn read_line(input: &mut impl BufRead, number: u64) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes);
    let read = read.map_err(|e| Failure::new(Kind::Io, e).context("cannot read standard input"))?;
    if read == 0 {
        return Ok(None);
    }
    let bad =
        |what: &str| Failure::message(Kind::Data, format!("standard input, line {number}: {what}"));
    if bytes.len() as u64 > MAX_LINE_BYTES {
        return Err(bad("longer than 1 MiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| bad("not valid UTF-8"))?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

fn columns(line: &str, number: u64) -> Result<[&str; 3]> {
    let columns: Vec<&str> = line.split('\t').collect();
    let found = columns.len();
    columns.try_into().map_err(|_| {
        let text = format!("standard input, line {number}: {found} columns instead of 3");
        Failure::message(Kind::Data, text)
            .help("each line is left entity, relation, right entity, separated by tabs")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_they_like() {
        let mut input = "a\tb\tc\r\nd\te\tf\n\ng".as_bytes();
        let mut lines = Vec::new();
        while let Some(line) = read_line(&mut input, 1).unwrap() {
            lines.push(line);
        }
        assert_eq!(lines, ["a\tb\tc", "d\te\tf", "", "g"]);
    }

    #[test]
    fn endless_and_undecodable_lines_are_errors() {
        let check = |bytes: &[u8], word: &str| {
            let failure = read_line(&mut &*bytes, 9).unwrap_err();
            assert!(failure.lines()[0].1.contains(word) && failure.lines()[0].1.contains("line 9"));
            assert_eq!(failure.kind(), Kind::Data);
        };
        check(&vec![b'a'; 3 << 20], "1 MiB");
        check(b"\xff\n", "UTF-8");
    }

    #[test]
    fn three_columns() {
        assert_eq!(columns("a b\tr\tc", 1).unwrap(), ["a b", "r", "c"]);
        assert!(
            columns("a\tb", 7).unwrap_err().lines()[0]
                .1
                .contains("line 7: 2 columns")
        );
    }
}
