//! `pbg-host plugin inspect`.

use std::io::{self, Write};

use pbg_wasm::{PluginInfo, PluginParameter};
use serde::Serialize;

use crate::failure::Result;
use crate::format;
use crate::limits::LimitArgs;
use crate::terminal::{self, Terminal};

use super::loading::{open, sandbox};

/// Show the kind of a plugin, its parameters and its imports.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin inspect inside_out
  pbg-host plugin inspect my_order.wasm")]
pub(crate) struct Args {
    /// Component file, or name of a standard plugin or of a plugin in PBG_PLUGIN_PATH.
    #[arg(value_name = "FILE|NAME")]
    plugin: String,
    /// Limits of the plugin.
    #[command(flatten)]
    limits: LimitArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Labelled<'a> {
    source: String,
    #[serde(flatten)]
    inspection: &'a PluginInfo,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let sandbox = sandbox(args.limits.limits()?, terminal)?;
    let (plugin, source) = open(&sandbox, &args.plugin)?;
    let inspection = plugin.inspection();
    let labelled = Labelled { source, inspection };
    terminal::print_result(args.json, &labelled, |out| show(out, &labelled))
}

fn show(out: &mut dyn Write, Labelled { source, inspection }: &Labelled<'_>) -> io::Result<()> {
    let metadata = &inspection.metadata;
    writeln!(
        out,
        "{} {}: {}",
        metadata.name, metadata.version, metadata.summary
    )?;
    writeln!(out, "  source    {source}")?;
    writeln!(out, "  kind      {}", inspection.kind)?;
    if let Some(fallback) = &metadata.fallback {
        writeln!(out, "  fallback  {fallback}")?;
    }
    writeln!(out, "  built for {}", inspection.wit)?;
    let imports = match &inspection.imports[..] {
        [] => "nothing".to_owned(),
        imports => imports.join(", "),
    };
    writeln!(out, "  imports   {imports}")?;
    if inspection.reads_files {
        let note = match inspection.has_interpreter {
            true => " (it contains an interpreter, which imports every interface, used or not)",
            false => "",
        };
        writeln!(
            out,
            "  asks for  files: [[plugins.grants]] plugin = \"{}\", read = [\"FOLDER\"]{note}",
            metadata.name
        )?;
    }
    writeln!(out, "  size      {}", format::bytes(inspection.size))?;
    writeln!(out, "  sha256    {}", inspection.sha256)?;
    if metadata.parameters.is_empty() {
        return writeln!(out, "  no parameters");
    }
    writeln!(
        out,
        "  parameters, in [plugins.params.{}] of a configuration:",
        metadata.name
    )?;
    for PluginParameter { name, doc, kind } in &metadata.parameters {
        writeln!(out, "    {name} = {}  # {kind}", kind.default_value())?;
        writeln!(out, "        {doc}")?;
    }
    Ok(())
}
