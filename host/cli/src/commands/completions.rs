//! `pbg-host completions`.

use clap_complete::Shell;

use crate::failure::Result;
use crate::terminal;

/// Print the completion script of a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host completions bash > ~/.local/share/bash-completion/completions/pbg-host
  pbg-host completions zsh  > \"${fpath[1]}/_pbg-host\"
  pbg-host completions fish > ~/.config/fish/completions/pbg-host.fish")]
pub(crate) struct Args {
    /// Which shell.
    shell: Shell,
}

/// Prints the script for `tree`, the whole of what the program takes.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(args: &Args, mut tree: clap::Command) -> Result<()> {
    // The generator panics where writing fails, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut tree, "pbg-host", &mut script);
    terminal::print_as_it_is(|out| out.write_all(&script))
}
