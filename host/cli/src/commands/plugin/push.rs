//! `pbg-host plugin push`.

use std::path::PathBuf;

use pbg_registry::ComponentDescription;
use pbg_wasm::{PluginInfo, PluginSource};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::format;
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::terminal::{self, Terminal};

use super::loading::sandbox;
use super::registry::{client, failed, reference};

/// Push a plugin to an OCI registry.
///
/// The component is loaded as `plugin inspect` loads it first. It is stored in the layout that the CNCF describes for
/// WebAssembly, so other programs for such registries can read it. The same component always has the same digest.
/// Encryption and credentials are as for `plugin pull`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin push my_order.wasm oci://ghcr.io/me/my_order:1.0")]
pub(crate) struct Args {
    /// Component file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to store it; without a tag, the tag is `latest`.
    #[arg(value_name = "oci://HOST/REPOSITORY:TAG")]
    reference: String,
    /// Limits of the plugin.
    #[command(flatten)]
    limits: LimitArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was pushed, as printed in JSON.
#[derive(Serialize)]
struct PushedPlugin<'a> {
    /// Reference with the digest of the manifest.
    reference: String,
    /// Digest of the manifest that the tag named before, if it was another one.
    replaced: Option<String>,
    #[serde(flatten)]
    inspection: &'a PluginInfo,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let reference = reference(&args.reference)?;
    let limits = args.limits.limits()?;
    let bytes = pbg_files::read(&args.file, limits.component_bytes)
        .map_err(|error| Failure::new(FailureKind::Plugin, error))?;
    let label = args.file.display().to_string();
    let source = PluginSource::Bytes {
        label,
        bytes: bytes.clone(),
    };
    let plugin = sandbox(limits, terminal)?.open(source)?;
    let inspection = plugin.inspection();
    let pushed = client(reference.clone())?
        .push(bytes, &described(inspection))
        .map_err(failed)?;
    terminal.print_line(format_args!(
        "pushed {} {}, a {}, {}",
        inspection.metadata.name,
        inspection.metadata.version,
        inspection.kind,
        format::bytes(inspection.size)
    ));
    if let (Some(before), Some(tag)) = (&pushed.replaced, reference.tag()) {
        terminal.print_line(format_args!(
            "the tag {tag} has moved; before, it was {before}"
        ));
    }
    let shown = PushedPlugin {
        reference: pushed.reference.to_string(),
        replaced: pushed.replaced.map(|digest| digest.to_string()),
        inspection,
    };
    terminal::print_result(args.json, &shown, |out| {
        writeln!(out, "{}", shown.reference)
    })
}

fn described(inspection: &PluginInfo) -> ComponentDescription {
    let metadata = &inspection.metadata;
    ComponentDescription {
        name: metadata.name.clone(),
        version: metadata.version.clone(),
        summary: metadata.summary.clone(),
        imports: inspection.imports.clone(),
        exports: inspection.exports.clone(),
    }
}
