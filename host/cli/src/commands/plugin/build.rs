//! `pbg-host plugin build`.

use std::path::{Path, PathBuf};

use pbg_author::{Language, ProjectManifest, World};
use pbg_wasm::{LoadError, LoadedPlugin, PluginSlot, PluginSource};
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::format;
use crate::limits::LimitArgs;
use crate::terminal::{self, Terminal};

use super::loading::sandbox;

/// Build the project of a plugin as a component.
///
/// Calls the tools of the project's language and shows their messages, encodes their output as a component, and loads
/// it with the default parameters to find errors. Projects in Rust compile their dependencies in a folder that all of
/// them share (PBG_HOST_CACHE), unless a variable of Cargo names another one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin build
  pbg-host plugin build my_order")]
pub(crate) struct Args {
    /// Folder of the project.
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Limits of the plugin.
    #[command(flatten)]
    limits: LimitArgs,
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let limits = args.limits.limits()?;
    let manifest = ProjectManifest::read(&args.folder)?;
    if matches!(manifest.language, Language::Python | Language::JavaScript) {
        let (name, language) = (&manifest.name, manifest.language);
        terminal.print_line(format_args!(
            "building {name} with its {language} interpreter, which takes a few seconds"
        ));
    }
    let shared = pbg_session::plugin_builds();
    let built = pbg_author::build(&args.folder, shared.as_deref())?;
    let shown = shortest(&built.component);
    let opened = sandbox(limits, terminal)?.open(PluginSource::File(built.component));
    let plugin = opened.map_err(|error| with_export_hint(error.into(), &manifest))?;
    if let Err(error) = configured(&plugin) {
        // The plugin may require a parameter, which cannot be told apart from a bug in it.
        terminal.warn(format_args!("with default parameters, {error}"));
    }
    let inspection = plugin.inspection();
    terminal.print_line(format_args!(
        "{} {}: a {} in {}, {}",
        inspection.metadata.name,
        inspection.metadata.version,
        inspection.kind,
        built.manifest.language,
        format::bytes(inspection.size)
    ));
    terminal.help(format_args!(
        "`pbg-host plugin check {0}` checks its promises, `pbg-host train --plugin {0}` trains with it",
        shown.display()
    ));
    terminal::print(|out| writeln!(out, "{}", shown.display()))
}

/// Instantiates the plugin with its default parameters; one that is a formula also builds it.
fn configured(plugin: &LoadedPlugin) -> Result<(), LoadError> {
    let (plugin, defaults) = (plugin.clone(), &Value::Null);
    match plugin.inspection().kind {
        PluginSlot::BucketOrder => plugin.into_order(defaults).map(drop),
        PluginSlot::RelationSampler => plugin.into_sampler(defaults).map(drop),
        PluginSlot::TracedLoss | PluginSlot::ComputedLoss => plugin.into_loss(defaults).map(drop),
        PluginSlot::TracedOperator => plugin.into_operator(defaults).map(drop),
        PluginSlot::Comparator => plugin.into_comparator(defaults).map(drop),
        PluginSlot::NegativeSampler => plugin.into_negatives(defaults).map(drop),
        PluginSlot::NegativeSelector => plugin.into_selector(defaults).map(drop),
        PluginSlot::RateSchedule => plugin.into_schedule(defaults).map(drop),
        _ => Ok(()),
    }
}

/// Adds the most likely cause if a crate compiles but exports no plugin.
fn with_export_hint(failure: Failure, manifest: &ProjectManifest) -> Failure {
    let nothing = format!("{:#}", failure.error()).contains("exports nothing");
    if !nothing || manifest.language != Language::Rust {
        return failure;
    }
    let export = match manifest.world {
        World::Order => "export_order",
        World::Sampler => "export_sampler",
        World::TracedLoss => "export_traced_loss",
        World::ComputedLoss => "export_computed_loss",
        World::TracedOperator | World::Operator => "export_traced_operator",
        World::Comparator => "export_traced_comparator",
        World::Negatives => "export_negatives",
        World::NegativeSelector => "export_negative_selector",
        World::Schedule => "export_schedule",
    };
    failure.help(format!(
        "src/lib.rs must export the type of the plugin: `{export}!(TYPE);`"
    ))
}

/// Removes a leading `./`.
fn shortest(path: &Path) -> PathBuf {
    path.strip_prefix(".").unwrap_or(path).to_owned()
}
