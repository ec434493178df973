//! `pbg-host plugin`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pbg_wasm::{Grant, Inspection, Limits, Parameter, PluginSource, Replay, Sandbox, standard};
use serde::Serialize;

use crate::cache;
use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};
use crate::format;
use crate::terminal::{self, Terminal};

/// List plugins, or look into one.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the standard plugins, which a configuration names without a path.
    #[command(after_help = "Examples:\n  pbg-host plugin list\n  pbg-host plugin list --json")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show which slot a plugin fills, its parameters, and what it imports.
    #[command(after_help = "\
Examples:
  pbg-host plugin inspect inside_out
  pbg-host plugin inspect target/plugins/my_order.wasm")]
    Inspect {
        /// Component file, or name of a standard plugin.
        #[arg(value_name = "FILE|NAME")]
        plugin: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Ask a plugin again what it was asked when it failed.
    ///
    /// A plugin that fails while training leaves the arguments of the failing call in the folder
    /// `faults` of the checkpoint. The exit code is 6 if it fails again.
    #[command(after_help = "\
Examples:
  pbg-host plugin replay model/faults/my_order-plan-1.json
  pbg-host plugin replay model/faults/my_order-plan-1.json --plugin target/plugins/my_order.wasm")]
    Replay {
        /// File in the folder `faults` of a checkpoint.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Ask this plugin instead of the one that failed: one that was mended.
        #[arg(long, value_name = "FILE|NAME")]
        plugin: Option<String>,
        /// Folder that the plugin may read; can be repeated.
        #[arg(long = "read", value_name = "FOLDER")]
        folders: Vec<PathBuf>,
    },
}

/// Runs the command.
///
/// # Errors
/// When a plugin cannot be loaded or standard output cannot be written.
pub(crate) fn run(command: &Command, terminal: Terminal) -> Result<()> {
    let mut sandbox = Sandbox::new(Limits::default())?.with_log(std::sync::Arc::new({
        move |_, line: &str| terminal.detail(line)
    }));
    if let Some(cache) = cache::open(terminal) {
        sandbox = sandbox.with_cache(cache);
    }
    match command {
        Command::List { json } => {
            let mut all = Vec::new();
            for plugin in standard() {
                all.push(
                    sandbox
                        .open(PluginSource::Standard(plugin))?
                        .inspection()
                        .clone(),
                );
            }
            if *json {
                terminal::print_json(&all)
            } else {
                terminal::print(|out| list(out, &all))
            }
        }
        Command::Inspect { plugin, json } => {
            let source = PluginSource::resolve(plugin)?;
            let label = source.label();
            let plugin = sandbox.open(source)?;
            let inspection = plugin.inspection();
            if *json {
                #[derive(Serialize)]
                struct Labelled<'a> {
                    source: String,
                    #[serde(flatten)]
                    inspection: &'a Inspection,
                }
                return terminal::print_json(&Labelled {
                    source: label,
                    inspection,
                });
            }
            terminal::print(|out| show(out, &label, inspection))
        }
        Command::Replay {
            file,
            plugin,
            folders,
        } => replay(file, plugin.as_deref(), folders, terminal),
    }
}

fn replay(file: &Path, other: Option<&str>, folders: &[PathBuf], terminal: Terminal) -> Result<()> {
    let replay = Replay::read(file).map_err(|error| Failure::new(Kind::Usage, error))?;
    let name = &replay.plugin.name;
    let grant = Grant {
        plugin: name.clone(),
        read: folders.to_vec(),
    };
    let sandbox = Sandbox::new(replay.limits.clone())?
        .with_log(std::sync::Arc::new(move |_, line: &str| terminal.say(line)))
        .with_grants(vec![grant]);
    let plugin = sandbox.open(PluginSource::resolve(other.unwrap_or(&replay.source))?)?;
    if other.is_none() && plugin.id() != replay.plugin {
        let text = format!("{} is no longer the {name} that failed", replay.source);
        let help = "`--plugin FILE` asks another one the same";
        return Err(Failure::message(Kind::Plugin, text).help(help));
    }
    let answer = replay
        .ask(plugin)?
        .map_err(|error| Failure::new(Kind::Plugin, error))?;
    terminal::print(|out| writeln!(out, "it does not fail here; it answers {answer}"))
}

fn list(out: &mut dyn Write, all: &[Inspection]) -> io::Result<()> {
    let width = all.iter().map(|i| i.metadata.name.len()).max().unwrap_or(0);
    for Inspection { kind, metadata, .. } in all {
        writeln!(
            out,
            "{:width$}  {}  {kind}  {}",
            metadata.name, metadata.version, metadata.summary
        )?;
    }
    Ok(())
}

fn show(out: &mut dyn Write, label: &str, inspection: &Inspection) -> io::Result<()> {
    let metadata = &inspection.metadata;
    writeln!(
        out,
        "{} {}: {}",
        metadata.name, metadata.version, metadata.summary
    )?;
    writeln!(out, "  source    {label}")?;
    writeln!(out, "  kind      {}", inspection.kind)?;
    writeln!(out, "  built for {}", inspection.wit)?;
    let imports = if inspection.imports.is_empty() {
        "nothing".to_owned()
    } else {
        inspection.imports.join(", ")
    };
    writeln!(out, "  imports   {imports}")?;
    if inspection.reads_files {
        writeln!(
            out,
            "  asks for  files: [[plugins.grants]] plugin = \"{}\", read = [\"FOLDER\"]",
            metadata.name
        )?;
    }
    writeln!(out, "  size      {}", format::bytes(inspection.size))?;
    writeln!(out, "  sha256    {}", inspection.sha256)?;
    if metadata.parameters.is_empty() {
        return writeln!(out, "  takes no parameters");
    }
    writeln!(
        out,
        "  parameters, in [plugins.params.{}] of a configuration:",
        metadata.name
    )?;
    for Parameter { name, doc, kind } in &metadata.parameters {
        writeln!(out, "    {name} = {}  # {kind}", kind.default_value())?;
        writeln!(out, "        {doc}")?;
    }
    Ok(())
}
