//! `pbg-host plugin new`.

use std::path::PathBuf;

use pbg_author::{CreateError, Language, ProjectKind};

use crate::failure::{Failure, Result};
use crate::kind;
use crate::terminal::{self, Terminal};

/// Start a plugin: a small project that works, with a test and a manual.
///
/// The project builds on its own, with the tools of its language: Cargo and the target
/// wasm32-unknown-unknown for Rust, componentize-py for Python, componentize-qjs for JavaScript,
/// clang and lld for C. The SDK comes with pbg-host and is part of the project.
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
    /// What it decides.
    #[arg(long)]
    kind: KindArg,
    /// A loss that computes itself, for what no formula can say; slower. In Rust only.
    #[arg(long)]
    computed: bool,
    /// What to write it in.
    #[arg(long = "lang", value_name = "LANGUAGE")]
    language: LanguageArg,
    /// Folder of the project, which must be empty or new [default: NAME].
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum KindArg {
    /// In which order buckets are trained.
    Order,
    /// Of which relation the next batch is.
    Sampler,
    /// What a positive with its negatives costs, as a formula.
    Loss,
    /// How a relation transforms an embedding, as a formula.
    Operator,
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
    let kind = match (args.kind, args.computed) {
        (KindArg::Order, false) => ProjectKind::Order,
        (KindArg::Sampler, false) => ProjectKind::Sampler,
        (KindArg::Loss, false) => ProjectKind::Loss,
        (KindArg::Loss, true) => ProjectKind::ComputedLoss,
        (KindArg::Operator, false) => ProjectKind::Operator,
        (KindArg::Operator, true) => {
            let text = "--computed is for losses: operators are always formulas";
            return Err(Failure::message(kind::FailureKind::Usage, text));
        }
        (KindArg::Order | KindArg::Sampler, true) => {
            let text = "--computed is for losses: orders and samplers are always code";
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
    let files = pbg_author::create(&args.name, kind, language, &folder).map_err(failure)?;
    for file in &files {
        terminal.say(format_args!("  wrote {}", folder.join(file).display()));
    }
    let readme = folder.join("README.md");
    terminal.help(format_args!(
        "`pbg-host plugin build {}` builds it; {} says what the language's tools have to be",
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
