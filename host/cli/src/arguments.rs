//! The argument tree. Each command declares its own options beside its code.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pbg_core::config::split_override;

use crate::commands;
use crate::exit_codes;
use crate::terminal::Color;

/// Trains embeddings of graphs larger than memory.
///
/// A graph is a list of edges (left entity, relation, right entity). Training gives every entity a
/// vector and every relation an operator, so that edges that exist score higher than edges that do
/// not. Entities are split into partitions, only a few of which are in memory at a time; the order
/// in which they are visited is decided by a plugin, a sandboxed WebAssembly component.
#[derive(Debug, Parser)]
#[command(
    name = "pbg-host",
    bin_name = "pbg-host",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "Start with `pbg-host config default > pbg.toml`; `pbg-host COMMAND --help` has examples.",
    after_long_help = long_footer(),
)]
pub(crate) struct Arguments {
    /// Options that every command takes.
    #[command(flatten)]
    pub(crate) global: Global,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that every command takes.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Say more about what happens.
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,
    /// When to use colours; `auto` honours NO_COLOR.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Global options"
    )]
    pub(crate) color: Color,
}

/// What to do. The help of a command stands beside its code.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Import(commands::import::Args),
    Train(commands::train::Args),
    Eval(commands::eval::Args),
    Neighbors(commands::neighbors::Args),
    Score(commands::score::Args),
    Export(commands::export::Args),
    Check(commands::check::Args),
    #[command(subcommand)]
    Config(commands::config::Command),
    #[command(subcommand)]
    Plugin(commands::plugin::Command),
    #[command(subcommand)]
    Bench(commands::bench::Command),
    Generate(commands::generate::Args),
    Report(commands::report::Args),
    #[command(subcommand)]
    Orders(commands::orders::Command),
    Completions(commands::completions::Args),
}

/// Which configuration, and what to change in it.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Configuration [default: pbg.toml of the working folder].
    #[arg(value_name = "CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Options that change it.
    #[command(flatten)]
    pub(crate) overrides: Overrides,
}

/// Changes to a configuration.
#[derive(Clone, Debug, Args)]
pub(crate) struct Overrides {
    /// Change a key of the configuration, as in `--set num_epochs=10` or
    /// `--set entities.user.num_partitions=4`; can be repeated. Paths are relative to the working
    /// folder, while those in the file are relative to the file.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = split_override, display_order = 900)]
    pub(crate) set: Vec<(String, String)>,
}

/// What the user wants of colours, as far as it can be told before the arguments are parsed.
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

fn long_footer() -> String {
    format!(
        "A first run:\n  \
         pbg-host config default > pbg.toml\n  \
         pbg-host import pbg.toml --edges train=train.tsv --edges test=test.tsv\n  \
         pbg-host check pbg.toml\n  \
         pbg-host train pbg.toml\n  \
         pbg-host eval pbg.toml --edges test --filter train,test\n  \
         pbg-host neighbors pbg.toml NAME\n\n{}",
        exit_codes::help_text()
    )
}

/// Reads a number of bytes: `4096`, `64K`, `512M` or `512MiB`, `2G`, with 1024 bytes to the `K`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 1,
        "M" | "MB" | "MIB" => 2,
        "G" | "GB" | "GIB" => 3,
        "T" | "TB" | "TIB" => 4,
        _ => return Err("not a size, as 512M or 2G are".to_owned()),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: Option<f64> = digits.parse().ok().filter(|_| plain);
    let number = number.ok_or("not a size, as 512M or 2G are")?;
    let bytes = number * 1024_f64.powi(power);
    if !(1.0..=1e18).contains(&bytes) {
        return Err("not a size that memory can have".to_owned());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("4096", 4096),
            ("64k", 64 << 10),
            ("512M", 512 << 20),
            ("1.5GiB", 3 << 29),
            ("2TB", 2 << 40),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in [
            "", "M", "-1M", "1e3M", "12 X", "0", "inf", "nan", "9999999T",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

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
