//! `pbg-host generate`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use pbg_import::generate::RandomGraph;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal::Terminal;

/// Generate a random graph whose degrees follow a power law, for tests of scale.
///
/// Writes one edge per line, in three columns separated by tabs: `e17 r2 e4`. Edges are written as they are generated,
/// so memory does not depend on their number. With `--groups` the graph has structure to learn: each relation connects
/// groups of entities.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host generate --entities 5000000 --edges 50000000 --relations 20 --out big.tsv
  pbg-host generate --entities 20000 --edges 400000 --relations 40 --groups 1000 --out planted.tsv
  pbg-host generate --entities 1000 --edges 10000 --relations 3 --seed 7 | gzip > small.tsv.gz")]
pub(crate) struct Args {
    /// Number of entities; some of the last ones may have no edges.
    #[arg(long, value_name = "N")]
    entities: u64,
    /// Number of edges.
    #[arg(long, value_name = "M")]
    edges: u64,
    /// Number of relations.
    #[arg(long, value_name = "R", default_value_t = 1)]
    relations: u64,
    /// Exponent of the power law: the k-th entity has k^-SKEW times as many edges as the first. 0: uniform.
    #[arg(long, default_value_t = 0.8)]
    skew: f64,
    /// Number of groups of entities that relations connect [default: the right entity does not depend on the left one].
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    groups: u64,
    /// Fraction of edges that ignore the groups.
    #[arg(long, value_name = "F", default_value_t = 0.1, requires = "groups")]
    noise: f64,
    /// Seed of random numbers; the same seed gives the same edges.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// File to write [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When the numbers do not define a graph or the edges cannot be written.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let graph = RandomGraph {
        entities: args.entities,
        edges: args.edges,
        relations: args.relations,
        skew: args.skew,
        groups: args.groups,
        noise: args.noise,
        seed: args.seed,
    };
    if let Some(complaint) = graph.check() {
        return Err(Failure::message(FailureKind::Usage, complaint));
    }
    match &args.out {
        Some(path) => {
            let failed = |e: io::Error| Failure::io("cannot write", path, e);
            let file = File::create(path).map_err(failed)?;
            graph
                .write(&mut BufWriter::new(file), |_| ())
                .map_err(failed)?;
            terminal.print_line(format!("{}: {} edges", path.display(), args.edges));
            Ok(())
        }
        None => {
            let mut out = io::stdout().lock();
            graph.write(&mut out, |_| ()).map_err(Failure::stdout)?;
            out.flush().map_err(Failure::stdout)
        }
    }
}
