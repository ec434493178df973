//! `pbg-host plugin`.

use std::io::{self, Write};

use pbg_wasm::{Inspection, Limits, Parameter, PluginSource, Sandbox, standard};
use serde::Serialize;

use crate::failure::Result;
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
}

/// Runs the command.
///
/// # Errors
/// When a plugin cannot be loaded or standard output cannot be written.
pub(crate) fn run(command: &Command, terminal: Terminal) -> Result<()> {
    let sandbox = Sandbox::new(Limits::default())?.with_log(std::sync::Arc::new({
        move |_, line: &str| terminal.detail(line)
    }));
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
    }
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
