//! The `pbg-host` program: parses the command line, calls the other crates and prints results.
//!
//! Only this crate prints and decides exit codes. Modules, in reading order: the argument tree ([`arguments`]) with one
//! module per command ([`commands`]), loading of the configuration ([`load`]), loading libtorch where it is needed
//! ([`libtorch`]), the display of a run ([`progress`]), Ctrl-C ([`interrupt`]). Configurations, plugins and
//! failures are handled in `pbg_session`, which the Python package uses too.

mod address_space;
mod arguments;
mod bars;
mod cluster_options;
mod cluster_status;
mod cluster_waits;
mod commands;
mod comparator_price;
mod format;
mod interrupt;
mod interruptible_reader;
mod libtorch;
mod limits;
mod line_reader;
mod load;
mod metrics_server;
mod model_notes;
mod options;
mod output;
mod partition_servers;
mod processor;
mod progress;
mod provenance;
mod scratch;
mod tables;
mod tensorboard;
mod terminal;
mod terminal_front_end;
mod training_metrics;

use std::io::{self, Write as _};
use std::panic;

use clap::{CommandFactory, FromArgMatches};
use pbg_wasm::CompilerProcess;

use crate::arguments::Arguments;
use pbg_session::{failure, kind, metrics, model_summary, object_stores, plugins};

use crate::failure::Failure;
use crate::kind::FailureKind;
use crate::terminal::Terminal;

/// Runs the command that the arguments of this process name, and exits.
pub fn main() -> ! {
    let code = run();
    // Nothing is written after this. Output that cannot be written now is lost, as at any exit.
    let _lost = io::stdout().flush();
    // As `_exit`: the destructors of libtorch take a fifth of a second and have nothing to save.
    signal_hook::low_level::exit(code)
}

/// Runs the command that the arguments name and returns the exit code.
fn run() -> i32 {
    // This process is the child that compiles a plugin for another process of this program.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == CompilerProcess::ARGUMENT)
    {
        return match CompilerProcess::serve() {
            Ok(()) => 0,
            Err(_) => i32::from(FailureKind::Internal.code()),
        };
    }
    address_space::limit_arenas();
    // The parser prints its own messages before the option `--color` is parsed.
    let command = Arguments::command().color(arguments::color_choice(std::env::args_os()).into());
    let arguments = match command
        .try_get_matches()
        .and_then(|mut matches| Arguments::from_arg_matches_mut(&mut matches))
    {
        Ok(arguments) => arguments,
        Err(mut error) => {
            arguments::name_key(&mut error, std::env::args_os());
            // As for every other message, a failure to write to standard error is ignored.
            let _unread = error.print();
            return error.exit_code();
        }
    };
    let terminal = Terminal::detect(arguments.global.color, arguments.global.verbose);
    object_stores::register(Box::new(move |text| terminal.print_line(text)));
    let result =
        panic::catch_unwind(|| commands::run(arguments.command, Arguments::command(), terminal))
            .unwrap_or_else(|_| {
                let failure = Failure::message(
                    FailureKind::Internal,
                    "internal error (a bug in pbg-host): the program panicked, see above",
                );
                Err(failure.help("please report it with the lines above"))
            });
    if let Some(bytes) = pbg_model::memory::peak_bytes() {
        let shown = format::bytes(bytes);
        terminal.detail(format_args!(
            "{shown} of main memory used at peak ({bytes} bytes)"
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
