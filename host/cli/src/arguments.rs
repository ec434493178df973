//! The argument tree: the program, its global options and its commands.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, ValueEnum};
use pbg_config::key_named;

use crate::commands::Command;
use crate::kind;
use crate::limits;
use crate::terminal::Color;

/// Trains embeddings of graphs larger than memory.
///
/// A graph is a list of edges (left entity, relation, right entity). Training gives every entity a
/// vector and every relation an operator, so that existing edges score higher than other edges.
/// Entities are split into partitions, of which only a few are in memory at once. A plugin, which is
/// a sandboxed WebAssembly component, decides the order in which partitions are visited.
#[derive(Debug, Parser)]
#[command(
    name = "pbg-host",
    bin_name = "pbg-host",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Start with `pbg-host config new --preset complex > pbg.toml`; `pbg-host COMMAND --help` has examples.",
    after_long_help = long_footer(),
)]
pub(crate) struct Arguments {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Print more details.
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,
    /// When to use colours; `auto` respects NO_COLOR.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub(crate) color: Color,
}

/// Returns the value of `--color`, as far as it can be determined before the arguments are parsed.
pub(crate) fn color_choice(arguments: impl Iterator<Item = OsString>) -> Color {
    let mut choice = Color::default();
    let mut value_follows = false;
    for argument in arguments {
        let Some(text) = argument.to_str() else {
            continue;
        };
        if text == "--" {
            break;
        }
        let value = if value_follows {
            Some(text)
        } else {
            text.strip_prefix("--color=")
        };
        value_follows = text == "--color";
        if let Some(color) = value.and_then(|v| Color::from_str(v, false).ok()) {
            choice = color;
        }
    }
    choice
}

/// Adds a tip to the error about an unknown option if a key of the configuration has its name: to use `--set`.
pub(crate) fn name_key(error: &mut clap::Error, arguments: impl Iterator<Item = OsString>) {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return;
    };
    let name = option.strip_prefix("--").and_then(|o| o.split('=').next());
    let words: Vec<OsString> = arguments.collect();
    let key = name.and_then(|name| {
        let limit = limit_of_plugins(&words).filter(|_| name == "limit");
        Some((name, limit.or_else(|| key_named(name))?))
    });
    let (ErrorKind::UnknownArgument, Some((name, key))) = (error.kind(), key) else {
        return;
    };
    // If the parser suggests a similar option, the tip is added only for the exact name of a key.
    let is_near_another = error.get(ContextKind::SuggestedArg).is_some();
    let is_it = key.rsplit('.').next() == Some(&*name.replace('-', "_"));
    if (is_it || !is_near_another) && takes_keys(words.into_iter()) {
        let tip = format!("`--set {key}=VALUE` sets this key of the configuration");
        let tip = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tip);
    }
}

/// Returns the key of the limit in `--limit KEY=NUMBER`, an option of commands without a configuration.
fn limit_of_plugins(words: &[OsString]) -> Option<String> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    let option = words.find(|word| word.starts_with("--limit"))?;
    let given = match option.strip_prefix("--limit=") {
        Some(given) => given,
        None => words.next()?,
    };
    let key = key_named(given.split('=').next()?)?;
    key.starts_with(limits::KEYS).then_some(key)
}

/// Returns whether the command that `arguments` name has the option `--set`.
fn takes_keys(arguments: impl Iterator<Item = OsString>) -> bool {
    let mut command = Arguments::command();
    for argument in arguments.skip(1) {
        if let Some(below) = command.find_subcommand(&argument) {
            command = below.clone();
        }
    }
    command
        .get_arguments()
        .any(|argument| argument.get_long() == Some("set"))
}

fn long_footer() -> String {
    format!(
        "A first run:\n  \
         pbg-host config new --preset complex > pbg.toml\n  \
         pbg-host import pbg.toml --edges train=train.tsv --edges test=test.tsv\n  \
         pbg-host check pbg.toml\n  \
         pbg-host train pbg.toml\n  \
         pbg-host eval pbg.toml --edges test --filter train,test\n  \
         pbg-host neighbors pbg.toml NAME\n\n{}",
        kind::help_text()
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_tree_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn colours_are_known_before_parsing() {
        let choice = |args: &[&str]| color_choice(args.iter().map(OsString::from));
        assert_eq!(choice(&["pbg-host", "train"]), Color::Auto);
        assert_eq!(
            choice(&["pbg-host", "--color", "never", "train"]),
            Color::Never
        );
        assert_eq!(
            choice(&["pbg-host", "train", "--color=always"]),
            Color::Always
        );
        assert_eq!(choice(&["pbg-host", "--color=mauve"]), Color::Auto);
        assert_eq!(choice(&["pbg-host", "--", "--color=always"]), Color::Auto);
    }
}
