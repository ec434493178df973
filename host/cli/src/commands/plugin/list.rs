//! `pbg-host plugin list`.

use std::io::{self, Write};

use pbg_wasm::{Limits, PluginInfo, PluginSource, standard_plugins};
use serde::Serialize;

use crate::failure::Result;
use crate::plugins::search_path;
use crate::terminal::{self, Terminal};

use super::loading::sandbox;

/// List the standard plugins and the plugins in the folders of the environment variable
/// PBG_PLUGIN_PATH, all of which a configuration can name without a path.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin list
  PBG_PLUGIN_PATH=~/plugins pbg-host plugin list
  pbg-host plugin list --json")]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listed {
    source: String,
    #[serde(flatten)]
    inspection: PluginInfo,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let sandbox = sandbox(Limits::default(), terminal)?;
    let mut all = Vec::new();
    for plugin in standard_plugins() {
        all.push(Listed {
            source: "standard".to_owned(),
            inspection: sandbox
                .open(PluginSource::Standard(plugin))?
                .inspection()
                .clone(),
        });
    }
    for file in search_path().files() {
        let source = file.display().to_string();
        // A file that is not a plugin must not hide the others.
        match sandbox.open(PluginSource::File(file)) {
            Ok(plugin) => all.push(Listed {
                source,
                inspection: plugin.inspection().clone(),
            }),
            Err(error) => terminal.warn(error),
        }
    }
    terminal::print_result(args.json, &all, |out| print(out, &all))
}

fn print(out: &mut dyn Write, all: &[Listed]) -> io::Result<()> {
    let name = |listed: &Listed| listed.inspection.metadata.name.len();
    let width = all.iter().map(name).max().unwrap_or(0);
    for Listed { source, inspection } in all {
        let PluginInfo { kind, metadata, .. } = inspection;
        let source = match source.as_str() {
            "standard" => String::new(),
            source => format!("  ({source})"),
        };
        writeln!(
            out,
            "{:width$}  {}  {kind}  {}{source}",
            metadata.name, metadata.version, metadata.summary
        )?;
    }
    Ok(())
}
