//! `pbg-host completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::Arguments;
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

/// Prints the script.
///
/// # Errors
/// When standard output cannot be written.
pub(crate) fn run(args: &Args) -> Result<()> {
    // The generator panics where writing fails, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Arguments::command(),
        "pbg-host",
        &mut script,
    );
    terminal::print(|out| out.write_all(&script))
}
