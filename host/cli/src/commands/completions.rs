//! `pbg-host completions`.

mod names;

use clap_complete::Shell;
use pbg_config as config;

use crate::failure::Result;
use crate::plugins;
use crate::terminal;

const NAME: &str = "pbg-host";
const PLAIN_NAME: &str = "pbghost";

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host completions bash > ~/.local/share/bash-completion/completions/pbg-host
  pbg-host completions zsh  > \"${fpath[1]}/_pbg-host\"
  pbg-host completions fish > ~/.config/fish/completions/pbg-host.fish")]
pub(crate) struct Args {
    /// Shell to complete for.
    shell: Shell,
}

/// Prints the completion script for `tree`, the argument tree of the program.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(args: &Args, mut tree: clap::Command) -> Result<()> {
    // The generator panics when writing fails, so it writes to memory.
    let mut script = Vec::new();
    if args.shell != Shell::Bash {
        clap_complete::generate(args.shell, &mut tree, NAME, &mut script);
        return terminal::print_raw(|out| out.write_all(&script));
    }
    // The generator writes the hyphen of a name in two ways, so that the script finds no subcommands (clap#6421).
    clap_complete::generate(args.shell, &mut tree, PLAIN_NAME, &mut script);
    let script = String::from_utf8_lossy(&script);
    let named = script
        .replace(&format!(" {PLAIN_NAME}\n"), &format!(" {NAME}\n"))
        .replace("complete -F _pbghost ", "complete -F _pbghost_names ");
    let names = names::script(&config::schema(&plugins::installed(&[])));
    terminal::print_raw(|out| out.write_all((names + &named).as_bytes()))
}
