//! The `pbg-host` program, with libtorch and without: reads the command line, calls the layers beneath, shows what they say.
//!
//! Only this crate prints and decides exit codes. Modules, in reading order: the argument tree
//! ([`arguments`]) with one module per command ([`commands`]), the configuration that a command line names ([`load`]), the
//! program with libtorch ([`relay`]), how a run is shown ([`progress`]), Ctrl-C ([`interrupt`]). What a configuration,
//! plugins and failures are stands in `pbg_session`, since the Python package begins with the same.

mod addresses;
mod arguments;
mod commands;
mod facts;
mod format;
mod front;
mod interrupt;
mod limits;
mod lines;
mod load;
mod notes;
mod options;
mod output;
mod patient;
mod progress;
mod relay;
mod scratch;
mod tensorboard;
mod terminal;
mod together;
mod trainers;

use std::io::{self, Write as _};
use std::panic;

use clap::{CommandFactory, FromArgMatches};
use pbg_wasm::Compiler;

use crate::arguments::Arguments;
use pbg_session::{failure, kind, metrics, plugins};

use crate::failure::Failure;
use crate::kind::FailureKind;
use crate::terminal::Terminal;

/// Does what the arguments of this process ask for, and ends the process.
pub fn main() -> ! {
    let code = run();
    // Nothing is written after this, so what cannot be written now is lost, as it would be at any exit.
    let _lost = io::stdout().flush();
    // As `_exit`: libtorch takes a fifth of a second to take itself apart, and has nothing to save.
    signal_hook::low_level::exit(code)
}

/// The exit code of what the arguments ask for.
fn run() -> i32 {
    // The child that compiles a plugin for another process of this program.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == Compiler::ARGUMENT)
    {
        return match Compiler::serve() {
            Ok(()) => 0,
            Err(_) => i32::from(FailureKind::Internal.code()),
        };
    }
    addresses::save();
    // The parser's own messages come before there are parsed arguments that say how to colour them.
    let command = Arguments::command().color(arguments::color_choice(std::env::args_os()).into());
    let arguments = match command
        .try_get_matches()
        .and_then(|mut matches| Arguments::from_arg_matches_mut(&mut matches))
    {
        Ok(arguments) => arguments,
        Err(mut error) => {
            arguments::name_key(&mut error, std::env::args_os());
            // As with every other message, nothing can be said about one that nobody can read.
            let _unread = error.print();
            return error.exit_code();
        }
    };
    let terminal = Terminal::detect(arguments.global.color, arguments.global.verbose);
    let result =
        panic::catch_unwind(|| commands::run(arguments.command, Arguments::command(), terminal))
            .unwrap_or_else(|_| {
                let failure = Failure::message(
                    FailureKind::Internal,
                    "a part of the program panicked, see above",
                );
                Err(failure
                    .help("this is a defect of pbg-host; please report it with the lines above"))
            });
    if let Some(bytes) = pbg_train::peak_bytes() {
        let shown = format::bytes(bytes);
        terminal.detail(format_args!(
            "at most {shown} of main memory were occupied ({bytes} bytes)"
        ));
    }
    match result {
        Ok(()) => 0,
        Err(failure) if failure.is_closed_pipe() => 0,
        Err(failure) => {
            if failure.kind() != FailureKind::Interrupted {
                terminal.failure(&failure);
            }
            i32::from(failure.kind().code())
        }
    }
}
