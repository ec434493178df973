//! The `pbg-host` program: reads the command line, calls the layers beneath, shows what they say.
//!
//! Only this crate prints and decides exit codes. Modules, in reading order: the argument tree
//! ([`arguments`]) with one module per command ([`commands`]), configuration and plugins as a
//! command line names them ([`load`], [`plugins`]), how a run is shown ([`progress`]), Ctrl-C
//! ([`interrupt`]), and what a failure looks like ([`failure`], [`causes`], [`exit_codes`]).

mod arguments;
mod cache;
mod causes;
mod commands;
mod exit_codes;
mod failure;
mod format;
mod interrupt;
mod load;
mod metrics;
mod notes;
mod options;
mod output;
mod plugins;
mod progress;
mod tensorboard;
mod terminal;

use std::panic;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use pbg_wasm::Compiler;

use crate::arguments::Arguments;
use crate::exit_codes::Kind;
use crate::failure::Failure;
use crate::terminal::Terminal;

fn main() -> ExitCode {
    // The child that compiles a plugin for another process of this program.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == Compiler::ARGUMENT)
    {
        return match Compiler::serve() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::from(Kind::Internal.code()),
        };
    }
    // The parser's own messages come before there are parsed arguments that say how to colour them.
    let command = Arguments::command().color(arguments::color_choice(std::env::args_os()).into());
    let arguments = match command
        .try_get_matches()
        .and_then(|mut matches| Arguments::from_arg_matches_mut(&mut matches))
    {
        Ok(arguments) => arguments,
        Err(error) => error.exit(),
    };
    let terminal = Terminal::detect(arguments.global.color, arguments.global.verbose);
    let result =
        panic::catch_unwind(|| commands::run(arguments.command, Arguments::command(), terminal))
            .unwrap_or_else(|_| {
                let failure =
                    Failure::message(Kind::Internal, "a part of the program panicked, see above");
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
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            if failure.kind() != Kind::Interrupted {
                terminal.failure(&failure);
            }
            ExitCode::from(failure.kind().code())
        }
    }
}
