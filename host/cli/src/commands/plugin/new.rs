//! `pbg-host plugin new`.

use std::path::PathBuf;

use pbg_author::{CreateError, Language, World};

use crate::failure::{Failure, Result};
use crate::kind;
use crate::terminal::{self, Terminal};

/// Create the project of a new plugin: a small working example with a test and a README.
///
/// The project builds with the tools of its language: Cargo and the target wasm32-unknown-unknown for
/// Rust, componentize-py for Python, componentize-qjs for JavaScript, clang and lld for C. It contains a
/// copy of the SDK.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin new my_order --kind order --lang rust
  pbg-host plugin new my_order --kind order --lang python --path ~/orders/mine
  pbg-host plugin new my_loss --kind loss --computed --lang rust
  pbg-host plugin new my_operator --kind operator --lang js")]
pub(crate) struct Args {
    /// Name of the plugin: lower-case letters, digits and underscores.
    name: String,
    /// Kind of strategy.
    #[arg(long)]
    kind: KindArg,
    /// Create a computed loss, which is code instead of a formula: more general and slower. In Rust only.
    #[arg(long)]
    computed: bool,
    /// Programming language.
    #[arg(long = "lang", value_name = "LANGUAGE")]
    language: LanguageArg,
    /// Folder of the project, which must be empty or new [default: NAME].
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum KindArg {
    /// Bucket order: the order in which buckets are trained.
    Order,
    /// Relation sampler: the relation type of the next batch.
    Sampler,
    /// Negative sampler: how likely each entity is among the negatives, as a distribution.
    Negatives,
    /// Negative selector: the negatives of each chunk of edges, chosen by code while the model is trained.
    NegativeSelector,
    /// Loss of a positive with its negatives, as a formula.
    Loss,
    /// Operator with which a relation transforms an embedding, as a formula.
    Operator,
    /// Comparator: the score of two embeddings, as a formula.
    Comparator,
    /// Learning rate schedule: the factor of the learning rates in each pass.
    Schedule,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LanguageArg {
    /// Rust.
    Rust,
    /// Python.
    Python,
    /// JavaScript.
    #[value(alias = "javascript")]
    Js,
    /// C.
    C,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let world = match (args.kind, args.computed) {
        (KindArg::Order, false) => World::Order,
        (KindArg::Sampler, false) => World::Sampler,
        (KindArg::Loss, false) => World::TracedLoss,
        (KindArg::Loss, true) => World::ComputedLoss,
        (KindArg::Operator, false) => World::Operator,
        (KindArg::Negatives, false) => World::Negatives,
        (KindArg::NegativeSelector, false) => World::NegativeSelector,
        (KindArg::Comparator, false) => World::Comparator,
        (KindArg::Schedule, false) => World::Schedule,
        (KindArg::Comparator, true) => {
            let text = "--computed is for losses: comparators are always formulas";
            return Err(Failure::message(kind::FailureKind::Usage, text));
        }
        (KindArg::Operator, true) => {
            let text = "--computed is for losses: operators are always formulas";
            return Err(Failure::message(kind::FailureKind::Usage, text));
        }
        (KindArg::Negatives, true) => {
            let text = "--computed is for losses: negative samplers are always distributions";
            return Err(Failure::message(kind::FailureKind::Usage, text));
        }
        (
            KindArg::Order | KindArg::Sampler | KindArg::NegativeSelector | KindArg::Schedule,
            true,
        ) => {
            let text = "--computed is for losses: orders, samplers, selectors and schedules are always code";
            return Err(Failure::message(kind::FailureKind::Usage, text));
        }
    };
    let language = match args.language {
        LanguageArg::Rust => Language::Rust,
        LanguageArg::Python => Language::Python,
        LanguageArg::Js => Language::JavaScript,
        LanguageArg::C => Language::C,
    };
    let folder = args.path.clone().unwrap_or_else(|| (&args.name).into());
    let files = pbg_author::create(&args.name, world, language, &folder).map_err(failure)?;
    for file in &files {
        terminal.print_line(format_args!("  wrote {}", folder.join(file).display()));
    }
    let readme = folder.join("README.md");
    terminal.help(format_args!(
        "`pbg-host plugin build {}` builds it; {} lists the required tools of the language",
        folder.display(),
        readme.display()
    ));
    terminal::print(|out| writeln!(out, "{}", folder.display()))
}

fn failure(error: CreateError) -> Failure {
    let kind = match error {
        CreateError::Name { .. } | CreateError::Occupied { .. } | CreateError::TooSlow { .. } => {
            kind::FailureKind::Usage
        }
        CreateError::Write { .. } => kind::FailureKind::Io,
        _ => kind::FailureKind::Internal,
    };
    Failure::new(kind, error)
}
