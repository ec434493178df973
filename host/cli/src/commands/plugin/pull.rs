//! `pbg-host plugin pull`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pbg_registry::{PulledComponent, RegistryReference, TagState};
use pbg_wasm::{LoadedPlugin, PluginInfo, PluginSource};
use serde::Serialize;

use crate::failure::{Failure, Result};
use crate::format;
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::terminal::{self, Terminal};

use super::loading::sandbox;
use super::registry::{client, failed, reference};

/// Pull a plugin from an OCI registry, check it, and print the lines that pin it.
///
/// The component is checked against the digests of its reference and its manifest, and loaded as `plugin inspect` loads
/// it, before a file is written. Registries are asked over HTTPS, except on this machine. Credentials come from
/// PBG_REGISTRY (the host that they are for), PBG_REGISTRY_USER and PBG_REGISTRY_PASSWORD, or from Docker's
/// configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin pull oci://ghcr.io/me/my_order:1.0
  pbg-host plugin pull oci://ghcr.io/me/my_order@sha256:DIGEST --out plugins/my_order.wasm")]
pub(crate) struct Args {
    /// Component in a registry; without tag and digest, the tag is `latest`.
    #[arg(value_name = "oci://HOST/REPOSITORY[:TAG][@sha256:DIGEST]")]
    reference: String,
    /// File to write [default: the last part of the repository with .wasm, in the current folder].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file with other content.
    #[arg(long, visible_alias = "force")]
    overwrite: bool,
    /// Limits of the plugin.
    #[command(flatten)]
    limits: LimitArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What was pulled, as printed in JSON.
#[derive(Serialize)]
struct PulledPlugin<'a> {
    /// Reference with the digest of the manifest.
    reference: String,
    /// Digest of the manifest.
    manifest: String,
    /// File that has the component.
    file: String,
    #[serde(flatten)]
    inspection: &'a PluginInfo,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let reference = reference(&args.reference)?;
    let file = match &args.out {
        Some(file) => file.clone(),
        None => PathBuf::from(format!("{}.wasm", reference.last_part())),
    };
    if file.is_dir() {
        let what = format!("{} is a folder; name a file with --out", file.display());
        return Err(Failure::message(FailureKind::Usage, what));
    }
    let limits = args.limits.limits()?;
    let sandbox = sandbox(limits.clone(), terminal)?;
    let pulled = client(reference.clone())?
        .pull(limits.component_bytes)
        .map_err(failed)?;
    let source = PluginSource::Bytes {
        label: pulled.reference.to_string(),
        bytes: pulled.bytes.clone(),
    };
    let plugin = sandbox.open(source)?;
    store(&file, &pulled.bytes, args.overwrite, terminal)?;
    say_tag(&reference, &pulled, terminal);
    show(args, &file, &pulled, &plugin)
}

/// Writes the component to a file, unless the file has it already.
fn store(file: &Path, bytes: &[u8], overwrite: bool, terminal: Terminal) -> Result<()> {
    let limit = bytes.len() as u64;
    let is_same = match file.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::io("cannot read", file, error)),
        Ok(_) => {
            // What is not a regular file, or larger, is another content.
            let is_equal = pbg_files::read(file, limit).is_ok_and(|content| content == bytes);
            Some(is_equal)
        }
    };
    match is_same {
        Some(true) => {
            terminal.print_line(format_args!("{} has this content already", file.display()));
            Ok(())
        }
        Some(false) if !overwrite => Err(Failure::message(
            FailureKind::Usage,
            format!(
                "{} exists with other content; name another file with --out, or replace it with --overwrite",
                file.display()
            ),
        )),
        _ => {
            let written = pbg_files::replace(file, bytes);
            written.map_err(|error| Failure::new(FailureKind::Io, error))
        }
    }
}

/// Says what a tag means, which may name another component later.
fn say_tag(reference: &RegistryReference, pulled: &PulledComponent, terminal: Terminal) {
    let tag = reference.tag().unwrap_or_default();
    match (&pulled.tag, reference.digest()) {
        (Some(TagState::Pulled), None) => {
            let digest = pulled.reference.digest();
            let digest = digest.map(ToString::to_string).unwrap_or_default();
            terminal.print_line(format_args!("the tag {tag} is now {digest}"));
            terminal.help(format_args!(
                "a tag may name another component later; `pbg-host plugin pull {}` always pulls this one",
                pulled.reference
            ));
        }
        (Some(TagState::Other(digest)), _) => terminal.warn(format_args!(
            "the tag {tag} has moved: it is now {digest}; what was pulled is the digest of the reference"
        )),
        (Some(TagState::Missing), _) => terminal.warn(format_args!(
            "the registry has no tag {tag} any more; what was pulled is the digest of the reference"
        )),
        (Some(TagState::Pulled) | None, _) => {}
    }
}

fn show(args: &Args, file: &Path, pulled: &PulledComponent, plugin: &LoadedPlugin) -> Result<()> {
    let inspection = plugin.inspection();
    let digest = pulled.reference.digest();
    let shown = PulledPlugin {
        reference: pulled.reference.to_string(),
        manifest: digest.map(ToString::to_string).unwrap_or_default(),
        file: file.display().to_string(),
        inspection,
    };
    terminal::print_result(args.json, &shown, |out| print(out, &shown))
}

/// Prints what was pulled; the last lines can be copied to a configuration.
fn print(out: &mut dyn Write, shown: &PulledPlugin<'_>) -> io::Result<()> {
    let info = shown.inspection;
    let (name, size) = (&info.metadata.name, format::bytes(info.size));
    writeln!(
        out,
        "{name} {}: {}",
        info.metadata.version, info.metadata.summary
    )?;
    writeln!(out, "  kind       {}", info.kind)?;
    writeln!(out, "  reference  {}", shown.reference)?;
    writeln!(out, "  manifest   {}", shown.manifest)?;
    writeln!(out, "  file       {}, {size}", shown.file)?;
    writeln!(out, "  sha256     {}", info.sha256)?;
    writeln!(
        out,
        "\n# The pin, for the configuration of a run that uses it:"
    )?;
    writeln!(out, "[[plugins.pins]]")?;
    writeln!(out, "plugin = \"{name}\"")?;
    writeln!(out, "sha256 = \"{}\"", info.sha256)
}
